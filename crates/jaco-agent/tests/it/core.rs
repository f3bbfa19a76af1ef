//! The agent's decisions, step by step, on a fake host with time as an argument.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_agent::core::PullAttempts;
use jaco_agent::engine::{
    ContainerRequest, EngineError, EngineEvent, Health, MountedFiles, PullError, PullRequest,
    StartError,
};
use jaco_agent::fake::{Behaviour, FakeDriver, FakeHost, ImageCheck, ImageScript, Reachability};
use jaco_agent::{AgentCore, Effect, Event, StateAge};
use jaco_state::view::{Attachment, DesiredInstance, Role};
use jaco_types::spec::{OnNodeLoss, PullPolicy, RestartPolicy, ServiceMode, ServiceSpec};
use jaco_types::{
    Exit, ImageDigest, ImageNeed, ImageReadiness, InstanceId, InstanceObserved, Ipv4Prefix, Millis,
    ReasonCode, RegistryName, ReplicaState, SpecHash, StateIndex, Timestamp,
};
use proptest::prelude::*;

use crate::names::{Desired, instance, owner, spec, spec_pulled, wanted, wanted_in, web};

/// A node: its agent, its engine, and what the cluster knows of it.
struct Node {
    core: AgentCore,
    driver: FakeDriver,
    now: Timestamp,
    index: u64,
    desired: Desired,
    observed: BTreeMap<InstanceId, InstanceObserved>,
    effects: Vec<Effect>,
}

impl Node {
    fn new() -> Self {
        let host = FakeHost::new(owner(1));
        let mut node = Self {
            core: AgentCore::new(owner(1)),
            driver: FakeDriver::new(host),
            now: Timestamp(1_000_000),
            index: 0,
            desired: Desired::new(),
            observed: BTreeMap::new(),
            effects: Vec::new(),
        };
        node.driver.host.set_image("app:1", ImageScript::Present);
        node
    }

    fn host(&mut self) -> &mut FakeHost {
        &mut self.driver.host
    }

    fn want<const N: usize>(
        &mut self,
        desired: [(InstanceId, jaco_state::view::DesiredInstance); N],
    ) {
        self.desired = desired.into_iter().collect();
        self.tell_desired();
    }

    fn tell_desired(&mut self) {
        self.index += 1;
        let index = StateIndex(self.index);
        let (desired, observed) = (self.desired.clone(), self.observed.clone());
        self.handle(Event::Desired { index, desired, observed });
        self.run_for(0);
    }

    fn handle(&mut self, event: Event) {
        for effect in self.core.handle(event, self.now) {
            self.effects.push(effect.clone());
            if let Effect::Report { observed, gone, joined } = &effect {
                for id in joined {
                    self.desired.get_mut(id).unwrap().attachment = Attachment::Joined;
                }
                for seen in observed {
                    self.observed.insert(seen.id.clone(), seen.clone());
                }
                for id in gone {
                    self.observed.remove(id);
                }
            }
            self.driver.execute(effect, self.now);
        }
    }

    /// Lets so many milliseconds pass.
    fn run_for(&mut self, millis: u64) {
        let until = self.now.after(Millis(millis));
        loop {
            for event in self.driver.poll(self.now) {
                self.handle(event);
            }
            let wake = self.core.wake_at().filter(|at| *at > self.now);
            let tick = Timestamp((self.now.0 / TICK + 1) * TICK);
            let next = [self.driver.next_at(), wake, Some(tick)].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            self.now = at.max(self.now);
            self.handle(if at == tick { Event::Tick } else { Event::Wake });
        }
        self.now = until;
    }

    /// The daemon is killed and started again; the engine and the cluster go on.
    fn restart_daemon(&mut self) {
        self.core = AgentCore::new(owner(1));
        self.driver.drop_jobs();
        self.effects.clear();
        self.tell_desired();
        self.run_for(0);
    }

    fn state(&self, id: &InstanceId) -> Option<(ReplicaState, Option<ReasonCode>)> {
        self.observed.get(id).map(|seen| (seen.state, seen.code))
    }

    fn reason(&self, id: &InstanceId) -> &str {
        &self.observed[id].details["reason"]
    }

    fn count(&self, wanted: impl Fn(&Effect) -> bool) -> usize {
        self.effects.iter().filter(|effect| wanted(effect)).count()
    }

    fn starts(&self) -> usize {
        self.count(|effect| matches!(effect, Effect::Start(_)))
    }

    fn reports(&self) -> usize {
        self.count(|effect| matches!(effect, Effect::Report { .. }))
    }

    fn containers(&self) -> Vec<InstanceId> {
        self.driver.host.list(self.now).into_iter().map(|seen| seen.instance).collect()
    }
}

/// The safety look of the loop, in milliseconds.
const TICK: u64 = 2000;

const RUNNING: Option<(ReplicaState, Option<ReasonCode>)> = Some((ReplicaState::Running, None));

#[test]
fn instance_runs_and_is_reported_once() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    assert_eq!(node.state(&id), RUNNING);
    // R-LOOP-4: nothing is written while nothing changes.
    let reports = node.reports();
    node.tell_desired();
    node.run_for(60_000);
    assert_eq!((node.reports(), node.starts()), (reports, 1));
}

/// A daemon that comes back adopts what runs, and has nothing new to say.
#[test]
fn running_containers_are_adopted() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    node.run_for(10_000);
    node.restart_daemon();
    node.run_for(10_000);
    assert_eq!((node.starts(), node.reports()), (0, 0), "{:?}", node.effects);
    assert_eq!(node.containers(), [id]);
}

/// A daemon that died between start and report adopts as well, and reports.
#[test]
fn unreported_container_is_adopted_and_reported() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    node.observed.clear();
    node.restart_daemon();
    assert_eq!((node.starts(), node.state(&id)), (0, RUNNING));
}

/// R-HEAL-1: an instance ends once. A restart is a new instance, decided by the planner.
#[test]
fn exited_instance_is_not_started_again() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    let now = node.now;
    node.host().kill(&id, Exit { code: 3, out_of_memory: true }, now);
    node.run_for(100);
    let failed = Some((ReplicaState::Failed, Some(ReasonCode::ContainerExited)));
    assert_eq!(node.state(&id), failed);
    assert_eq!(node.observed[&id].exit, Some(Exit { code: 3, out_of_memory: true }));
    assert_eq!(node.observed[&id].details["exit_code"], "3");
    node.run_for(60_000);
    node.restart_daemon();
    // R-HEAL-4: the container stays as long as its instance is wanted, so that its log can be read.
    assert_eq!((node.starts(), node.containers()), (0, vec![id.clone()]));
    node.want([]);
    node.run_for(100);
    assert!(node.containers().is_empty() && node.observed.is_empty());
}

#[test]
fn exit_code_0_is_stopped() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    let now = node.now;
    node.host().kill(&id, Exit { code: 0, out_of_memory: false }, now);
    node.run_for(100);
    let stopped = Some((ReplicaState::Stopped, Some(ReasonCode::ContainerExited)));
    assert_eq!(node.state(&id), stopped);
}

/// R-NODE-1: a node that is cut off for so long stops what asks for that, by its own rules, starts
/// nothing of the kind, and leaves everything else alone.
#[test]
fn isolated_node_stops_exclusive_instances() {
    let mut node = Node::new();
    let (alone, other, next) = (instance(0, 5), instance(1, 6), instance(2, 7));
    let spec_of = |on_node_loss| {
        let usual = spec("app:1", "");
        Arc::new(ServiceSpec { on_node_loss, ..usual.as_ref().clone() })
    };
    let after = Millis(20_000);
    let stops = spec_of(OnNodeLoss::StopSelf { after, grace: Millis(10_000) });
    let wanted_alone = wanted(&alone, Role::Current, &stops);
    let wanted_other = wanted(&other, Role::Current, &spec_of(OnNodeLoss::Wait));
    node.want([wanted_alone.clone(), wanted_other.clone()]);
    node.handle(Event::LeaderContact { elapsed: Millis(19_999), state: StateAge::Outdated });
    node.run_for(100);
    assert_eq!((node.state(&alone), node.state(&other)), (RUNNING, RUNNING));
    node.handle(Event::LeaderContact { elapsed: after, state: StateAge::Outdated });
    node.run_for(100);
    let isolated = Some((ReplicaState::Failed, Some(ReasonCode::NodeIsolated)));
    assert_eq!((node.state(&alone), node.state(&other)), (isolated, RUNNING));
    // What it learns of now it does not start before there is contact again.
    let starts = node.starts();
    node.want([wanted_alone, wanted_other, wanted(&next, Role::Current, &stops)]);
    node.run_for(5_000);
    assert_eq!(node.starts(), starts);
    // Contact alone does not say whether they were placed elsewhere.
    node.handle(Event::LeaderContact { elapsed: Millis(0), state: StateAge::Outdated });
    node.run_for(5_000);
    assert_eq!(node.starts(), starts);
    node.handle(Event::LeaderContact { elapsed: Millis(0), state: StateAge::Current });
    node.run_for(100);
    assert_eq!((node.state(&next), node.starts()), (RUNNING, starts + 1));
}

/// R-JOB-1: a job whose image arrives while the node is cut off, or before it has caught up afterwards, is not
/// started: it may have completed elsewhere meanwhile.
#[test]
fn t101_outdated_node_starts_no_job() {
    let mut node = Node::new();
    let (job, once, server) = (instance(0, 5), instance(1, 6), instance(2, 7));
    let usual = spec("app:1", "");
    let runs_to_its_end = ServiceSpec { mode: ServiceMode::Job, ..usual.as_ref().clone() };
    let is_not_restarted = ServiceSpec { restart: RestartPolicy::Never, ..usual.as_ref().clone() };
    node.handle(Event::LeaderContact { elapsed: Millis(6_000), state: StateAge::Outdated });
    node.want([
        wanted(&job, Role::Current, &Arc::new(runs_to_its_end)),
        wanted(&once, Role::Current, &Arc::new(is_not_restarted)),
        wanted(&server, Role::Current, &usual),
    ]);
    node.run_for(5_000);
    assert_eq!((node.state(&server), node.starts()), (RUNNING, 1));
    node.handle(Event::LeaderContact { elapsed: Millis(0), state: StateAge::Outdated });
    node.run_for(5_000);
    assert_eq!(node.starts(), 1);
    node.handle(Event::LeaderContact { elapsed: Millis(0), state: StateAge::Current });
    node.run_for(100);
    assert_eq!(node.starts(), 3);
}

/// A container that was removed by hand is missed at once, and not made again here: neither by
/// this daemon nor by the next one.
#[test]
fn missing_container_fails() {
    let missing = Some((ReplicaState::Failed, Some(ReasonCode::ContainerMissing)));
    let id = instance(0, 5);
    let mut node = Node::new();
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    node.host().remove_by_hand(&id);
    node.run_for(0);
    assert_eq!(node.state(&id), missing);
    // While the daemon was away, too.
    let mut node = Node::new();
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    node.host().remove_by_hand(&id);
    node.restart_daemon();
    assert_eq!((node.state(&id), node.starts()), (missing, 0));
}

/// R-HEAL-3: a container that is not wanted any more is stopped by its own rules, then removed,
/// then reported gone, with its deployment's networks.
#[test]
fn undesired_instance_is_stopped_removed_and_reported_gone() {
    let mut node = Node::new();
    let id = instance(0, 5);
    let slow = Behaviour { stop_takes: Millis(4000), ..Behaviour::default() };
    node.host().set_behaviour("app:1", slow);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    node.want([]);
    node.run_for(3999);
    assert_eq!(node.containers(), std::slice::from_ref(&id));
    node.run_for(10);
    assert!(node.containers().is_empty() && node.observed.is_empty());
    assert!(node.driver.host.networks().is_empty());
    let gone = |effect: &Effect| matches!(effect, Effect::Report { gone, .. } if !gone.is_empty());
    // EngineStats once, although the agent looks again and again.
    node.run_for(10_000);
    assert_eq!(node.count(gone), 1);
}

/// What the cluster still believes of a container that is gone for good is corrected.
#[test]
fn stale_reports_are_cleared() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    node.host().remove_by_hand(&id);
    node.desired.clear();
    node.restart_daemon();
    assert!(node.observed.is_empty());
}

/// R-RUN-2: pulling, then pending with the reason on each failure, again and again with a growing
/// pause, until it works.
#[test]
fn failing_pull_is_retried_with_back_off() {
    let mut node = Node::new();
    let id = instance(0, 5);
    let failing =
        |reason: &str| ImageScript::Failing { takes: Millis(100), reason: reason.to_owned() };
    node.host().set_image("app:2", failing("manifest unknown"));
    node.want([wanted(&id, Role::Current, &spec("app:2", ""))]);
    assert_eq!(node.state(&id), Some((ReplicaState::Pulling, Some(ReasonCode::Pulling))));
    node.run_for(100);
    let pending = Some((ReplicaState::Pending, Some(ReasonCode::ImagePullFailed)));
    assert_eq!((node.state(&id), node.reason(&id)), (pending, "app:2: manifest unknown"));
    let pulls = |node: &Node| node.count(|effect| matches!(effect, Effect::Pull(_)));
    let attempts = |node: &Node| node.core.pull_attempts().into_iter().collect::<Vec<_>>();
    let next_at = Some(node.now.after(Millis(1000)));
    assert_eq!(attempts(&node), [("app:2".into(), PullAttempts { made: 1, next_at })]);
    let reports = node.reports();
    // 1 + 2 + 4 + 8 + 16 + 30 + 30 s, and 100 ms for each attempt.
    node.run_for(91_000 + 700);
    assert_eq!((pulls(&node), node.reports()), (8, reports), "a new attempt is no transition");
    assert_eq!(attempts(&node)[0].1.made, 8);
    node.host().set_image("app:2", ImageScript::Pullable { takes: Millis(0) });
    node.run_for(30_000);
    assert_eq!(node.state(&id), RUNNING);
    assert_eq!(attempts(&node), []);
}

/// R-CLI-6: credentials that change wake the pulls that their registry refused, those of rollouts as well,
/// and no others.
#[test]
fn new_credentials_are_tried_immediately() {
    let mut node = Node::new();
    let failing =
        |reason: &str| ImageScript::Failing { takes: Millis(0), reason: reason.to_owned() };
    for image in ["ghcr.io/app:2", "quay.io/app:2", "ghcr.io/app:3"] {
        node.host().set_image(image, failing("no basic auth credentials"));
    }
    let (ours, other) = (instance(0, 5), instance(1, 5));
    node.want([
        wanted(&ours, Role::Current, &spec("ghcr.io/app:2", "")),
        wanted(&other, Role::Current, &spec("quay.io/app:2", "")),
    ]);
    let need = ImageNeed { spec: SpecHash([1; 32]), digest: None };
    node.handle(Event::Prepull([(need.clone(), spec("ghcr.io/app:3", ""))].into()));
    node.run_for(60_000);
    let has_failed =
        |node: &Node| matches!(node.core.prepulls()[&need], ImageReadiness::Failed { .. });
    assert!(has_failed(&node), "{:?}", node.core.prepulls());

    for image in ["ghcr.io/app:2", "quay.io/app:2", "ghcr.io/app:3"] {
        node.host().set_image(image, ImageScript::Pullable { takes: Millis(0) });
    }
    let changed =
        |registry| Event::RegistriesChanged([RegistryName::new(registry).unwrap()].into());
    node.handle(changed("docker.io"));
    node.run_for(0);
    assert!(has_failed(&node) && node.state(&ours) != RUNNING, "this is another registry");
    node.handle(changed("ghcr.io"));
    node.run_for(0);
    assert_eq!(node.state(&ours), RUNNING);
    assert_eq!(node.core.prepulls()[&need], ImageReadiness::Ready { digest: None });
    assert_ne!(node.state(&other), RUNNING, "its turn comes when its pause is over");
    node.run_for(30_000);
    assert_eq!(node.state(&other), RUNNING);
}

/// R-RUN-1: a slow pull freezes nothing else, and instances of one image share it.
#[test]
fn pulls_are_shared_and_do_not_block() {
    let mut node = Node::new();
    node.host().set_image("big:1", ImageScript::Pullable { takes: Millis(60_000) });
    let (a, b, c) = (instance(0, 5), instance(1, 5), instance(2, 5));
    let big = spec("big:1", "");
    node.want([
        wanted(&a, Role::Current, &big),
        wanted(&b, Role::Current, &big),
        wanted(&c, Role::Current, &spec("app:1", "")),
    ]);
    assert_eq!(node.state(&c), RUNNING);
    assert_eq!(node.count(|effect| matches!(effect, Effect::Pull(_))), 1);
    node.run_for(60_000);
    assert_eq!((node.state(&a), node.state(&b)), (RUNNING, RUNNING));
}

/// R-RUN-1: a newer instance of the slot takes the place of one that has not started yet; the pull
/// that nobody waits for any more is called off.
#[test]
fn newer_instance_cancels_a_queued_start() {
    let mut node = Node::new();
    node.host().set_image("big:1", ImageScript::Pullable { takes: Millis(60_000) });
    let (old, new) = (instance(0, 5), instance(0, 9));
    let big = spec("big:1", "");
    node.want([wanted(&old, Role::Current, &big)]);
    node.want([
        wanted(&new, Role::Current, &spec("app:1", "")),
        wanted(&old, Role::Retiring, &big),
    ]);
    assert_eq!(node.count(|effect| matches!(effect, Effect::CancelPull(_))), 1);
    node.run_for(120_000);
    assert_eq!((node.state(&new), node.containers()), (RUNNING, vec![new]));
}

/// R-RUN-1: a start that the engine is busy with is called off, and what it may have left is
/// removed.
#[test]
fn start_in_the_engine_is_cancelled() {
    let mut node = Node::new();
    let slow = Behaviour { start_takes: Millis(5000), ..Behaviour::default() };
    node.host().set_behaviour("app:1", slow);
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    node.run_for(100);
    node.want([]);
    assert_eq!(node.count(|effect| matches!(effect, Effect::CancelStart(_))), 1);
    node.run_for(10_000);
    assert!(node.containers().is_empty());
}

/// R-ROLL-2: during a handover the retiring instance keeps running beside the current one.
#[test]
fn retiring_instance_keeps_running() {
    let mut node = Node::new();
    let (old, new) = (instance(0, 5), instance(0, 9));
    let app = spec("app:1", "");
    node.want([wanted(&old, Role::Current, &app)]);
    node.want([wanted(&new, Role::Current, &app), wanted(&old, Role::Retiring, &app)]);
    assert_eq!(node.containers().len(), 2);
    node.want([wanted(&new, Role::Current, &app)]);
    node.run_for(10);
    assert_eq!(node.containers(), [new]);
}

/// R-ROLL-4: where the planner dropped the old instance at once, the two cannot run side by side,
/// and the new one waits for the end of the old one.
#[test]
fn new_instance_waits_for_a_dropped_one() {
    let mut node = Node::new();
    let slow = Behaviour { stop_takes: Millis(4000), ..Behaviour::default() };
    node.host().set_behaviour("app:1", slow);
    let (old, new) = (instance(0, 5), instance(0, 9));
    let app = spec("app:1", "");
    node.want([wanted(&old, Role::Current, &app)]);
    node.want([wanted(&new, Role::Current, &app)]);
    node.run_for(3900);
    assert_eq!((node.containers(), node.state(&new)), (vec![old], None));
    node.run_for(200);
    assert_eq!((node.containers(), node.state(&new)), (vec![new.clone()], RUNNING));
}

#[test]
fn declared_healthcheck_decides() {
    let mut node = Node::new();
    let slow = Behaviour {
        healthy_after: Millis(2000),
        unhealthy_after: Some(Millis(9000)),
        ..Behaviour::default()
    };
    node.host().set_behaviour("app:1", slow);
    let id = instance(0, 5);
    let checked = spec("app:1", r#""healthcheck":{"test":["CMD","ok"]}"#);
    node.want([wanted(&id, Role::Current, &checked)]);
    let starting = Some((ReplicaState::Starting, Some(ReasonCode::HealthPending)));
    assert_eq!(node.state(&id), starting);
    node.run_for(2000);
    assert_eq!(node.state(&id), RUNNING);
    node.run_for(7000);
    assert_eq!(node.state(&id), Some((ReplicaState::Degraded, Some(ReasonCode::Unhealthy))));
    assert_eq!(node.reason(&id), "the script says so");
    // The words of a failing check may differ each time: that it fails is said once.
    let reports = node.reports();
    node.host().set_health(&id, Health::Unhealthy { output: "otherwise".to_owned() });
    node.run_for(5000);
    assert_eq!(node.reports(), reports);
}

/// R-HEAL-1: a healthcheck that comes with the image decides where the manifest says nothing, and
/// counts for nothing where the manifest turns it off.
#[test]
fn image_healthcheck_decides_without_a_declared_one() {
    let starting = Some((ReplicaState::Starting, Some(ReasonCode::HealthPending)));
    let cases = [
        (r#""stop_grace_period":"1s""#, starting),
        (r#""healthcheck":{"interval":"1s"}"#, starting),
        (r#""healthcheck":{"disable":true}"#, RUNNING),
        (r#""healthcheck":{"test":["NONE"]}"#, RUNNING),
    ];
    for (keys, at_first) in cases {
        let mut node = Node::new();
        let checked = Behaviour {
            image_check: ImageCheck::Present,
            healthy_after: Millis(2000),
            unhealthy_after: Some(Millis(9000)),
            ..Behaviour::default()
        };
        node.host().set_behaviour("app:1", checked);
        let id = instance(0, 5);
        node.want([wanted(&id, Role::Current, &spec("app:1", keys))]);
        assert_eq!(node.state(&id), at_first, "{keys}");
        node.run_for(2000);
        assert_eq!(node.state(&id), RUNNING, "{keys}");
        node.run_for(7000);
        let degraded = Some((ReplicaState::Degraded, Some(ReasonCode::Unhealthy)));
        let at_last = if at_first == starting { degraded } else { RUNNING };
        assert_eq!(node.state(&id), at_last, "{keys}");
    }
}

/// A start that the engine refuses ends the instance with the engine's words.
#[test]
fn refused_start_fails_with_the_engine_message() {
    let mut node = Node::new();
    let refuse = Some("port is already allocated".to_owned());
    node.host().set_behaviour("app:1", Behaviour { refuse, ..Behaviour::default() });
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    node.run_for(60_000);
    assert_eq!(node.state(&id), Some((ReplicaState::Failed, Some(ReasonCode::EngineError))));
    assert_eq!((node.reason(&id), node.starts()), ("port is already allocated", 1));
}

#[test]
fn pull_policies_are_followed() {
    let pulls = |policy: PullPolicy, image: &str| {
        let mut node = Node::new();
        node.want([wanted(&instance(0, 5), Role::Current, &spec_pulled(image, "", policy))]);
        node.run_for(100);
        let pulls = node.count(|effect| matches!(effect, Effect::Pull(_)));
        (pulls, node.state(&instance(0, 5)).unwrap().0)
    };
    assert_eq!(pulls(PullPolicy::Missing, "app:1"), (0, ReplicaState::Running));
    assert_eq!(pulls(PullPolicy::Missing, "other:1"), (1, ReplicaState::Running));
    assert_eq!(pulls(PullPolicy::Always, "app:1"), (1, ReplicaState::Running));
    assert_eq!(pulls(PullPolicy::Never, "app:1"), (0, ReplicaState::Running));
    assert_eq!(pulls(PullPolicy::Never, "other:1"), (0, ReplicaState::Pending));
}

fn digest(digit: char) -> ImageDigest {
    ImageDigest::parse(&format!("web@sha256:{}", digit.to_string().repeat(64))).unwrap()
}

/// R-ROLL-5: once the digest of an image is pinned, that is pulled and run, also by an instance that waits for a pull by
/// its name.
#[test]
fn pinned_image_is_pulled_and_run_by_digest() {
    let mut node = Node::new();
    node.host().move_tag("web:1", &digest('b'));
    node.host().set_image("web:1", ImageScript::Pullable { takes: Millis(5000) });
    let (id, spec) = (instance(0, 5), spec("web:1", ""));
    let (_, by_name) = wanted(&id, Role::Current, &spec);
    node.want([(id.clone(), by_name.clone())]);
    node.run_for(1000);
    let settled = DesiredInstance { digest: Some(digest('a')), ..by_name };
    node.want([(id.clone(), settled)]);
    node.run_for(10_000);
    assert_eq!(node.state(&id), RUNNING);
    let images: Vec<String> = node
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Pull(pull) => Some(format!("pull {}", pull.image)),
            Effect::CancelPull(pull) => Some(format!("cancel {}", pull.image)),
            Effect::Start(request) => Some(format!("start {}", request.image)),
            Effect::List
            | Effect::Find(_)
            | Effect::CancelStart(_)
            | Effect::Stop { .. }
            | Effect::Remove { .. }
            | Effect::Join { .. }
            | Effect::RemoveNetworks { .. }
            | Effect::Report { .. } => None,
        })
        .collect();
    let (name, settled) = ("web:1", digest('a'));
    let expected = [
        format!("start {name}"),
        format!("pull {name}"),
        format!("start {settled}"),
        format!("cancel {name}"),
        format!("pull {settled}"),
        format!("start {settled}"),
    ];
    assert_eq!(images, expected);
}

/// R-ROLL-5: a node that prepares says what it found; asked for one content, it has that or nothing.
#[test]
fn prepulled_image_has_a_digest() {
    let mut node = Node::new();
    node.host().move_tag("web:2", &digest('a'));
    let need = |number: u8, digest| ImageNeed { spec: SpecHash([number; 32]), digest };
    let [by_name, by_digest, local] = [need(1, None), need(1, Some(digest('c'))), need(2, None)];
    let (web, app) = (spec("web:2", ""), spec("app:1", ""));
    let asked = [(&by_name, &web), (&by_digest, &web), (&local, &app)];
    let asked = asked.map(|(need, spec)| (need.clone(), Arc::clone(spec)));
    node.handle(Event::Prepull(asked.into()));
    node.run_for(1000);
    let ready = |digest| ImageReadiness::Ready { digest };
    let expected = [
        (by_name, ready(Some(digest('a')))),
        (by_digest, ready(Some(digest('c')))),
        (local, ready(None)),
    ];
    assert_eq!(node.core.prepulls(), expected.into());
}

/// While the engine does not answer nothing is said about replicas; afterwards all goes on.
#[test]
fn unreachable_engine_changes_nothing() {
    let mut node = Node::new();
    let (a, b) = (instance(0, 5), instance(1, 6));
    let app = spec("app:1", "");
    node.want([wanted(&a, Role::Current, &app)]);
    node.host().set_reachability(Reachability::Down);
    let before = node.observed.clone();
    node.want([wanted(&a, Role::Current, &app), wanted(&b, Role::Current, &app)]);
    node.run_for(20_000);
    assert_eq!(node.observed, before);
    node.host().set_reachability(Reachability::Up);
    node.run_for(31_000);
    assert_eq!((node.state(&a), node.state(&b)), (RUNNING, RUNNING));
    assert_eq!(node.containers().len(), 2);
}

/// An older state never undoes a newer one.
#[test]
fn older_state_is_ignored() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    let (desired, observed) = (Desired::new(), BTreeMap::new());
    node.handle(Event::Desired { index: StateIndex(0), desired, observed });
    node.run_for(100);
    assert_eq!(node.containers(), [id]);
}

/// A container that carries another owner's labels is not touched, even if the engine shows it.
#[test]
fn foreign_containers_are_not_touched() {
    let mut node = Node::new();
    let mut foreign = FakeHost::new(owner(2));
    foreign.set_image("app:1", ImageScript::Present);
    let request = ContainerRequest {
        instance: instance(7, 3),
        service: web(),
        image: "app:1".into(),
        container: "{}".into(),
        spec_hash: SpecHash([0; 32]),
        files: MountedFiles::default(),
        gpus: Vec::new(),
        networks: Vec::new(),
    };
    let seen = foreign.ensure_running(&request, node.now).unwrap();
    node.want([]);
    node.effects.clear();
    node.handle(Event::Engine(EngineEvent::Changed(seen.clone())));
    node.handle(Event::Listed(Ok(vec![seen])));
    assert!(node.effects.is_empty(), "{:?}", node.effects);
}

/// A list that was asked for before something happened does not undo it.
#[test]
fn list_older_than_an_event_is_ignored() {
    let mut node = Node::new();
    let id = instance(0, 5);
    let app = spec("app:1", r#""healthcheck":{"test":["CMD","ok"]}"#);
    node.want([wanted(&id, Role::Current, &app)]);
    let old = node.driver.host.list(node.now);
    let mut sick = old[0].clone();
    sick.status = jaco_agent::engine::ContainerStatus::Up {
        health: Health::Unhealthy { output: String::new() },
        started_at: node.now,
    };
    let effects = node.core.handle(Event::Tick, node.now);
    assert_eq!(effects, [Effect::List]);
    node.core.handle(Event::Engine(EngineEvent::Changed(sick)), node.now);
    let effects = node.core.handle(Event::Listed(Ok(old)), node.now);
    assert!(effects.is_empty(), "{effects:?}");
}

/// The answers of work that was called off, or done twice, surprise nobody.
#[test]
fn unexpected_answers_are_harmless() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    let reports = node.reports();
    let refused = EngineError::Refused { reason: "no such container".to_owned() };
    let pull = PullRequest { image: "app:1".into(), platform: None };
    let stray = PullError::Refused { reason: "late".to_owned() };
    node.handle(Event::Pulled { pull, result: Err(stray) });
    node.handle(Event::Stopped { instance: instance(9, 9), result: Err(refused.clone()) });
    node.handle(Event::Removed { instance: instance(9, 9), result: Err(refused) });
    node.run_for(1000);
    assert_eq!((node.reports(), node.state(&id)), (reports, RUNNING));
}

/// What may happen to a node in the law below.
#[derive(Debug, Clone)]
enum Blow {
    Want(Vec<(u64, Role)>),
    Wait(u64),
    RestartDaemon,
    Vanish(u64),
    Kill(u64),
    EngineDown,
    EngineUp,
    PowerCycle,
}

fn blow() -> impl Strategy<Value = Blow> {
    let role = prop_oneof![3 => Just(Role::Current), 1 => Just(Role::Retiring)];
    prop_oneof![
        prop::collection::vec((0..6u64, role), 0..4).prop_map(Blow::Want),
        (0..40_000u64).prop_map(Blow::Wait),
        Just(Blow::RestartDaemon),
        (0..6u64).prop_map(Blow::Vanish),
        (0..6u64).prop_map(Blow::Kill),
        Just(Blow::EngineDown),
        Just(Blow::EngineUp),
        Just(Blow::PowerCycle),
    ]
}

/// Six instances: three slots with two instances each.
fn numbered(number: u64) -> InstanceId {
    instance(number / 2, 10 + number % 2)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Laws AG-1 and R-LOOP-4 through every kind of trouble: no instance ever has two containers,
    /// none is started after it was reported to have run, and once the trouble is over, what is
    /// there is what is wanted and nothing more is said.
    #[test]
    fn desired_state_is_reached_after_faults(blows in prop::collection::vec(blow(), 1..20)) {
        let mut node = Node::new();
        let app = spec("app:1", r#""stop_grace_period":"3s""#);
        let behaviour = Behaviour {
            start_takes: Millis(700), stop_takes: Millis(1500), ..Behaviour::default()
        };
        node.host().set_behaviour("app:1", behaviour);
        node.tell_desired();
        for blow in blows {
            match blow {
                Blow::Want(instances) => {
                    node.desired = instances
                        .into_iter()
                        .map(|(number, role)| wanted(&numbered(number), role, &app))
                        .collect();
                    node.tell_desired();
                }
                Blow::Wait(millis) => node.run_for(millis),
                Blow::RestartDaemon => node.restart_daemon(),
                Blow::Vanish(number) => node.host().remove_by_hand(&numbered(number)),
                Blow::Kill(number) => {
                    let now = node.now;
                    let exit = Exit { code: 1, out_of_memory: false };
                    node.host().kill(&numbered(number), exit, now);
                }
                Blow::EngineDown => node.host().set_reachability(Reachability::Down),
                Blow::EngineUp => node.host().set_reachability(Reachability::Up),
                Blow::PowerCycle => {
                    let now = node.now;
                    node.host().power_cycle(now);
                    node.restart_daemon();
                }
            }
            let mut containers = node.containers();
            containers.dedup();
            prop_assert_eq!(containers.len(), node.containers().len());
        }
        node.host().set_reachability(Reachability::Up);
        node.run_for(120_000);
        node.tell_desired();
        node.run_for(1000);
        for id in node.containers() {
            prop_assert!(node.desired.contains_key(&id), "{id} is not wanted");
        }
        for id in node.observed.keys() {
            prop_assert!(node.desired.contains_key(id), "{id} is still reported");
        }
        for (id, want) in &node.desired {
            let newer = node.desired.keys().any(|other| {
                other.replica == id.replica && other.raft_index > id.raft_index
            });
            if want.role == Role::Current && !newer {
                prop_assert!(node.observed.contains_key(id), "nothing is said of {id}");
            }
        }
        node.effects.clear();
        node.run_for(60_000);
        let quiet = node.effects.iter().all(|effect| *effect == Effect::List);
        prop_assert!(quiet, "{:?}", node.effects);
    }
}

/// R-RUN-1: an instance has its addresses in networks of the cluster, and its node has such a network as long
/// as an instance or a container needs it, and no network of its own for them.
#[test]
fn networks_of_the_cluster_last_as_long_as_their_instances() {
    let mut node = Node::new();
    let (old, new) = (instance(0, 5), instance(1, 6));
    let ids = |node: &Node| -> Vec<u32> {
        node.driver.host.cluster_networks().keys().map(|id| id.0).collect()
    };
    node.want([
        wanted_in(&old, Role::Current, &[(7, "10.65.7.3"), (9, "10.65.9.3")]),
        wanted_in(&new, Role::Current, &[(9, "10.65.9.4")]),
    ]);
    assert_eq!(node.state(&old), RUNNING);
    let addresses = node.driver.host.addresses(node.now);
    let of = |id: &InstanceId| -> Vec<String> {
        addresses[id].iter().map(|one| format!("{} {}", one.network, one.address)).collect()
    };
    assert_eq!(
        (of(&old), of(&new)),
        (vec!["7 10.65.7.3".to_owned(), "9 10.65.9.3".to_owned()], vec!["9 10.65.9.4".to_owned()],)
    );
    assert_eq!(ids(&node), [7, 9]);
    assert!(node.driver.host.networks().is_empty(), "none of the node's own");
    node.want([wanted_in(&new, Role::Current, &[(9, "10.65.9.4")])]);
    node.run_for(10_000);
    assert_eq!(ids(&node), [9]);
    node.want([]);
    node.run_for(10_000);
    assert_eq!(ids(&node), [0; 0]);
    assert!(node.core.is_drained());
}

/// The same instance, once its deployment moves to networks of the cluster.
fn joining(id: &InstanceId, networks: &[(u32, &str)]) -> (InstanceId, DesiredInstance) {
    let (id, desired) = wanted_in(id, Role::Current, networks);
    (id, DesiredInstance { attachment: Attachment::Joining, ..desired })
}

/// NET-4: a container that runs as its deployment moves to networks of the cluster is attached to these, once, and that is
/// reported once; its node keeps both kinds of networks for it.
#[test]
fn running_containers_join_networks_of_the_cluster() {
    let mut node = Node::new();
    let (id, pending) = (instance(0, 5), instance(1, 6));
    node.driver.host.set_image("slow:1", ImageScript::Pullable { takes: Millis(60_000) });
    let (_, of_node) = wanted(&id, Role::Current, &spec("app:1", ""));
    let (_, not_there) = wanted(&pending, Role::Current, &spec("slow:1", ""));
    node.want([(id.clone(), of_node), (pending.clone(), not_there.clone())]);
    node.run_for(1000);
    assert_eq!(node.state(&id), RUNNING);
    let container = node.driver.host.list(node.now)[0].container.clone();
    let joins = |node: &Node| node.count(|effect| matches!(effect, Effect::Join { .. }));
    let reported = |node: &Node| -> Vec<InstanceId> {
        let joined = node.effects.iter().map(|effect| {
            if let Effect::Report { joined, .. } = effect { joined.clone() } else { Vec::new() }
        });
        joined.flatten().collect()
    };
    let not_there = DesiredInstance { attachment: Attachment::Joining, ..not_there };
    node.driver
        .host
        .set_foreign_networks(vec![Ipv4Prefix::new([10, 65, 7, 0].into(), 24).unwrap()]);
    node.want([joining(&id, &[(7, "10.65.7.3"), (9, "10.65.9.3")]), (pending, not_there)]);
    node.run_for(100);
    assert_eq!((joins(&node), reported(&node)), (1, vec![]), "something else has its addresses");
    node.driver.host.set_foreign_networks(Vec::new());
    node.run_for(20_000);
    assert_eq!((joins(&node), reported(&node)), (2, vec![id.clone()]));
    let addresses = &node.driver.host.addresses(node.now)[&id];
    let addresses: Vec<String> = addresses.iter().map(|one| one.address.to_string()).collect();
    assert_eq!(addresses, ["10.65.7.3", "10.65.9.3"]);
    assert_eq!(node.driver.host.list(node.now)[0].container, container, "it is the same");
    assert_eq!(node.desired[&id].attachment, Attachment::Joined);
    node.tell_desired();
    node.run_for(20_000);
    let kept = node.driver.host.cluster_networks().keys().map(|id| id.0);
    assert_eq!(kept.collect::<Vec<_>>(), [7, 9]);
    assert_eq!(node.driver.host.networks().len(), 1, "its node's own stays as well");
    let starts =
        node.count(|effect| matches!(effect, Effect::Start(request) if request.instance == id));
    assert_eq!((joins(&node), starts), (2, 1));
    node.restart_daemon();
    node.run_for(20_000);
    assert_eq!((joins(&node), node.state(&id)), (0, RUNNING));
}

/// NET-4: a daemon that was replaced before its report was agreed on attaches again, which changes nothing, and reports it.
/// What cannot be attached is left as it is.
#[test]
fn joins_are_repeated_until_they_are_agreed_on() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.want([wanted(&id, Role::Current, &spec("app:1", ""))]);
    node.run_for(1000);
    node.want([joining(&id, &[(7, "10.65.7.3")])]);
    node.run_for(1000);
    node.desired.get_mut(&id).unwrap().attachment = Attachment::Joining;
    node.restart_daemon();
    node.run_for(1000);
    assert_eq!(node.desired[&id].attachment, Attachment::Joined, "it was reported again");
    node.desired.get_mut(&id).unwrap().attachment = Attachment::Joining;
    node.restart_daemon();
    let reason = "it has no network of its own".to_owned();
    let result = Err(StartError::Unsupported { reason });
    node.driver.drop_jobs();
    node.handle(Event::Listed(Ok(node.driver.host.list(node.now))));
    node.handle(Event::Joined { instance: id.clone(), result });
    node.effects.clear();
    node.run_for(60_000);
    assert_eq!(node.count(|effect| matches!(effect, Effect::Join { .. })), 0);
    assert_eq!(node.state(&id), RUNNING);
}

/// R-RUN-2: where something else on the node has addresses of a network, the replica waits with that as its
/// reason and starts once it is gone; it is not counted as a failed start.
#[test]
fn occupied_subnet_is_waited_for() {
    let mut node = Node::new();
    let id = instance(0, 5);
    node.host().set_foreign_networks(vec!["10.65.0.0/16".parse().unwrap()]);
    node.want([wanted_in(&id, Role::Current, &[(7, "10.65.7.3")])]);
    let pending = Some((ReplicaState::Pending, Some(ReasonCode::NetworkConflict)));
    assert_eq!(node.state(&id), pending);
    let reason = node.reason(&id).to_owned();
    assert!(reason.contains("network net7 with subnet 10.65.7.0/24"), "{reason}");
    assert!(reason.contains("docker network ls"), "{reason}");
    assert_eq!(node.core.pull_attempts().len(), 0, "its image is not what it waits for");
    let reports = node.reports();
    node.run_for(60_000);
    assert_eq!((node.state(&id), node.reports()), (pending, reports));
    node.host().set_foreign_networks(Vec::new());
    node.run_for(30_000);
    assert_eq!(node.state(&id), RUNNING);
}

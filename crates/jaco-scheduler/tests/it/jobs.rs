//! Jobs (R-JOB-1): what runs to its end does so once per spec, whatever happens to nodes.

use jaco_state::audit::AuditKind;
use jaco_state::command::NodeRemove;
use jaco_types::spec::{
    Dependency, DependencyCondition, DependencyRequirement, Placement, RestartPolicy, ServiceMode,
};
use jaco_types::{
    Availability, Completion, DesiredState, Millis, NodeId, ReplicaState, RolloutState,
};

use crate::cluster::{Cluster, Service, key, resources, service};

const JOB: &str = "shop-job-0";
const SUCCEEDED: DesiredState = DesiredState::Finished(Completion::Succeeded);
const FAILED: DesiredState = DesiredState::Finished(Completion::Failed);

fn job(image: &str) -> Service {
    service("job", image).with(|spec| spec.mode = ServiceMode::Job)
}

fn restarting(policy: RestartPolicy) -> Service {
    service("job", "job:1").with(|spec| spec.restart = policy)
}

/// A cluster of these nodes whose job has just ended like this.
fn ended(hosts: &[&str], job: Service, end: ReplicaState) -> Cluster {
    let mut cluster = Cluster::of(hosts);
    cluster.apply("shop", &[job]);
    cluster.settle();
    cluster.see(JOB, end);
    cluster.pass();
    cluster
}

fn state(cluster: &Cluster) -> DesiredState {
    cluster.slot(JOB).desired_state
}

fn host_of(cluster: &Cluster) -> String {
    let node = cluster.slot(JOB).current.node;
    cluster.state.nodes.get(&node).unwrap().hostname.to_string()
}

/// The job fails and is restarted as often as is allowed; says how often it ran.
fn attempts(cluster: &mut Cluster, pause: Millis) -> usize {
    for attempt in 1..20 {
        cluster.see(JOB, ReplicaState::Failed);
        cluster.pass();
        cluster.advance(Millis::from_secs(40), &[]);
        cluster.pass();
        if state(cluster) == FAILED {
            return attempt;
        }
        cluster.settle();
        cluster.advance(pause, &[]);
        cluster.settle();
    }
    panic!("it is restarted for ever");
}

/// R-JOB-1: a completed job is not run again by a drain, an unreachable node, a lost one, or a removal, and neither is one
/// that failed for good.
#[test]
fn ended_job_is_not_run_again_whatever_happens_to_its_node() {
    let never = || restarting(RestartPolicy::Never);
    for (service, end, expected) in [
        (job("job:1"), ReplicaState::Stopped, SUCCEEDED),
        (never(), ReplicaState::Stopped, SUCCEEDED),
        (never(), ReplicaState::Failed, FAILED),
    ] {
        let mut cluster = ended(&["n1", "n2", "n3"], service, end);
        assert_eq!(state(&cluster), expected);
        let (instance, host) = (cluster.slot(JOB).current.clone(), host_of(&cluster));
        let node = cluster.slot(JOB).current.node;
        cluster.drain(&host, Millis::from_secs(60));
        cluster.settle();
        cluster.advance(Millis::from_secs(120), &[]);
        cluster.settle();
        assert_eq!(cluster.audited(AuditKind::NodeDrainTimeout), 0, "nothing is left to drain");
        cluster.set_availability(&host, Availability::Active);
        cluster.advance(Millis::from_secs(600), &[&host]);
        cluster.settle();
        cluster.commit(NodeRemove::new(node).into());
        cluster.settle();
        assert_eq!((&cluster.slot(JOB).current, state(&cluster)), (&instance, expected));
    }
}

/// R-JOB-1: a job that was not seen to end runs again where its node is lost.
#[test]
fn unfinished_job_runs_again_when_its_node_is_lost() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[job("job:1")]);
    cluster.settle();
    let host = host_of(&cluster);
    cluster.advance(Millis::from_secs(600), &[&host]);
    cluster.settle();
    assert_ne!(host_of(&cluster), host);
    assert_eq!(state(&cluster), DesiredState::Active);
}

/// R-JOB-1: `no` allows no retry, `on-failure:2` two, and without a number the restart budget counts. Long runs between
/// the failures make no difference where a number is given.
#[test]
fn failed_job_is_retried_as_often_as_its_policy_says() {
    let long = Millis::from_secs(7200);
    for (policy, pause, expected) in [
        (RestartPolicy::Never, Millis(0), 1),
        (RestartPolicy::OnFailure { retries: Some(2) }, Millis(0), 3),
        (RestartPolicy::OnFailure { retries: Some(2) }, long, 3),
        (RestartPolicy::OnFailure { retries: None }, Millis(0), 3),
    ] {
        let mut cluster = Cluster::of(&["n1"]);
        cluster.apply("shop", &[restarting(policy)]);
        cluster.settle();
        assert_eq!(attempts(&mut cluster, pause), expected, "{policy:?}, {pause}");
        assert_eq!(cluster.audited(AuditKind::JobFailed), 1);
        cluster.advance(long, &[]);
        cluster.settle();
        assert_eq!(state(&cluster), FAILED);
    }
}

/// R-HEAL-1: the end of any other service is a failure, and it is restarted.
#[test]
fn end_of_a_service_is_a_failure() {
    let mut cluster = ended(&["n1"], service("job", "web:1"), ReplicaState::Stopped);
    assert_eq!(state(&cluster), DesiredState::Active);
    cluster.settle();
    assert_eq!(cluster.audited(AuditKind::ReplicaRestarted), 1);
}

/// R-HEAL-2: an apply of the same files gives what failed its retries anew.
#[test]
fn failed_job_runs_again_after_an_apply() {
    let never = || restarting(RestartPolicy::Never);
    let mut cluster = ended(&["n1", "n2"], never(), ReplicaState::Failed);
    let first = cluster.slot(JOB).current.clone();
    cluster.apply("shop", &[never()]);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Active);
    assert_ne!(cluster.slot(JOB).current.raft_index, first.raft_index);
    cluster.see(JOB, ReplicaState::Stopped);
    cluster.settle();
    cluster.apply("shop", &[never()]);
    cluster.settle();
    assert_eq!(state(&cluster), SUCCEEDED);
}

/// R-JOB-1: another spec runs it once more; another number of replicas, or an apply of the same, does not.
#[test]
fn job_runs_again_as_another_spec_only() {
    let mut cluster = ended(&["n1", "n2"], job("job:1"), ReplicaState::Stopped);
    let first = cluster.slot(JOB).current.clone();
    cluster.apply("shop", &[job("job:1")]);
    cluster.settle();
    cluster.apply("shop", &[job("job:1").replicas(2)]);
    cluster.settle();
    assert_eq!((&cluster.slot(JOB).current, state(&cluster)), (&first, SUCCEEDED));
    assert_eq!(cluster.slot("shop-job-1").desired_state, DesiredState::Active, "the new one runs");
    cluster.apply("shop", &[job("job:2")]);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Active);
    assert_eq!(cluster.slot(JOB).current.revision.0, 3);
    cluster.see(JOB, ReplicaState::Stopped);
    cluster.settle();
    assert_eq!(state(&cluster), SUCCEEDED);
    let record = cluster.state.scheduling.get(&key("shop", "job")).unwrap();
    assert_eq!(record.rollout.as_ref().unwrap().state, RolloutState::Completed);
}

/// Another spec runs elsewhere where the node of the one before is gone.
#[test]
fn job_of_a_removed_node_runs_elsewhere_as_another_spec() {
    let mut cluster = ended(&["n1", "n2"], job("job:1"), ReplicaState::Stopped);
    let node = cluster.slot(JOB).current.node;
    cluster.commit(NodeRemove::new(node).into());
    cluster.settle();
    cluster.apply("shop", &[job("job:2")]);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Active);
    assert_ne!(cluster.slot(JOB).current.node, node);
}

/// R-JOB-1: all replicas of a job begin at once, as those of a stack in a swarm do: `update_config.parallelism` is about
/// another spec.
#[test]
fn all_replicas_of_a_job_begin_at_once() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[job("job:1").replicas(5)]);
    cluster.pass();
    assert_eq!(cluster.counts("shop", "job").values().sum::<usize>(), 5);
}

/// R-JOB-1: two instances of a job never run at once: a new spec ends the one that runs first.
#[test]
fn job_that_runs_is_stopped_before_its_successor_starts() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[job("job:1")]);
    cluster.settle();
    cluster.apply("shop", &[job("job:2")]);
    for _ in 0..5 {
        cluster.pass();
        assert_eq!(cluster.slot(JOB).retiring, None);
        cluster.obey();
    }
    assert_eq!(cluster.slot(JOB).current.revision.0, 2);
}

/// R-JOB-1: a failed job does not take its deployment back, and the job before it is not run again.
#[test]
fn failed_job_is_not_rolled_back() {
    let mut cluster = ended(&["n1"], job("job:1"), ReplicaState::Stopped);
    cluster.apply("shop", &[job("job:2").with(|spec| spec.restart = RestartPolicy::Never)]);
    cluster.pass();
    cluster.obey();
    cluster.see(JOB, ReplicaState::Failed);
    cluster.settle();
    assert_eq!((state(&cluster), cluster.slot(JOB).current.revision.0), (FAILED, 2));
}

/// R-NODE-2: a drain waits for the job that runs, says so, and goes on once it has ended.
#[test]
fn drain_waits_for_a_running_job() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[job("job:1")]);
    cluster.settle();
    let host = host_of(&cluster);
    cluster.drain(&host, Millis::from_secs(60));
    cluster.settle();
    assert_eq!(host_of(&cluster), host);
    let reasons = cluster.reasons("shop", "job");
    assert!(reasons.contains("waiting_for_job"), "{reasons}");
    cluster.see(JOB, ReplicaState::Stopped);
    cluster.settle();
    assert_eq!((state(&cluster), cluster.reasons("shop", "job")), (SUCCEEDED, String::new()));
}

/// R-JOB-1: what ended takes no room of its node.
#[test]
fn ended_job_takes_no_room() {
    let mut cluster = Cluster::empty();
    cluster.join_with("n1", resources(1000, 1000));
    cluster.apply("shop", &[job("job:1").reserves(1000, 1000).host_port(80)]);
    cluster.settle();
    cluster.apply("next", &[service("web", "web:1").reserves(1000, 1000).host_port(80)]);
    cluster.settle();
    assert!(cluster.counts("next", "web").values().all(|count| *count == 0));
    cluster.see(JOB, ReplicaState::Stopped);
    cluster.settle();
    assert_eq!(cluster.counts("next", "web")["n1"], 1);
}

/// R-JOB-1, R-SEL-3: where operators disabled it, another spec is only defined; enabled, it runs once.
#[test]
fn disabled_job_is_not_run_as_another_spec() {
    let mut cluster = ended(&["n1"], job("job:1"), ReplicaState::Stopped);
    let scope = [jaco_types::AllocationScope::Service(key("shop", "job"))];
    cluster.set_disabled(jaco_state::command::Disabling::Disable, &scope);
    cluster.settle();
    assert_eq!(state(&cluster), SUCCEEDED, "what is over is not disabled");
    cluster.apply("shop", &[job("job:2")]);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Disabled);
    cluster.set_disabled(jaco_state::command::Disabling::Enable, &scope);
    cluster.settle();
    assert_eq!((state(&cluster), cluster.slot(JOB).current.revision.0), (DesiredState::Active, 2));
}

/// `global-job`: once on each node, once on each that joins, and not again after a drain.
#[test]
fn global_job_runs_once_on_each_node() {
    let global = || job("job:1").placement(Placement::Global);
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[global()]);
    cluster.settle();
    for replica in ["shop-job-n1", "shop-job-n2"] {
        cluster.see(replica, ReplicaState::Stopped);
    }
    cluster.settle();
    cluster.drain("n1", Millis::from_secs(60));
    cluster.settle();
    cluster.set_availability("n1", Availability::Active);
    cluster.settle();
    let third: NodeId = cluster.join("n3");
    cluster.settle();
    let of = |replica: &str| cluster.slot(replica).desired_state;
    assert_eq!([of("shop-job-n1"), of("shop-job-n2")], [SUCCEEDED; 2]);
    assert_eq!(of("shop-job-n3"), DesiredState::Active);
    assert_eq!(cluster.slot("shop-job-n3").current.node, third);
}

/// R-ROLL-7: what waits for its completion starts then, also after the node of the job is gone.
#[test]
fn completion_is_known_after_the_node_is_gone() {
    let after = service("web", "web:1").with(|spec| {
        spec.depends_on.push(Dependency {
            service: "job".parse().unwrap(),
            condition: DependencyCondition::CompletedSuccessfully,
            required: DependencyRequirement::Required,
        });
    });
    let mut cluster = ended(&["n1", "n2"], service("job", "job:1"), ReplicaState::Running);
    cluster.apply("shop", &[service("job", "job:1"), after]);
    cluster.pass();
    let reasons = cluster.reasons("shop", "web");
    assert!(reasons.contains("waiting_for_dependency"), "{reasons}");
    cluster.see(JOB, ReplicaState::Stopped);
    cluster.pass();
    cluster.settle();
    let node = cluster.slot(JOB).current.node;
    cluster.commit(NodeRemove::new(node).into());
    cluster.settle();
    assert_eq!(state(&cluster), SUCCEEDED);
    assert_eq!(cluster.counts("shop", "web").values().sum::<usize>(), 1);
}

/// R-JOB-1, R-CLI-10: what waits for a job that has failed for good says that, and not of one that is run anew.
#[test]
fn a_job_that_has_failed_is_named_by_what_waits_for_it() {
    let after = || {
        service("web", "web:1").with(|spec| {
            spec.depends_on.push(Dependency {
                service: "job".parse().unwrap(),
                condition: DependencyCondition::CompletedSuccessfully,
                required: DependencyRequirement::Required,
            });
        })
    };
    let never = || restarting(RestartPolicy::Never).with(|spec| spec.mode = ServiceMode::Job);
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[never(), after()]);
    cluster.settle();
    cluster.see(JOB, ReplicaState::Failed);
    cluster.pass();
    cluster.pass();
    assert_eq!(state(&cluster), FAILED);
    let waits = "1 waiting_for_dependency job=service_completed_successfully";
    assert_eq!(cluster.reasons("shop", "web"), format!("{waits} job/failed=yes"));
    cluster
        .apply("shop", &[never().with(|spec| spec.hash = jaco_types::SpecHash([9; 32])), after()]);
    cluster.pass();
    let reasons = cluster.reasons("shop", "web");
    assert!(reasons.starts_with(waits) && !reasons.contains("failed"), "{reasons}");
}

/// R-JOB-1: what waits for a job that does not end waits with it, and says for what and since when. It takes its
/// place once the job ends, however long that is.
#[test]
fn job_that_does_not_end_is_named_with_the_time_of_its_start() {
    let after = service("web", "web:1").with(|spec| {
        spec.depends_on.push(Dependency {
            service: "job".parse().unwrap(),
            condition: DependencyCondition::CompletedSuccessfully,
            required: DependencyRequirement::Required,
        });
    });
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[job("job:1"), after]);
    cluster.pass();
    assert_eq!(
        cluster.reasons("shop", "web"),
        "1 waiting_for_dependency job=service_completed_successfully",
        "it has not started"
    );
    cluster.settle();
    let since = cluster.state.observed.get(&cluster.slot(JOB).current_id()).unwrap().since.0;
    let waits =
        format!("1 waiting_for_dependency job=service_completed_successfully job/since_ms={since}");
    assert_eq!(cluster.reasons("shop", "web"), waits);
    cluster.advance(Millis::from_secs(7 * 86_400), &[]);
    cluster.settle();
    assert_eq!(cluster.reasons("shop", "web"), waits, "nobody gives it up");
    cluster.see(JOB, ReplicaState::Stopped);
    cluster.settle();
    assert_eq!(cluster.counts("shop", "web").values().sum::<usize>(), 1);
}

//! What the planner's decisions leave in the audit log; and that each kind of event has a path that
//! leaves it, here by the real planner and the real `apply`, or at a real daemon where it is an edge's.

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use expect_test::expect;
use jaco_scheduler::rebalance::{
    CycleInput, Load, Overdue, Pressure, RebalanceConfig, Rebalancer, Sample, Share,
};
use jaco_scheduler::schedule::next_run;
use jaco_state::acme::{AcmeAccount, IssueAttempt};
use jaco_state::audit::{AuditEvent, AuditKind, DEFAULT_AGE};
use jaco_state::command::{
    AcmeNote, AuditRetention, AuthorityAbandon, AuthorityContinue, AuthorityReport,
    AuthorityRotate, AuthoritySettle, CertificateIssue, CertificateRemove, CertificateStore,
    ClusterInit, Command, DeploymentApply, DeploymentDelete, DeploymentRollback, Disabling,
    EdgeBegin, ImagePush, ImageRemove, ImageTagSet, ImagesHeld, InUse, JobDue, JobStart,
    KEEP_UNUSED, NamedContentPut, NamedContentRemove, NetworkBegin, NetworkCreate, NetworkRemove,
    NetworkResize, NewNode, NodeRemove, NodeSetLabels, OperatorTokenIssue, OperatorTokenRevoke,
    OperatorTokenRotate, PolicyAllow, PolicyRevoke, PolicySet, RegistryRemove, RegistryStore,
    RevisionPin,
};
use jaco_state::contents::{Form, Piece, PieceBytes};
use jaco_state::deployment::Pin;
use jaco_state::edge::SealedKey;
use jaco_state::policy::PolicyMode;
use jaco_state::registries::SealedPassword;
use jaco_state::rotation::{RotatedAuthority, RotationStep};
use jaco_state::token::OperatorToken;
use jaco_state::{ClusterMeta, Entry, apply as apply_entry};
use jaco_types::port::{PortRange, ProxyProtocol, Transport};
use jaco_types::route::{
    Redirect, RedirectRest, RedirectStatus, RedirectTarget, RouteAction, RouteDomain, RoutePath,
};
use jaco_types::spec::{
    Attachment, DeploymentSpec, FailureAction, NetworkRef, NetworkSpec, Placement, Privilege,
    Reach, ReachKind, RestartPolicy, ServiceMode, UpdatePolicy,
};
use jaco_types::{
    AllocationScope, Availability, BlobDigest, CertificateName, ChallengeKind, ClusterId,
    ContentId, ContentName, DeploymentName, Identity, ImageDigest, ImageNeed, ImageReadiness,
    ImageTag, IngressPort, Millis, NamedKey, NamedKind, NetworkName, NetworkScope, NodeFacts,
    RegistryName, RegistryUsername, ReplicaState, Revision, Route, RouteKey, ServiceName,
    StateIndex, TokenId,
};

use crate::cluster::{Cluster, Service, hostname, key, resources, service};
use crate::schedules;

const HOSTS: [&str; 3] = ["n1", "n2", "n3"];

fn web(version: u8) -> Service {
    service("web", &format!("web:{version}")).replicas(2)
}

/// `shop` with two converged replicas of `web`.
fn shop() -> Cluster {
    let mut cluster = Cluster::of(&HOSTS);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster
}

/// Replicas that no node has reported yet.
fn not_seen(cluster: &Cluster) -> Vec<String> {
    let slots = cluster.state.slots.values();
    let not_seen = slots.filter(|slot| cluster.state.observed.get(&slot.current_id()).is_none());
    not_seen.map(|slot| slot.id.to_string()).collect()
}

/// The audit events of rollouts since this number, one a line.
fn audited_since(cluster: &Cluster, known: usize) -> String {
    let events = cluster.state.audit.events.values().skip(known);
    let of_rollouts = events.filter(|event| event.kind.as_str().starts_with("rollout_"));
    let show = |event: &AuditEvent| {
        let facts = event.payload.iter().filter(|(name, _)| *name != "service");
        let facts = facts.map(|(name, fact)| format!(" {name}={fact}")).collect::<String>();
        format!("{}{facts}", event.kind.as_str())
    };
    of_rollouts.map(show).collect::<Vec<_>>().join("\n")
}

/// R-CLI-5, R-ROLL-1: each step is audited when it begins and when it is over, once, however many passes
/// look at it meanwhile.
#[test]
fn each_step_is_audited_once() {
    let mut cluster = shop();
    let known = cluster.state.audit.events.len();
    cluster.apply("shop", &[web(2)]);
    for _ in 0..3 {
        cluster.pass();
        // The successor takes its time.
        for _ in 0..5 {
            cluster.advance(Millis::from_secs(1), &[]);
            for replica in not_seen(&cluster) {
                cluster.see(&replica, ReplicaState::Starting);
            }
            cluster.pass();
        }
        cluster.obey();
    }
    cluster.settle();
    expect![[r#"
        rollout_started reason= revision=2 steps=2
        rollout_step_started node=n2 replica=shop-web-0 revision=2 way=forward
        rollout_step_started node=n3 replica=shop-web-1 revision=2 way=forward
        rollout_step_finished done=1 of 2 node=n2 replica=shop-web-0 result=proven revision=2 way=forward
        rollout_step_finished done=2 of 2 node=n3 replica=shop-web-1 result=proven revision=2 way=forward
        rollout_completed reason= revision=2 steps=2"#]].assert_eq(&audited_since(&cluster, known));
}

/// R-CLI-5, R-ROLL-3: an aborted rollout is audited with its steps, and the rollback has steps of its own.
#[test]
fn rollback_steps_are_audited() {
    let mut cluster = shop();
    let known = cluster.state.audit.events.len();
    cluster.apply("shop", &[web(2)]);
    cluster.pass();
    cluster.obey();
    cluster.pass();
    // The first step is through, the second one hangs.
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    cluster.pass();
    cluster.advance(UpdatePolicy::default().step_timeout, &[]);
    cluster.pass();
    cluster.obey();
    cluster.settle();
    expect![[r#"
        rollout_started reason= revision=2 steps=2
        rollout_step_started node=n2 replica=shop-web-0 revision=2 way=forward
        rollout_step_started node=n3 replica=shop-web-1 revision=2 way=forward
        rollout_step_finished done=1 of 2 node=n2 replica=shop-web-0 result=proven revision=2 way=forward
        rollout_step_finished done=1 of 2 node=n3 replica=shop-web-1 result=given_up revision=1 way=forward
        rollout_aborted reason=step_timeout: shop-web-1 did not run within 60s revision=2 steps=2
        rollout_step_started node=n2 replica=shop-web-0 revision=1 way=back
        rollout_step_finished done=1 of 1 node=n2 replica=shop-web-0 result=proven revision=1 way=back"#]].assert_eq(&audited_since(&cluster, known));
}

/// R-CLI-5: a rollout that waits says so once for each reason, and not at each look.
#[test]
fn each_prepull_reason_is_audited_once() {
    let mut cluster = Cluster::empty();
    cluster.join_with("n1", resources(1000, 0));
    cluster.pass();
    let reserving = |cpu| service("web", &format!("web:{cpu}")).reserves(cpu, 0);
    cluster.apply("shop", &[reserving(600)]);
    cluster.settle();
    let known = cluster.state.audit.events.len();
    cluster.apply("shop", &[reserving(2000)]);
    for _ in 0..20 {
        cluster.pass();
        cluster.obey();
        cluster.advance(Millis::from_secs(1), &[]);
    }
    expect![[r#"
        rollout_started reason= revision=2 steps=1
        rollout_held details=1 no_room_to_roll insufficient_cpu=1 replica=shop-web-0 reason=no_room_to_roll revision=2 way=forward"#]].assert_eq(&audited_since(&cluster, known));
}

/// R-CLI-5: as long as members may run an older version, no event is written that they do not know,
/// and no record has what they could not read.
#[test]
fn older_members_get_no_unknown_events() {
    let mut cluster = Cluster::of(&HOSTS);
    cluster.state.audit.retention = None;
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(2)]);
    cluster.pass();
    let record = cluster.state.scheduling.get(&key("shop", "web")).unwrap();
    assert!(record.rollout.as_ref().unwrap().in_flight.is_empty());
    cluster.settle();
    for kind in
        [AuditKind::RolloutStepStarted, AuditKind::RolloutStepFinished, AuditKind::RolloutHeld]
    {
        assert_eq!(cluster.audited(kind), 0, "{}", kind.as_str());
    }
}

/// How an event of a kind is caused.
enum Path {
    /// In a cluster of three nodes, by commands and passes.
    Here(fn(&mut Cluster)),
    /// At an edge: the text and the name of the test of real daemons that looks for it.
    AtAnEdge(&'static str, &'static str),
}

const AUDIT: &str = include_str!("../../../../tests/tests/cluster/audit.rs");
const COPYING: &str = include_str!("../../../../tests/tests/cluster/copying.rs");
const NOTIFICATIONS: &str = include_str!("../../../../tests/tests/cluster/notifications.rs");
const SECRETS: &str = include_str!("../../../../tests/tests/cluster/secrets.rs");
const VOLUMES: &str = include_str!("../../../../tests/tests/cluster/volumes.rs");
const FORWARDING: &str = include_str!("../../../../tests/tests/cluster/forwarding.rs");
const EXEC: &str = include_str!("../../../../tests/tests/cluster/exec.rs");
const BACKUP: &str = include_str!("../../../../tests/tests/cluster/backup.rs");
const BACKUP_SCHEDULES: &str = include_str!("../../../../tests/tests/cluster/backup_schedules.rs");
const KEK: &str = include_str!("../../../../tests/tests/cluster/kek.rs");
const RECOVERY: &str = include_str!("../../../../tests/tests/cluster/recovery.rs");
const ROTATION: &str = include_str!("../../../../tests/tests/docker/rotation.rs");
const ALLOCATIONS: &str = include_str!("../../../../tests/tests/docker/allocations.rs");

/// For each kind there is. A new one does not compile before it says how it is caused.
fn path(kind: AuditKind) -> Path {
    use Path::{AtAnEdge, Here};
    match kind {
        AuditKind::Apply => Here(apply),
        AuditKind::Delete => Here(|it| {
            apply(it);
            it.commit(DeploymentDelete::new(name()).into());
        }),
        AuditKind::Rollback => Here(|it| {
            roll(it);
            it.commit(DeploymentRollback::new(name()).into());
        }),
        AuditKind::NodeJoin | AuditKind::TokenIssue | AuditKind::CertificateIssued => Here(|it| {
            it.join("n4");
        }),
        AuditKind::NodeRemove => Here(|it| {
            let node = it.node("n3");
            it.commit(NodeRemove::new(node).into());
        }),
        AuditKind::TokenRevoke => Here(|it| {
            let id = TokenId::new("ops").unwrap();
            it.commit(OperatorTokenIssue::new(token(it, &id)).into());
            it.commit(OperatorTokenRevoke::new(id).into());
        }),
        AuditKind::TokenRotate => Here(|it| {
            let id = TokenId::new("ops").unwrap();
            it.commit(OperatorTokenIssue::new(token(it, &id)).into());
            it.commit(OperatorTokenRotate::new(id, [2; 32]).into());
        }),
        AuditKind::PrivilegedWorkloadAdmitted => Here(|it| {
            let one = web(1).0;
            let privileges = [(ServiceName::new("web").unwrap(), [Privilege::HostPid].into())];
            let spec = DeploymentSpec {
                services: [(one.name.clone(), one.into())].into(),
                privileges: privileges.into(),
                ..DeploymentSpec::default()
            };
            it.commit(DeploymentApply::new(name(), spec).into());
        }),
        AuditKind::RevisionPinned => Here(|it| {
            apply(it);
            it.commit(RevisionPin::new(name(), Revision(1), Pin::Yes).into());
        }),
        AuditKind::RebalanceMoved => Here(|it| rebalance(it, &[(90, 1), (30, 2), (30, 3)])),
        AuditKind::RebalanceSkipped => Here(|it| rebalance(it, &[(90, 1), (65, 2), (65, 3)])),
        AuditKind::RebalanceReverted => Here(|it| {
            rebalance(it, &[(90, 1), (30, 2), (30, 3)]);
            let (mut rebalancer, later) =
                (Rebalancer::default(), it.now.after(Millis::from_secs(3600)));
            assert!(rebalancer.overdue(&it.state, it.now).is_empty());
            let overdue = rebalancer.overdue(&it.state, later);
            it.commit(Overdue::command(&overdue, &it.state).expect("the successor never ran"));
        }),
        AuditKind::ClusterInit => Here(|it| {
            it.state = jaco_state::ClusterState::default();
            let meta = ClusterMeta {
                id: ClusterId::new(&"c1".repeat(16)).unwrap(),
                name: "sun".to_owned(),
                ca_certificate: String::new(),
                sealed_ca_key: Vec::new(),
                created_at: it.now,
            };
            let node = NewNode {
                hostname: hostname("n1"),
                address: "n1:7000".to_owned(),
                key_fingerprint: [1; 32],
                facts: NodeFacts::default(),
            };
            let token = token(it, &TokenId::new("bootstrap").unwrap());
            it.commit(ClusterInit::new(meta, node, token).into());
        }),
        AuditKind::AccessRefused => AtAnEdge(AUDIT, "refused_callers_and_renewals_are_audited"),
        AuditKind::CertificateRenewed => {
            AtAnEdge(AUDIT, "refused_callers_and_renewals_are_audited")
        }
        AuditKind::ExecStarted => AtAnEdge(EXEC, "command_runs_on_the_node_of_the_replica"),
        AuditKind::CopyStarted => AtAnEdge(COPYING, "files_are_copied_whichever_node_is_asked"),
        AuditKind::ContentRead => AtAnEdge(SECRETS, "an_edit_overtakes_nobody"),
        AuditKind::BackupScheduleStored
        | AuditKind::BackupScheduleRemoved
        | AuditKind::BackupStored => {
            AtAnEdge(BACKUP_SCHEDULES, "backups_are_taken_as_scheduled_and_restored")
        }
        AuditKind::BackupFailed => {
            AtAnEdge(BACKUP_SCHEDULES, "a_full_disk_is_told_and_tried_again")
        }
        AuditKind::NotifyStored | AuditKind::NotifyRemoved => {
            AtAnEdge(NOTIFICATIONS, "events_are_delivered_signed_and_in_order")
        }
        AuditKind::NotifyUndelivered | AuditKind::NotifySettled => {
            AtAnEdge(NOTIFICATIONS, "what_is_refused_is_given_up_and_can_be_sent_again")
        }
        AuditKind::NotifyPaused | AuditKind::NotifyResumed => {
            AtAnEdge(NOTIFICATIONS, "a_paused_target_is_sent_nothing")
        }
        AuditKind::VolumeRead | AuditKind::VolumeWrite => {
            AtAnEdge(VOLUMES, "volumes_are_backed_up_and_restored_from_any_node")
        }
        AuditKind::DataMoved => {
            AtAnEdge(VOLUMES, "a_volume_moves_with_its_replica_and_what_else_it_mounts")
        }
        AuditKind::ForwardStarted => AtAnEdge(FORWARDING, "ports_are_forwarded_from_any_node"),
        AuditKind::VolumesCollected => AtAnEdge(ALLOCATIONS, "volumes_are_kept_until_gc"),
        AuditKind::NetworkKeyRotated => AtAnEdge(ROTATION, "a_key_is_rotated_under_traffic"),
        AuditKind::ClusterRecovered => AtAnEdge(RECOVERY, "one_of_three_goes_on_alone"),
        AuditKind::BackupTaken => AtAnEdge(BACKUP, "backup_restores_a_lost_cluster"),
        AuditKind::AuthorityRotationBegun => Here(|it| {
            rotate(it, &[]);
        }),
        AuditKind::AuthorityRotationContinued => Here(|it| {
            let rotation = rotate(it, &[RotationStep::Trusts]);
            it.commit(AuthorityContinue::new(rotation).into());
        }),
        AuditKind::AuthorityRotationSettled => Here(|it| {
            let rotation = rotate(it, &[RotationStep::Trusts]);
            it.commit(AuthorityContinue::new(rotation).into());
            report(it, RotationStep::Reconnected);
            it.commit(AuthoritySettle::new(rotation).into());
        }),
        AuditKind::AuthorityRotationAbandoned => Here(|it| {
            let rotation = rotate(it, &[]);
            it.commit(AuthorityAbandon::new(rotation).into());
        }),
        AuditKind::KekRotationBegun
        | AuditKind::KekRotationResealing
        | AuditKind::KekRotationSettled => AtAnEdge(KEK, "a_key_is_rotated_under_writes"),
        AuditKind::KekRotationAbandoned => AtAnEdge(KEK, "a_key_lost_with_its_leader_is_abandoned"),
        AuditKind::RequestRefused => Here(|it| {
            it.apply("shop", &[web(1).hosts(&["nowhere"])]);
        }),
        AuditKind::NodeStatus => Here(|it| {
            it.advance(Millis::from_secs(60), &["n3"]);
            it.pass();
        }),
        AuditKind::NodeAvailability => Here(|it| it.set_availability("n3", Availability::Cordoned)),
        AuditKind::NodeDrainTimeout => Here(|it| {
            it.apply("shop", &[service("db", "db:1").stateful().hosts(&["n3"])]);
            it.settle();
            it.drain("n3", Millis::from_secs(60));
            it.settle();
            it.advance(Millis::from_secs(60), &[]);
            it.pass();
        }),
        AuditKind::ConstraintsSet => Here(|it| it.constrain("ram", "1G")),
        AuditKind::NodeLabels => Here(|it| {
            let (node, set) = (it.node("n1"), [("zone".to_owned(), "a".to_owned())].into());
            it.commit(NodeSetLabels::new(node).set(set).unset([].into()).into());
        }),
        AuditKind::ReplicaPlaced => Here(|it| {
            apply(it);
            it.pass();
        }),
        AuditKind::ReplicaReplaced
        | AuditKind::RolloutStarted
        | AuditKind::RolloutStepStarted
        | AuditKind::RolloutStepFinished
        | AuditKind::RolloutCompleted => Here(roll),
        AuditKind::ReplicaRestarted => Here(|it| fail(it, 1)),
        AuditKind::ReplicaExhausted => Here(|it| fail(it, 10)),
        AuditKind::JobRunBegun | AuditKind::JobRunEnded => Here(|it| {
            it.apply("shop", &[web(1).replicas(1).with(|spec| spec.mode = ServiceMode::Job)]);
            it.settle();
            it.see("shop-web-0", ReplicaState::Stopped);
            it.pass();
            it.commit(JobStart::new(key("shop", "web")).into());
            it.settle();
            it.see("shop-web-0", ReplicaState::Stopped);
            it.pass();
        }),
        AuditKind::JobRunMissed => Here(|it| {
            it.apply("shop", &[web(1).with(schedules::hourly)]);
            it.set_disabled(Disabling::Disable, &[AllocationScope::Service(key("shop", "web"))]);
            let due = next_run(&it.state, &key("shop", "web")).unwrap();
            it.advance(due.since(it.now), &[]);
            it.commit(JobDue::new(key("shop", "web"), it.state.index, due).into());
        }),
        AuditKind::JobCompleted => Here(|it| run_job(it, ReplicaState::Stopped)),
        AuditKind::JobFailed => Here(|it| run_job(it, ReplicaState::Failed)),
        AuditKind::ReplicaMoved => Here(|it| {
            apply(it);
            it.settle();
            let host = it.slot("shop-web-0").current.node;
            let host = it.state.nodes.get(&host).unwrap().hostname.to_string();
            it.drain(&host, Millis::from_secs(60));
            it.settle();
        }),
        AuditKind::ReplicaRemoved => Here(|it| {
            apply(it);
            it.settle();
            it.apply("shop", &[web(1).replicas(1)]);
            it.settle();
        }),
        AuditKind::ConsumerAttached => Here(|it| it.attach("edge", Millis(5000))),
        AuditKind::ConsumerDetached => Here(|it| {
            it.attach("edge", Millis(5000));
            it.advance(Millis(60_000), &[]);
            it.pass();
        }),
        AuditKind::ContentStored => Here(store),
        AuditKind::ContentRemoved => Here(|it| {
            store(it);
            it.commit(NamedContentRemove::new(secret()).into());
        }),
        AuditKind::RegistryStored => Here(log_in),
        AuditKind::RegistryRemoved => Here(|it| {
            log_in(it);
            it.commit(RegistryRemove::new(registry()).into());
        }),
        AuditKind::ImagePush => Here(push_image),
        AuditKind::ImageRemove => Here(|it| {
            push_image(it);
            it.commit(ImageRemove::new(ImageTag::new("app:1").unwrap(), InUse::Refuse).into());
        }),
        AuditKind::ImagesExpired => Here(|it| {
            push_image(it);
            it.advance(KEEP_UNUSED, &[]);
            it.commit(ImagePush::new(BlobDigest([8; 32]), 10, Vec::new().into()).into());
        }),
        AuditKind::NetworksEnabled => Here(enable_networks),
        AuditKind::NetworkCreated => Here(create_network),
        AuditKind::NetworkRemoved => Here(|it| {
            create_network(it);
            it.commit(NetworkRemove::new(backbone()).into());
        }),
        AuditKind::NetworkResized => Here(|it| {
            create_network(it);
            it.commit(NetworkResize::new(NetworkScope::Shared(backbone()), 22).into());
        }),
        AuditKind::RouteAdded => Here(add_route),
        AuditKind::RouteRemoved => Here(|it| {
            add_route(it);
            it.commit(DeploymentDelete::new(name()).into());
        }),
        AuditKind::PortAdded => Here(add_port),
        AuditKind::PortRemoved => Here(|it| {
            add_port(it);
            it.commit(DeploymentDelete::new(name()).into());
        }),
        AuditKind::CertificateStored => Here(store_certificate),
        AuditKind::CertificateRemoved => Here(|it| {
            store_certificate(it);
            it.commit(CertificateRemove::new(certificate()).into());
        }),
        AuditKind::AcmeAccountMade => Here(|it| {
            add_route(it);
            let account = AcmeAccount {
                directory: "https://a.example/directory".into(),
                url: "https://a.example/account/1".into(),
                key: SealedKey([1].into()),
            };
            it.commit(AcmeNote::Account(account).into());
        }),
        AuditKind::DomainCertificateIssued => Here(|it| issue_certificate(it, 1)),
        AuditKind::DomainCertificateRenewed => Here(|it| {
            issue_certificate(it, 1);
            issue_certificate(it, 2);
        }),
        AuditKind::DomainCertificateFailed => Here(|it| {
            add_route(it);
            let attempt = IssueAttempt {
                failures: 1,
                reason: "the authority refused: dns".into(),
                next_try: it.now,
                kind: ChallengeKind::Http01,
            };
            it.commit(AcmeNote::Failed { domain: domain(), attempt }.into());
        }),
        AuditKind::AuditChainBegun => Here(|it| {
            it.commit(Command::AuditBegin);
        }),
        AuditKind::PolicySet => Here(|it| {
            it.commit(PolicySet::new(PolicyMode::Refuse).into());
        }),
        AuditKind::PolicyGranted => Here(|it| {
            it.commit(
                PolicyAllow::new(name(), [Reach::new(ReachKind::Privileged, "")].into()).into(),
            );
        }),
        AuditKind::PolicyRevoked => Here(|it| {
            let reaches = BTreeSet::from([Reach::new(ReachKind::Privileged, "")]);
            it.commit(PolicyAllow::new(name(), reaches.clone()).into());
            it.commit(PolicyRevoke::new(name(), reaches).into());
        }),
        AuditKind::AuditRetentionSet => Here(|it| {
            let age = Millis(DEFAULT_AGE.0 / 2);
            it.commit(AuditRetention::new(age).into());
        }),
        AuditKind::AllocationsDisabled | AuditKind::ReplicaDisabled => Here(rest),
        AuditKind::AllocationsEnabled | AuditKind::ReplicaEnabled => Here(|it| {
            rest(it);
            it.set_disabled(Disabling::Enable, &[AllocationScope::Service(key("shop", "web"))]);
            it.settle();
        }),
        AuditKind::RolloutHeld => Here(prepare),
        AuditKind::ImageResolved => Here(|it| {
            prepare(it);
            let revision = it.state.deployments.get(&name()).unwrap().revision;
            let spec = it.state.service_spec(&key("shop", "web"), revision).unwrap().hash;
            let digest = ImageDigest::parse(&format!("web@sha256:{}", "a".repeat(64)));
            let need = ImageNeed { spec, digest: None };
            for host in HOSTS {
                let node = it.node(host);
                let readiness = ImageReadiness::Ready { digest: digest.clone() };
                it.signals.images.entry(node).or_default().insert(need.clone(), readiness);
            }
            it.pass();
        }),
        AuditKind::RolloutAborted => Here(|it| hang(it, FailureAction::Rollback)),
        AuditKind::RolloutPaused => Here(|it| hang(it, FailureAction::Pause)),
    }
}

/// R-CLI-5: there is no kind of event that nothing leaves.
#[test]
fn every_audit_kind_is_produced() {
    for kind in AuditKind::ALL.iter().copied() {
        match path(kind) {
            Path::Here(scenario) => {
                let mut cluster = Cluster::of(&HOSTS);
                cluster.state.audit.events = jaco_state::Table::default();
                scenario(&mut cluster);
                assert!(cluster.audited(kind) > 0, "{}: {:?}", kind.as_str(), cluster.state.audit);
            }
            Path::AtAnEdge(text, test) => {
                let body = text.split_once(&format!("fn {test}(")).expect(test).1;
                let body = body.split("\n}\n").next().unwrap();
                let name = format!("\"{}\"", kind.as_str());
                assert!(body.contains(&name), "{test} does not look for {name}");
            }
        }
    }
}

fn name() -> DeploymentName {
    DeploymentName::new("shop").unwrap()
}

fn token(cluster: &Cluster, id: &TokenId) -> OperatorToken {
    OperatorToken {
        id: id.clone(),
        proof: jaco_state::token::Proof::Secret([1; 32]),
        issued_at: cluster.now,
        issued_by: Identity::Scheduler,
        revoked_at: None,
        expires_at: None,
        rights: None,
        last_used_at: None,
    }
}

fn secret() -> NamedKey {
    NamedKey { kind: NamedKind::Secret, name: ContentName::new("db").unwrap() }
}

fn store(cluster: &mut Cluster) {
    let tree = ContentId([1; 32]);
    let pieces =
        vec![Piece { id: tree, bytes: PieceBytes([1].as_slice().into()), form: Form::Plain }];
    cluster.commit(NamedContentPut::new(secret(), tree, pieces, 1).into());
}

fn backbone() -> NetworkName {
    NetworkName::new("backbone").unwrap()
}

/// Begins a rotation of the authority, in which all members report these steps.
fn rotate(cluster: &mut Cluster, steps: &[RotationStep]) -> StateIndex {
    cluster.state.meta = Some(ClusterMeta {
        id: ClusterId::new(&"c1".repeat(16)).unwrap(),
        name: "sun".to_owned(),
        ca_certificate: "old".to_owned(),
        sealed_ca_key: vec![1],
        created_at: cluster.now,
    });
    let (certificate, fingerprint, sealed_key) = ("new".to_owned(), [2; 32], vec![2]);
    let new = RotatedAuthority { certificate, fingerprint, sealed_key };
    cluster.commit(AuthorityRotate::new([1; 32], new).into());
    for step in steps {
        report(cluster, *step);
    }
    cluster.state.rotation.as_ref().expect("it has begun").id
}

fn report(cluster: &mut Cluster, step: RotationStep) {
    let rotation = cluster.state.rotation.as_ref().expect("it has begun").id;
    let members: Vec<_> = cluster.state.nodes.values().map(|node| node.id).collect();
    for id in members {
        let entry = Entry {
            index: StateIndex(cluster.state.index.0 + 1),
            at: cluster.now,
            by: Identity::Node { id },
            origin: None,
            request: None,
            command: AuthorityReport::new(rotation, id, step).into(),
        };
        apply_entry(&mut cluster.state, &entry);
    }
}

fn enable_networks(cluster: &mut Cluster) {
    cluster.commit(NetworkBegin::new("10.64.0.0/12".parse().unwrap(), 1420).into());
}

fn create_network(cluster: &mut Cluster) {
    enable_networks(cluster);
    cluster.commit(NetworkCreate::new(backbone()).into());
}

/// A deployment with a route that leads elsewhere, so that it needs no network.
fn add_route(cluster: &mut Cluster) {
    cluster.commit(EdgeBegin.into());
    let to = RedirectTarget::new("https://shop.example.com").unwrap();
    let (rest, status) = (RedirectRest::Append, RedirectStatus::Permanent);
    let route = Route::new(RouteAction::Redirect(Redirect { to, rest, status }));
    let key = RouteKey { domain: "example.com".parse().unwrap(), path: RoutePath::default() };
    let one = web(1).0;
    let spec = DeploymentSpec {
        services: [(one.name.clone(), one.into())].into(),
        routes: [(key, route)].into(),
        ..DeploymentSpec::default()
    };
    cluster.commit(DeploymentApply::new(name(), spec).into());
}

/// A deployment with a published port.
fn add_port(cluster: &mut Cluster) {
    enable_networks(cluster);
    cluster.commit(EdgeBegin.into());
    let network = NetworkName::new("default").unwrap();
    let mut one = web(1).0;
    let attached = NetworkRef::Own(network.clone());
    one.networks = vec![Attachment { network: attached, aliases: Vec::new() }];
    one.ingress_ports = [IngressPort {
        transport: Transport::Tcp,
        target: NonZeroU16::MIN,
        published: PortRange::ANY,
        address: None,
        proxy_protocol: ProxyProtocol::Off,
    }]
    .into();
    let spec = DeploymentSpec {
        services: [(one.name.clone(), one.into())].into(),
        networks: [(network, NetworkSpec::default())].into(),
        ..DeploymentSpec::default()
    };
    cluster.commit(DeploymentApply::new(name(), spec).into());
}

fn domain() -> RouteDomain {
    RouteDomain::new("example.com").unwrap()
}

fn issue_certificate(cluster: &mut Cluster, number: u8) {
    add_route(cluster);
    let issue = CertificateIssue {
        domain: domain(),
        directory: "https://a.example/directory".into(),
        chain: "PEM".into(),
        key: SealedKey([1].into()),
        not_before: cluster.now,
        not_after: cluster.now.after(Millis::from_secs(3600)),
        fingerprint: [number; 32],
    };
    cluster.commit(AcmeNote::Issued(issue).into());
}

fn certificate() -> CertificateName {
    CertificateName::new("own").unwrap()
}

fn store_certificate(cluster: &mut Cluster) {
    cluster.commit(EdgeBegin.into());
    let command = CertificateStore {
        name: certificate(),
        chain: "PEM".into(),
        key: SealedKey([1].into()),
        names: ["example.com".into()].into(),
        not_before: cluster.now,
        not_after: cluster.now.after(Millis::from_secs(3600)),
        fingerprint: [1; 32],
    };
    cluster.commit(command.into());
}

fn registry() -> RegistryName {
    RegistryName::new("ghcr.io").unwrap()
}

fn log_in(cluster: &mut Cluster) {
    let username = RegistryUsername::new("robot").unwrap();
    let password = SealedPassword([1].into());
    cluster.commit(RegistryStore::new(registry(), username, password).into());
}

fn push_image(cluster: &mut Cluster) {
    let id = BlobDigest([7; 32]);
    cluster.commit(ImagePush::new(id, 10, Vec::new().into()).into());
    let nodes: Vec<_> = cluster.state.nodes.keys().copied().collect();
    for node in nodes {
        cluster.commit(ImagesHeld::new(node, [id].into()).into());
    }
    cluster.commit(ImageTagSet::new(ImageTag::new("app:1").unwrap(), id).into());
}

fn apply(cluster: &mut Cluster) {
    cluster.apply("shop", &[web(1)]);
}

/// A rollout from its beginning to its end.
fn roll(cluster: &mut Cluster) {
    apply(cluster);
    cluster.settle();
    cluster.apply("shop", &[web(2)]);
    cluster.settle();
}

/// A rollout that waits for its image.
fn prepare(cluster: &mut Cluster) {
    for host in HOSTS {
        let node = cluster.node(host);
        cluster.signals.images.insert(node, [].into());
    }
    apply(cluster);
    cluster.settle();
    cluster.apply("shop", &[web(2)]);
    cluster.pass();
}

/// A rollout whose first successor never runs.
fn hang(cluster: &mut Cluster, failure_action: FailureAction) {
    apply(cluster);
    cluster.settle();
    cluster.apply("shop", &[web(2).with(|spec| spec.update.failure_action = failure_action)]);
    cluster.pass();
    cluster.advance(UpdatePolicy::default().step_timeout, &[]);
    cluster.pass();
}

/// A replica that fails so many times, each a while after the last.
fn fail(cluster: &mut Cluster, times: usize) {
    cluster.apply("shop", &[web(1).replicas(1)]);
    cluster.settle();
    for _ in 0..times {
        cluster.see("shop-web-0", ReplicaState::Failed);
        cluster.pass();
        cluster.advance(Millis::from_secs(2), &[]);
        cluster.pass();
    }
}

fn run_job(cluster: &mut Cluster, end: ReplicaState) {
    cluster.apply("shop", &[web(1).replicas(1).with(|spec| spec.restart = RestartPolicy::Never)]);
    cluster.settle();
    cluster.see("shop-web-0", end);
    cluster.pass();
}

fn rest(cluster: &mut Cluster) {
    apply(cluster);
    cluster.settle();
    cluster.set_disabled(Disabling::Disable, &[AllocationScope::Service(key("shop", "web"))]);
    cluster.settle();
}

/// Two cycles of the rebalancer over a replica on n1 and what the nodes measure, in hundredths of cpu.
fn rebalance(cluster: &mut Cluster, measured: &[(u64, usize)]) {
    for host in ["n2", "n3"] {
        cluster.set_availability(host, Availability::Cordoned);
    }
    cluster.apply("shop", &[service("web", "web:1").placement(Placement::Pack)]);
    cluster.settle();
    for host in ["n2", "n3"] {
        cluster.set_availability(host, Availability::Active);
    }
    cluster.advance(Millis::from_secs(3600), &[]);
    let (mut rebalancer, config) = (Rebalancer::default(), RebalanceConfig::default());
    for _ in 0..2 {
        cluster.advance(Millis::from_secs(30), &[]);
        let mut pressure = Pressure::default();
        for (percent, host) in measured {
            let load = Load { cpu: Share(percent * 10_000), memory: Share(200_000) };
            let sample = Sample { at: cluster.now, load };
            pressure.nodes.insert(cluster.node(&format!("n{host}")), sample);
        }
        let (state, now) = (&cluster.state, cluster.now);
        let input = CycleInput { state, pressure: &pressure, config: &config, now };
        let cycle = rebalancer.cycle(input);
        if let Some(command) = cycle.command(&cluster.state) {
            cluster.commit(command);
        }
    }
}

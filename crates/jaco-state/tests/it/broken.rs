//! The checks of the laws can fail: a state that breaks a law is found, with the law's id and the
//! entity that breaks it.

use std::collections::BTreeSet;

use jaco_state::audit::{
    AuditEvent, AuditKey, AuditKind, IDENTITIES_MAX, KEPT_EVENTS, RefusalCount,
};
use jaco_state::backup::{
    BackupFailing, BackupKeep, BackupSchedule, BackupTarget, BackupTimes, EVERY_MIN,
};
use jaco_state::command::{ConsumerAttach, Observe, Previous};
use jaco_state::contents::{Content, Form, Hold, PieceBytes, STAGED_BYTES_MAX};
use jaco_state::invariants::{Law, violations};
use jaco_state::notify::{Undelivered, UndeliveredKey};
use jaco_state::registries::{PASSWORD_BYTES_MAX, REGISTRIES_MAX, RegistryLogin, SealedPassword};
use jaco_state::requests::KEPT_REQUESTS;
use jaco_state::{Change, ClusterState, Outcome};
use jaco_types::slot::Exhausted;
use jaco_types::{
    AllocationScope, BackupScheduleName, Completion, ConsumerName, ContentId, DesiredState,
    Disablement, Identity, InstanceId, Millis, NodeId, NodeStatus, NotifyTargetName, Ordinal,
    RegistryName, RegistryUsername, ReplicaState, RequestId, Revision, ServiceName, StateIndex,
    Timestamp,
};

use crate::history::{
    History, create, deploy, deployment, digest, key, replace, replica, seen, service,
};

/// A sound state with a slot in a handover, a consumer and a terminating instance.
fn sound() -> ClusterState {
    let mut history = History::founded();
    let (node, web) = (NodeId::FIRST, key("shop", "web"));
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let ready = Change::NodeStatusSet { node, status: NodeStatus::Ready, reason: String::new() };
    history.batch(vec![ready, create(&web, 0, node), create(&web, 1, node)]);
    let ids = [replica("shop-web-0"), replica("shop-web-1")];
    let consumer = ConsumerName::new("edge").unwrap();
    history.apply(ConsumerAttach::new(consumer, node, Millis(5000)).into());
    let instances: Vec<InstanceId> =
        history.state.slots.values().map(jaco_types::Slot::current_id).collect();
    let observed = instances.into_iter().map(|id| seen(id, node, ReplicaState::Running)).collect();
    history.apply(Observe::new(node).observed(observed).into());
    let handover = replace(&ids[0], node, Previous::Retire);
    let dropped = replace(&ids[1], node, Previous::Drop);
    assert_eq!(history.batch(vec![handover, dropped]), Outcome::Done);
    assert_eq!(history.state.terminating.len(), 1);
    assert_eq!(violations(&history.state), vec![]);
    history.state
}

/// Breaks a sound state; exactly this law is broken, by what the text names.
fn check(law: Law, subject: &str, spoil: impl FnOnce(&mut ClusterState)) {
    let mut state = sound();
    spoil(&mut state);
    let found = violations(&state);
    let laws: Vec<Law> = found.iter().map(|violation| violation.law).collect();
    assert_eq!(laws, [law], "{found:?}");
    assert!(found[0].to_string().starts_with(law.id()), "{}", found[0]);
    assert!(found[0].subject.contains(subject), "{}", found[0]);
}

/// ST-5
#[test]
fn a_desired_revision_that_is_not_kept() {
    check(Law::DesiredRevisionKept, "shop", |state| {
        state.deployments.get_mut(&deployment("shop")).unwrap().revision = Revision(7);
    });
}

/// ST-6
#[test]
fn a_slot_with_a_name_of_another() {
    check(Law::SlotName, "shop-web-9", |state| {
        state.slots.get_mut(&replica("shop-web-0")).unwrap().id = replica("shop-web-9");
    });
}

/// ST-7
#[test]
fn a_retiring_instance_that_is_newer() {
    check(Law::RetiringIsOlder, "shop-web-0", |state| {
        let slot = state.slots.get_mut(&replica("shop-web-0")).unwrap();
        let newest = slot.current.raft_index;
        slot.retiring.as_mut().unwrap().raft_index = newest;
    });
}

/// ST-8
#[test]
fn entities_from_the_future() {
    let future = StateIndex(1_000_000);
    check(Law::NotFromTheFuture, "shop-web-1", |state| {
        state.slots.get_mut(&replica("shop-web-1")).unwrap().modified = future;
    });
    check(Law::NotFromTheFuture, "scheduling record of shop/web", |state| {
        let record = jaco_types::Scheduling { modified: future, ..Default::default() };
        state.scheduling.insert(key("shop", "web"), record);
    });
    check(Law::NotFromTheFuture, "termination of shop-web-1", |state| {
        let id = state.terminating.keys().next().unwrap().clone();
        state.terminating.get_mut(&id).unwrap().left_at = future;
    });
}

/// ST-9
#[test]
fn a_node_that_was_not_admitted() {
    check(Law::NodeAdmitted, "node 1000000", |state| {
        let mut node = state.nodes.get(&NodeId::FIRST).unwrap().clone();
        node.id = NodeId(1_000_000);
        state.nodes.insert(node.id, node);
    });
}

/// ST-10
#[test]
fn more_events_than_are_kept() {
    check(Law::LogBounds, "10001 events", |state| {
        let event = AuditEvent {
            kind: AuditKind::AccessRefused,
            at: Timestamp(0),
            by: Identity::Anonymous,
            origin: None,
            request: None,
            payload: [].into(),
            previous: None,
        };
        let kept = state.audit.events.len();
        for number in kept..=KEPT_EVENTS {
            let number = u32::try_from(number).unwrap();
            let key = AuditKey { index: StateIndex(1), number: 1000 + number };
            state.audit.events.insert(key, event.clone());
        }
    });
}

/// ST-11
#[test]
fn a_terminating_instance_that_is_in_its_slot() {
    check(Law::TerminatingInNoSlot, "shop-web-1", |state| {
        let mut terminating = state.terminating.values().next().unwrap().clone();
        let id = state.slots.get(&replica("shop-web-1")).unwrap().current_id();
        terminating.id = id.clone();
        state.terminating.insert(id, terminating);
    });
}

/// ST-12
#[test]
fn contents_without_a_reference_and_references_without_content() {
    let id = ContentId([7; 32]);
    let subject = id.to_string();
    check(Law::Contents, &subject, |state| {
        let bytes = PieceBytes(vec![1].into());
        state.contents.insert(id, Content { bytes, form: Form::Plain, hold: Hold::Kept });
    });
    check(Law::Contents, &subject, |state| {
        let deployment = state.deployments.get_mut(&deployment("shop")).unwrap();
        let record = deployment.revisions.values_mut().next().unwrap();
        std::sync::Arc::make_mut(record).spec.contents.insert(id);
    });
}

/// ST-14
#[test]
fn a_disabled_scope_that_does_not_exist() {
    check(Law::DisabledExists, "shop/db", |state| {
        let disablement = Disablement { by: Identity::Scheduler, at: Timestamp(0) };
        state.disabled.scopes.insert(AllocationScope::Service(key("shop", "db")), disablement);
    });
}

/// ST-15
#[test]
fn a_disabled_slot_that_retires_an_instance() {
    check(Law::DisabledRunsNothing, "shop-web-0", |state| {
        state.slots.get_mut(&replica("shop-web-0")).unwrap().desired_state = DesiredState::Disabled;
    });
}

/// ST-18
#[test]
fn a_finished_slot_that_retires_an_instance_or_has_failed() {
    fn finish(state: &mut ClusterState) -> &mut jaco_types::Slot {
        let slot = state.slots.get_mut(&replica("shop-web-0")).unwrap();
        slot.desired_state = DesiredState::Finished(Completion::Succeeded);
        slot
    }
    check(Law::FinishedRunsNothing, "shop-web-0", |state| {
        finish(state);
    });
    check(Law::FinishedRunsNothing, "shop-web-0", |state| {
        let slot = finish(state);
        slot.retiring = None;
        slot.restarts.exhausted = Exhausted::Yes;
    });
}

/// ST-16
#[test]
fn a_digest_of_a_service_that_the_revision_does_not_have() {
    check(Law::Digests, "image of db", |state| {
        let deployment = state.deployments.get_mut(&deployment("shop")).unwrap();
        let record = deployment.revisions.values_mut().next().unwrap();
        let service = ServiceName::new("db").unwrap();
        std::sync::Arc::make_mut(record).digests.insert(service, digest(1));
    });
}

/// ST-17
#[test]
fn a_password_of_a_wrong_size() {
    for bytes in [0, PASSWORD_BYTES_MAX + 257] {
        check(Law::RegistryBounds, "ghcr.io", |state| {
            let login = RegistryLogin {
                username: RegistryUsername::new("me").unwrap(),
                password: SealedPassword(vec![1; bytes].into()),
                stored_at: Timestamp(0),
                by: Identity::Scheduler,
            };
            state.registries.insert(RegistryName::new("ghcr.io").unwrap(), login);
        });
    }
}

/// ST-31: what was given up belongs to a target.
#[test]
fn an_undelivered_notification_of_nobody() {
    check(Law::Notifications, "ops", |state| {
        let (key, event) = state.audit.events.iter().next().unwrap();
        let row = Undelivered {
            event: event.clone(),
            attempts: 1,
            reason: String::new(),
            given_up_at: Timestamp(0),
            retry: None,
        };
        let key = UndeliveredKey { target: NotifyTargetName::new("ops").unwrap(), event: *key };
        state.notify.undelivered.insert(key, row);
    });
}

/// ST-32: what fails is tried.
#[test]
fn a_backup_that_fails_and_is_not_tried() {
    check(Law::BackupSchedules, "nightly", |state| {
        let schedule = BackupSchedule {
            id: StateIndex(1),
            times: BackupTimes::Every(EVERY_MIN),
            target: BackupTarget::Folder("/backups".into()),
            credentials: None,
            keep: BackupKeep::default(),
            recipients: BTreeSet::new(),
            stored_at: Timestamp(0),
            by: Identity::Scheduler,
            seen: Timestamp(0),
            run: None,
            last: None,
            failing: Some(BackupFailing {
                since: Timestamp(0),
                at: Timestamp(0),
                attempts: 1,
                reason: String::new(),
            }),
        };
        state.backups.insert(BackupScheduleName::new("nightly").unwrap(), schedule);
    });
}

/// ST-6: the ordinal is a part of the name.
#[test]
fn a_slot_with_an_ordinal_of_another() {
    check(Law::SlotName, "shop-web-0", |state| {
        state.slots.get_mut(&replica("shop-web-0")).unwrap().ordinal = Ordinal::Index(5);
    });
}

/// ST-8: an instance is not newer than the state either.
#[test]
fn an_instance_from_the_future() {
    check(Law::NotFromTheFuture, "shop-web-1", |state| {
        let slot = state.slots.get_mut(&replica("shop-web-1")).unwrap();
        slot.current.raft_index = StateIndex(state.index.0 + 1);
    });
}

/// ST-10: outcomes and counts of refusals have bounds as well.
#[test]
fn more_outcomes_and_counts_than_are_kept() {
    check(Law::LogBounds, "16385 outcomes", |state| {
        for number in state.requests.outcomes.len()..=KEPT_REQUESTS {
            let request = RequestId::new(&format!("r{number}")).unwrap();
            state.requests.outcomes.insert(request, Outcome::Done);
        }
    });
    let count = |uid: u32| {
        (Identity::Local { uid }, RefusalCount { since: Timestamp(0), written: 1, unreported: 0 })
    };
    let counts = |many: usize| (0..u32::try_from(many).unwrap()).map(count).collect();
    check(Law::LogBounds, "66 counts", |state| state.audit.refusals = counts(IDENTITIES_MAX + 2));
    let mut state = sound();
    state.audit.refusals = counts(IDENTITIES_MAX + 1);
    assert_eq!(violations(&state), vec![], "one more is there until the next entry");
}

/// ST-11: a retiring instance is in its slot as well.
#[test]
fn a_terminating_instance_that_retires() {
    check(Law::TerminatingInNoSlot, "shop-web-0", |state| {
        let mut terminating = state.terminating.values().next().unwrap().clone();
        let id = state.slots.get(&replica("shop-web-0")).unwrap().retiring_id().unwrap();
        terminating.id = id.clone();
        state.terminating.insert(id, terminating);
    });
}

/// ST-12: what is referred to is not only staged, and all of it is bounded.
#[test]
fn staged_contents_that_are_referred_to_and_too_many() {
    let row = |bytes: usize, hold| Content {
        bytes: PieceBytes(vec![1; bytes].into()),
        form: Form::Plain,
        hold,
    };
    let (id, staged) = (ContentId([7; 32]), Hold::Staged { since: Timestamp(0) });
    check(Law::Contents, &id.to_string(), |state| {
        state.contents.insert(id, row(1, staged));
        let deployment = state.deployments.get_mut(&deployment("shop")).unwrap();
        let record = deployment.revisions.values_mut().next().unwrap();
        std::sync::Arc::make_mut(record).spec.contents.insert(id);
    });
    check(Law::Contents, "staged", |state| {
        state.contents.insert(id, row(STAGED_BYTES_MAX, staged));
    });
}

/// ST-14: a pair and a replica that no longer exist are found by what they lack.
#[test]
fn disabled_scopes_of_what_is_gone() {
    let web = || key("shop", "web");
    for (scope, subject) in [
        (AllocationScope::Node(NodeId(9)), "node 9"),
        (AllocationScope::Pair { service: web(), node: NodeId(9) }, "shop/web on 9"),
        (
            AllocationScope::Pair { service: key("shop", "db"), node: NodeId::FIRST },
            "shop/db on n1",
        ),
        (
            AllocationScope::Replica { service: web(), id: replica("shop-web-7") },
            "replica shop-web-7",
        ),
        (
            AllocationScope::Replica { service: key("shop", "db"), id: replica("shop-web-0") },
            "replica shop-web-0",
        ),
    ] {
        check(Law::DisabledExists, subject, |state| {
            let disablement = Disablement { by: Identity::Scheduler, at: Timestamp(0) };
            state.disabled.scopes.insert(scope, disablement);
        });
    }
}

/// ST-17: no more registries than there may be.
#[test]
fn more_credentials_than_are_kept() {
    check(Law::RegistryBounds, &format!("{} registries", REGISTRIES_MAX + 1), |state| {
        for number in 0..=REGISTRIES_MAX {
            let login = RegistryLogin {
                username: RegistryUsername::new("me").unwrap(),
                password: SealedPassword(vec![1].into()),
                stored_at: Timestamp(0),
                by: Identity::Scheduler,
            };
            let name = RegistryName::new(&format!("r{number}.io")).unwrap();
            state.registries.insert(name, login);
        }
    });
}

/// A state with several violations shows all of them, each with the id of its law.
#[test]
fn all_violations_are_shown() {
    let mut state = sound();
    state.deployments.get_mut(&deployment("shop")).unwrap().revision = Revision(7);
    state.slots.get_mut(&replica("shop-web-0")).unwrap().desired_state = DesiredState::Disabled;
    let shown: Vec<_> = violations(&state).iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "ST-5: the desired revision of shop is not kept",
            "ST-15: shop-web-0 is disabled and retires an instance"
        ]
    );
    assert_eq!(format!("{:>6}", Law::SlotName), "  ST-6", "a table can align them");
}

//! Slots: which of their instances are live, and how long a failing one waits.

use jaco_types::slot::{Completion, Exhausted, SlotData};
use jaco_types::{
    DeploymentName, DesiredState, Instance, Millis, NodeId, Ordinal, ReplicaId, RestartCount,
    Revision, ServiceKey, ServiceName, Slot, SpecHash, StateIndex,
};

fn instance(raft_index: u64) -> Instance {
    Instance {
        raft_index: StateIndex(raft_index),
        node: NodeId(1),
        revision: Revision(1),
        spec_hash: SpecHash([0; 32]),
        addresses: Vec::new(),
        joining_since: None,
        gpus: Vec::new(),
    }
}

fn slot(desired_state: DesiredState, retiring: Option<Instance>) -> Slot {
    let service = ServiceKey {
        deployment: DeploymentName::new("shop").unwrap(),
        service: ServiceName::new("web").unwrap(),
    };
    let ordinal = Ordinal::Index(0);
    Slot {
        id: ReplicaId::new(&service, &ordinal),
        service,
        ordinal,
        desired_state,
        current: instance(9),
        retiring,
        data: SlotData::default(),
        restarts: RestartCount::default(),
        terminations: Vec::new(),
        modified: StateIndex(9),
    }
}

fn live(slot: &Slot) -> Vec<String> {
    slot.instances().map(|(id, _)| id.to_string()).collect()
}

#[test]
fn active_slots_have_their_current_and_retiring_instance() {
    let settled = slot(DesiredState::Active, None);
    assert_eq!(live(&settled), ["shop-web-0@9"]);
    assert_eq!(
        (settled.current_id().to_string(), settled.retiring_id()),
        (live(&settled)[0].clone(), None)
    );
    let handover = slot(DesiredState::Active, Some(instance(4)));
    assert_eq!(live(&handover), ["shop-web-0@9", "shop-web-0@4"]);
    assert_eq!(handover.retiring_id().unwrap().raft_index, StateIndex(4));
}

/// R-SEL-3, ST-15: the current instance of a disabled slot is its definition, and does not live.
#[test]
fn disabled_slots_have_no_live_instance() {
    let disabled = slot(DesiredState::Disabled, None);
    assert_eq!(live(&disabled), [""; 0]);
    assert_eq!(disabled.current_id().to_string(), "shop-web-0@9");
    assert_eq!(DesiredState::default(), DesiredState::Active);
}

/// R-JOB-1, ST-18: a finished slot runs nothing and keeps its container; a disabled one keeps none; while one instance
/// hands over to the next, both are kept.
#[test]
fn containers_are_kept_of_what_lives_or_has_finished() {
    let kept =
        |slot: &Slot| slot.kept_instances().map(|(id, _)| id.to_string()).collect::<Vec<_>>();
    for how in Completion::ALL {
        let finished = slot(DesiredState::Finished(*how), None);
        assert_eq!((live(&finished), kept(&finished)), (vec![], vec!["shop-web-0@9".to_owned()]));
    }
    let disabled = slot(DesiredState::Disabled, None);
    assert!(kept(&disabled).is_empty());
    let handover = slot(DesiredState::Active, Some(instance(4)));
    assert_eq!(kept(&handover), live(&handover));
    assert_eq!(kept(&handover).len(), 2);
}

/// R-ROLL-3: a replica whose rollout step ran out of time is told from one that failed too often.
#[test]
fn a_timeout_is_no_failure() {
    let exhausted = RestartCount { consecutive: 3, exhausted: Exhausted::Yes };
    assert!(RestartCount::TIMED_OUT.is_timeout());
    assert!(!exhausted.is_timeout() && !RestartCount::default().is_timeout());
}

/// R-HEAL-1: the first failure is answered at once, later ones after twice the time, 30 s at most.
#[test]
fn restarts_back_off() {
    let seconds = |failures: u32| RestartCount::back_off(failures).0 / 1000;
    let waits: Vec<u64> = (0..=9).map(seconds).collect();
    assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 30, 30, 30]);
    assert_eq!(RestartCount::back_off(u32::MAX), Millis::from_secs(30));
    let all: Vec<Millis> = (0..100).map(RestartCount::back_off).collect();
    assert!(all.is_sorted(), "it never waits for less after one more failure");
}

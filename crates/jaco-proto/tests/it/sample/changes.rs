//! Changes of the planner.

use super::*;

pub(crate) fn disabling_changes() -> Vec<Change> {
    let instance = || NewInstance {
        node: NodeId(7),
        revision: Revision(2),
        spec_hash: hash(),
        gpus: Vec::new(),
    };
    vec![
        Change::SlotDisable { id: replica_id(), instance: instance() },
        Change::SlotCreate {
            id: replica_id(),
            service: service_key(),
            ordinal: Ordinal::Index(3),
            instance: instance(),
            desired_state: DesiredState::Disabled,
        },
        Change::SlotReplace {
            id: replica_id(),
            instance: instance(),
            previous: Previous::Drop,
            cause: ReplaceCause::Enabled,
            consecutive_failures: 0,
        },
    ]
}

pub(crate) fn rollback_progress() -> Change {
    let rollback_progress = Some(RollbackProgress { total_steps: 2, current_step: 1 });
    let rollout = scheduling().rollout;
    let rollout = rollout.map(|rollout| Rollout {
        state: RolloutState::Aborted,
        rollback_progress,
        ..rollout
    });
    let record = Scheduling { rollout, ..scheduling() };
    Change::SchedulingSet { service: service_key(), record: Box::new(record) }
}

pub(crate) fn first_watched() -> Change {
    let record = Scheduling { first_watch: FirstWatch::Open, ..Scheduling::default() };
    Change::SchedulingSet { service: service_key(), record: Box::new(record) }
}

pub(crate) fn two_in_flight() -> Change {
    let in_flight = [Ordinal::Index(3), Ordinal::Host(hostname())];
    let in_flight = in_flight.map(|ordinal| ReplicaId::new(&service_key(), &ordinal)).into();
    let rollout = scheduling().rollout.map(|rollout| Rollout { in_flight, ..rollout });
    let record = Scheduling { rollout, ..scheduling() };
    Change::SchedulingSet { service: service_key(), record: Box::new(record) }
}

pub(crate) fn blocked_rollout() -> Change {
    let rollout = scheduling().rollout;
    let rollout = rollout.map(|rollout| Rollout { state: RolloutState::RollbackPaused, ..rollout });
    let record = Scheduling { rollout, ..scheduling() };
    Change::SchedulingSet { service: service_key(), record: Box::new(record) }
}

pub(crate) fn disk_full() -> Change {
    let reason = "the disk of /var/lib/docker is 96% full".to_owned();
    Change::NodeStatusSet { node: NodeId(7), status: NodeStatus::DiskFull, reason }
}

pub(crate) fn drain_timed_out() -> Change {
    Change::DrainTimeout { node: NodeId(7), left: "shop-db-0".into() }
}

pub(crate) fn image_resolved() -> Change {
    Change::ImageResolve { service: service_key(), revision: Revision(2), digest: image_digest() }
}

pub(crate) fn paused() -> Change {
    let rollout = scheduling().rollout;
    let rollout = rollout.map(|rollout| Rollout { state: RolloutState::Paused, ..rollout });
    let record = Scheduling { rollout, ..scheduling() };
    Change::SchedulingSet { service: service_key(), record: Box::new(record) }
}

pub(crate) fn routing_changes() -> Vec<Change> {
    vec![
        Change::TerminatingRemove { id: terminating().id },
        Change::ConsumerExpire { name: consumer_name() },
    ]
}

pub(crate) fn other_changes() -> Vec<Change> {
    let status = |status| Change::NodeStatusSet { node: NodeId(7), status, reason: String::new() };
    let instance = || NewInstance {
        node: NodeId(7),
        revision: Revision(2),
        spec_hash: hash(),
        gpus: Vec::new(),
    };
    let replace = |cause| Change::SlotReplace {
        id: replica_id(),
        instance: instance(),
        previous: Previous::Drop,
        cause,
        consecutive_failures: 0,
    };
    let scheduling = |state| {
        let rollout = scheduling().rollout.map(|rollout| Rollout { state, ..rollout });
        Change::SchedulingSet {
            service: service_key(),
            record: Box::new(Scheduling { rollout, ..scheduling() }),
        }
    };
    vec![
        status(NodeStatus::Joining),
        status(NodeStatus::Ready),
        status(NodeStatus::EngineDown),
        replace(ReplaceCause::Failed),
        replace(ReplaceCause::NodeLost),
        replace(ReplaceCause::Moved),
        scheduling(RolloutState::Completed),
        scheduling(RolloutState::Aborted),
        Change::SlotSetRestarts { id: replica_id(), consecutive: 0, exhausted: Exhausted::No },
        Change::SlotCreate {
            id: replica_id(),
            service: service_key(),
            ordinal: Ordinal::Host(hostname()),
            instance: instance(),
            desired_state: DesiredState::Active,
        },
    ]
}

/// Each kind of change once; together they are the frozen batch.
pub(crate) fn changes() -> Vec<Change> {
    let id = replica_id();
    let instance =
        NewInstance { node: NodeId(7), revision: Revision(2), spec_hash: hash(), gpus: Vec::new() };
    vec![
        Change::SlotCreate {
            id: id.clone(),
            service: service_key(),
            ordinal: Ordinal::Index(3),
            instance: instance.clone(),
            desired_state: DesiredState::Active,
        },
        Change::SlotReplace {
            id: id.clone(),
            instance,
            previous: Previous::Retire,
            cause: ReplaceCause::SpecChanged,
            consecutive_failures: 1,
        },
        Change::SlotSettle { id: id.clone() },
        Change::SlotRevert { id: id.clone() },
        Change::SlotSetRestarts { id: id.clone(), consecutive: 5, exhausted: Exhausted::Yes },
        Change::SlotRemove { id },
        Change::SchedulingSet { service: service_key(), record: Box::new(scheduling()) },
        Change::NodeStatusSet {
            node: NodeId(7),
            status: NodeStatus::Down,
            reason: "not heard of for 10s".into(),
        },
    ]
}

pub(crate) fn created_with_gpus() -> Change {
    Change::SlotCreate {
        id: replica_id(),
        service: service_key(),
        ordinal: Ordinal::Index(3),
        instance: NewInstance {
            node: NodeId(7),
            revision: Revision(2),
            spec_hash: hash(),
            gpus: vec!["GPU-6f9c".into(), "1".into()],
        },
        desired_state: DesiredState::Active,
    }
}

pub(crate) fn colocated_replaced() -> Change {
    Change::SlotReplace {
        id: replica_id(),
        instance: NewInstance {
            node: NodeId(7),
            revision: Revision(2),
            spec_hash: hash(),
            gpus: Vec::new(),
        },
        previous: Previous::Drop,
        cause: ReplaceCause::ColocatedReplaced,
        consecutive_failures: 0,
    }
}

//! Entities of a state.

use super::*;

pub(crate) fn scope() -> impl Strategy<Value = AllocationScope> {
    prop_oneof![
        node_id().prop_map(AllocationScope::Node),
        service_key().prop_map(AllocationScope::Service),
        (service_key(), node_id())
            .prop_map(|(service, node)| AllocationScope::Pair { service, node }),
        (service_key(), replica_id())
            .prop_map(|(service, id)| AllocationScope::Replica { service, id }),
    ]
}

pub(crate) fn desired_state_of_slot() -> impl Strategy<Value = DesiredState> {
    select(vec![DesiredState::Active, DesiredState::Disabled])
}

fn reached_state_of_slot() -> impl Strategy<Value = DesiredState> {
    prop_oneof![desired_state_of_slot(), select(Completion::ALL).prop_map(DesiredState::Finished),]
}

pub(crate) fn consumer() -> impl Strategy<Value = Consumer> {
    (consumer_name(), node_id(), millis(), index(), moment()).prop_map(
        |(name, node, lease, session, attached_at)| Consumer {
            name,
            node,
            lease,
            session,
            attached_at,
        },
    )
}

pub(crate) fn terminating() -> impl Strategy<Value = TerminatingInstance> {
    (instance_id(), service_key(), instance(), index(), moment()).prop_map(
        |(id, service, instance, left_at, since)| TerminatingInstance {
            id,
            service,
            node: instance.node,
            revision: instance.revision,
            spec_hash: instance.spec_hash,
            gpus: instance.gpus,
            addresses: instance.addresses,
            left_at,
            since,
        },
    )
}

pub(crate) fn drain() -> impl Strategy<Value = Drain> {
    (any::<u64>(), moment(), availability()).prop_map(|(patience, progress_at, before)| Drain {
        timeout: Millis(patience),
        progress_at,
        before,
    })
}

pub(crate) fn node() -> impl Strategy<Value = Node> {
    let desired_state = (node_status(), text(), availability(), text(), option::of(drain()));
    let mesh_address = option::of(any::<Ipv4Addr>());
    let desired_state = (desired_state, facts_by_name(), mesh_address);
    (node_id(), hostname(), text(), any::<[u8; 32]>(), desired_state, facts(), moment(), index())
        .prop_map(
            |(
                id,
                hostname,
                address,
                key_fingerprint,
                desired_state_of_slot,
                facts,
                joined_at,
                modified,
            )| {
                let (desired_state_of_slot, labels, mesh_address) = desired_state_of_slot;
                let (status, status_reason, availability, availability_reason, drain) =
                    desired_state_of_slot;
                Node {
                    id,
                    hostname,
                    address,
                    mesh_address,
                    key_fingerprint,
                    status,
                    status_reason,
                    availability,
                    availability_reason,
                    drain,
                    facts,
                    labels,
                    joined_at,
                    modified,
                }
            },
        )
}

pub(crate) fn facts() -> impl Strategy<Value = NodeFacts> {
    let said = (text(), text(), text(), text());
    let gpus = vec(gpu(), 0..3);
    let instances = any::<u32>().prop_map(NonZeroU32::new);
    let classes = btree_map(volume_class(), any::<u64>().prop_map(Bytes), 0..3);
    let machine = (gpus, machine(), option::of(router()), option::of(edge()), (instances, classes));
    (said, resources(), facts_by_name(), any::<u64>(), machine).prop_map(
        |(
            (version, os, arch, engine),
            capacity,
            labels,
            storage,
            (gpus, machine, router, edge, (instances_max, volume_classes)),
        )| {
            NodeFacts {
                version,
                os,
                arch,
                engine,
                capacity,
                storage: Bytes(storage),
                gpus,
                machine,
                labels,
                router,
                edge,
                instances_max,
                volume_classes,
            }
        },
    )
}

pub(crate) fn volume_class() -> impl Strategy<Value = VolumeClass> {
    "[a-z0-9][a-z0-9_-]{0,62}".prop_map(|name| VolumeClass::new(&name).unwrap())
}

fn router() -> impl Strategy<Value = NodeRouter> {
    let backend = prop_oneof![Just(TunnelBackend::Kernel), Just(TunnelBackend::Userspace)];
    let link = (any::<[u8; 32]>(), any::<u16>(), backend);
    let link = link.prop_map(|(key, port, backend)| RouterLink { key, port, backend });
    let router = |(link, problem)| NodeRouter { link, problem };
    (option::of(link), option::of(text())).prop_map(router)
}

fn edge() -> impl Strategy<Value = NodeEdge> {
    option::of(text()).prop_map(|problem| NodeEdge { problem })
}

pub(crate) fn gpu() -> impl Strategy<Value = Gpu> {
    let gpu = |(id, driver, model, memory): (String, _, _, _)| Gpu {
        id: id.into(),
        driver,
        model,
        memory: Bytes(memory),
    };
    (text(), text(), text(), any::<u64>()).prop_map(gpu)
}

pub(crate) fn machine() -> impl Strategy<Value = Machine> {
    let amounts = (any::<u64>(), any::<u64>(), any::<u64>());
    (text(), any::<u32>(), any::<u32>(), amounts).prop_map(
        |(kernel, cores, mhz, (memory, disk, disk_free))| Machine {
            kernel,
            cores,
            mhz,
            memory: Bytes(memory),
            disk: Bytes(disk),
            disk_free: Bytes(disk_free),
        },
    )
}

pub(crate) fn slot() -> impl Strategy<Value = Slot> {
    let restarts = (any::<u32>(), exhausted())
        .prop_map(|(consecutive, exhausted)| RestartCount { consecutive, exhausted });
    let instances = (instance(), option::of(instance()));
    let restarts = (restarts, vec(termination(), 0..3));
    let data = select(&[SlotData::Possible, SlotData::None][..]);
    let ordinal = (ordinal(), reached_state_of_slot(), data);
    (replica_id(), service_key(), ordinal, instances, restarts, index()).prop_map(
        |(
            id,
            service,
            (ordinal, desired_state, data),
            (current, retiring),
            (restarts, terminations),
            modified,
        )| {
            Slot {
                id,
                service,
                ordinal,
                desired_state,
                current,
                retiring,
                data,
                restarts,
                terminations,
                modified,
            }
        },
    )
}

pub(crate) fn termination() -> impl Strategy<Value = Termination> {
    let what = (select(TerminationOutcome::ALL), observed());
    (instance(), moment(), what).prop_map(|(instance, at, (outcome, seen))| Termination {
        raft_index: instance.raft_index,
        node: instance.node,
        revision: instance.revision,
        at,
        outcome,
        state: seen.state,
        code: seen.code,
        details: seen.details,
        exit: seen.exit,
    })
}

pub(crate) fn instance() -> impl Strategy<Value = Instance> {
    let addresses = vec(instance_address(), 0..3);
    let parts = (index(), new_instance(), addresses, option::of(moment()));
    parts.prop_map(|(raft_index, new, addresses, joining_since)| Instance {
        raft_index,
        node: new.node,
        revision: new.revision,
        spec_hash: new.spec_hash,
        gpus: new.gpus,
        addresses,
        joining_since,
    })
}

pub(crate) fn gpu_ids() -> impl Strategy<Value = Vec<Arc<str>>> {
    vec(text().prop_map(Arc::from), 0..3)
}

pub(crate) fn observed() -> impl Strategy<Value = InstanceObserved> {
    let state = select(vec![
        ReplicaState::Pending,
        ReplicaState::Pulling,
        ReplicaState::Starting,
        ReplicaState::Running,
        ReplicaState::Degraded,
        ReplicaState::Failed,
        ReplicaState::Stopped,
    ]);
    let exit = (any::<i64>(), any::<bool>())
        .prop_map(|(code, out_of_memory)| Exit { code, out_of_memory });
    let what = (state, option::of(select(ReasonCode::ALL)), facts_by_name());
    let container = (text(), btree_map(any::<u16>(), text(), 0..3));
    let moments = (option::of(moment()), moment());
    (instance_id(), service_key(), node_id(), what, container, moments, option::of(exit)).prop_map(
        |(id, service, node, what, container, moments, exit)| {
            let (state, code, details) = what;
            let (container_id, ports) = container;
            let (started_at, since) = moments;
            InstanceObserved {
                id,
                service,
                node,
                state,
                code,
                details,
                container_id,
                ports,
                started_at,
                since,
                exit,
            }
        },
    )
}

pub(crate) fn scheduling() -> impl Strategy<Value = Scheduling> {
    let unplaced = (any::<u32>(), text(), facts_by_name())
        .prop_map(|(count, reason, details)| Unplaced { count, reason, details });
    let first_watch = select(vec![FirstWatch::Over, FirstWatch::Open]);
    let rollout = option::of(rollout());
    (any::<u64>(), revision(), rollout, vec(unplaced, 0..3), first_watch, index()).prop_map(
        |(next_index, planned_revision, rollout, unplaced, first_watch, modified)| Scheduling {
            next_index,
            planned_revision,
            rollout,
            unplaced,
            first_watch,
            modified,
        },
    )
}

pub(crate) fn rollout() -> impl Strategy<Value = Rollout> {
    let state = select(vec![
        RolloutState::InProgress,
        RolloutState::Completed,
        RolloutState::Aborted,
        RolloutState::Paused,
        RolloutState::RollbackPaused,
    ]);
    let steps = (any::<u32>(), any::<u32>());
    let revisions = (revision(), revision());
    let nodes = btree_map(node_id(), text(), 0..3);
    let preparing = option::of((moment(), nodes).prop_map(|(due, nodes)| Prepull { due, nodes }));
    let rollback_progress = any::<(u32, u32)>()
        .prop_map(|(total_steps, current_step)| RollbackProgress { total_steps, current_step });
    let moments = (moment(), moment(), preparing, option::of(rollback_progress));
    let in_flight = btree_set(replica_id(), 0..3);
    (revisions, steps, state, text(), moments, in_flight).prop_map(
        |(revisions, steps, state, failure_reason, moments, in_flight)| {
            let (started_at, last_step_at, prepull, rollback_progress) = moments;
            Rollout {
                target_revision: revisions.0,
                previous_revision: revisions.1,
                total_steps: steps.0,
                current_step: steps.1,
                state,
                failure_reason,
                started_at,
                last_step_at,
                prepull,
                rollback_progress,
                in_flight,
            }
        },
    )
}

pub(crate) fn node_status() -> impl Strategy<Value = NodeStatus> {
    select(vec![
        NodeStatus::Joining,
        NodeStatus::Ready,
        NodeStatus::Down,
        NodeStatus::EngineDown,
        NodeStatus::DiskFull,
    ])
}

pub(crate) fn availability() -> impl Strategy<Value = Availability> {
    select(vec![Availability::Active, Availability::Cordoned, Availability::Draining])
}

pub(crate) fn exhausted() -> impl Strategy<Value = Exhausted> {
    select(vec![Exhausted::No, Exhausted::Yes])
}

pub(crate) fn ordinal() -> impl Strategy<Value = Ordinal> {
    prop_oneof![any::<u64>().prop_map(Ordinal::Index), hostname().prop_map(Ordinal::Host)]
}

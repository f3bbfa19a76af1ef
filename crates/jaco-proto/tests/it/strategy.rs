//! Arbitrary values of everything that is stored. Struct expressions are whole on purpose: a new
//! field does not compile until it is generated here, and so is part of every round trip.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

use jaco_proto::storage::Payload;
use jaco_state::audit::{AuditEvent, AuditKey, AuditKind, AuditLog, Retention};
use jaco_state::audit_chain::Digest;
use jaco_state::audit_refusals::RefusalCount;
use jaco_state::command::{
    Disabling, NewInstance, NewNode, Previous, RebalanceMove, RebalanceRevert, ReplaceCause,
    SpecChange,
};
use jaco_state::contents::{Content, Form, Hold, NamedContent, Piece, PieceBytes};
use jaco_state::registries::{RegistryLogin, SealedPassword};
use jaco_state::requests::RequestLog;
use jaco_state::state::{Pin, RevisionRecord};
use jaco_state::token::{JoinToken, OperatorToken};
use jaco_state::{
    Change, ClusterMeta, ClusterState, Command, Deployment, DisabledSet, Outcome, Table,
};
use jaco_types::slot::Exhausted;
use jaco_types::spec::{
    Affinity, BackFailureAction, BackPolicy, Condition, Constraint, Dependency, DeploymentSpec,
    FailureAction, Healthcheck, HostPort, OnNodeLoss, Operator, Placement, Privilege, Protocol,
    Pull, Required, SchedulingPolicy, Scoring, ServiceSpec, SpreadCriterion, SpreadTarget, Storage,
    UpdateOrder, UpdatePolicy,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    Aftermath, AllocationScope, Author, Availability, ClusterId, Consumer, ConsumerName, ContentId,
    ContentName, DeploymentName, Drain, Ending, ErrorCode, Exit, GoingBack, Gpu, GpuChoice,
    GpuDemand, Hostname, Identity, ImageDigest, Instance, InstanceId, InstanceObserved, Leaving,
    Machine, Millis, NamedKey, NamedKind, Node, NodeFacts, NodeId, NodeStatus, Ordinal, Origin,
    Preparing, ReasonCode, RegistryName, RegistryUsername, Rejection, ReplicaId, ReplicaState,
    RequestId, Rest, RestartCount, Revision, Rollout, RolloutState, Scheduling, ServiceKey,
    ServiceName, Slot, SpecHash, Standing, StateIndex, Timestamp, TokenId, Unplaced,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn payload() -> impl Strategy<Value = Payload> {
    (moment(), identity(), option::of(origin()), option::of(request()), command())
        .prop_map(|(at, by, origin, request, command)| Payload { at, by, origin, request, command })
}

pub(crate) fn author() -> impl Strategy<Value = Author> {
    (identity(), option::of(origin())).prop_map(|(by, origin)| Author { by, origin })
}

fn origin() -> impl Strategy<Value = Origin> {
    let address = (any::<IpAddr>(), any::<u16>()).prop_map(SocketAddr::from);
    prop_oneof![
        (any::<u32>(), node_id()).prop_map(|(uid, node)| Origin::Socket { uid, node }),
        (address, node_id()).prop_map(|(address, node)| Origin::Address { address, node }),
        node_id().prop_map(|node| Origin::Member { node }),
    ]
}

pub(crate) fn identity() -> impl Strategy<Value = Identity> {
    prop_oneof![
        any::<u32>().prop_map(|uid| Identity::Local { uid }),
        token_id().prop_map(|token| Identity::Operator { token }),
        node_id().prop_map(|id| Identity::Node { id }),
        Just(Identity::Scheduler),
        Just(Identity::Anonymous),
    ]
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        (meta(), new_node(), operator_token())
            .prop_map(|(meta, node, token)| Command::ClusterInit { meta, node, token }),
        (new_node(), token_id()).prop_map(|(node, token)| Command::NodeAdmit { node, token }),
        (node_id(), text(), facts()).prop_map(|(node, address, facts)| Command::NodeReport {
            node,
            address,
            facts
        }),
        (node_id(), availability()).prop_map(|(node, availability)| {
            Command::NodeSetAvailability { node, availability }
        }),
        (node_id(), any::<u64>())
            .prop_map(|(node, patience)| Command::NodeDrain { node, patience: Millis(patience) }),
        (node_id(), facts_by_name(), btree_set(text(), 0..3))
            .prop_map(|(node, set, unset)| Command::NodeSetLabels { node, set, unset }),
        node_id().prop_map(|node| Command::NodeRemove { node }),
        vec(piece(), 0..3).prop_map(|pieces| Command::ContentPut { pieces }),
        (named_key(), content_id(), vec(piece(), 0..3), any::<u64>()).prop_map(
            |(key, tree, pieces, size)| Command::NamedContentPut { key, tree, pieces, size }
        ),
        named_key().prop_map(|key| Command::NamedContentRemove { key }),
        (registry_name(), registry_username(), sealed_password()).prop_map(
            |(registry, username, password)| Command::RegistryStore {
                registry,
                username,
                password
            }
        ),
        registry_name().prop_map(|registry| Command::RegistryRemove { registry }),
        (deployment_name(), spec(), option::of(revision()))
            .prop_map(|(name, spec, based_on)| Command::DeploymentApply { name, spec, based_on }),
        deployment_name().prop_map(|name| Command::DeploymentDelete { name }),
        (deployment_name(), option::of(revision()))
            .prop_map(|(name, to)| Command::DeploymentRollback { name, to }),
        (deployment_name(), revision(), pin())
            .prop_map(|(name, revision, pin)| Command::RevisionPin { name, revision, pin }),
        (index(), vec(change(), 0..6))
            .prop_map(|(based_on, changes)| Command::Batch { based_on, changes }),
        (node_id(), vec(observed(), 0..3), vec(instance_id(), 0..3))
            .prop_map(|(node, observed, gone)| Command::Observe { node, observed, gone }),
        operator_token().prop_map(|token| Command::OperatorTokenIssue { token }),
        token_id().prop_map(|id| Command::OperatorTokenRevoke { id }),
        join_token().prop_map(|token| Command::JoinTokenIssue { token }),
        Just(Command::AuditBegin),
        millis().prop_map(|age| Command::AuditRetention { age }),
        (index(), vec(rebalance_revert(), 0..3))
            .prop_map(|(based_on, reverts)| Command::RebalanceRevert { based_on, reverts }),
        (index(), vec(rebalance_move(), 0..3), vec(facts_by_name(), 0..3))
            .prop_map(|(based_on, moves, kept)| Command::Rebalance { based_on, moves, kept }),
        (audit_kind(), facts_by_name())
            .prop_map(|(kind, payload)| Command::AuditNote { kind, payload }),
        (consumer_name(), node_id(), millis())
            .prop_map(|(name, node, lease)| Command::ConsumerAttach { name, node, lease }),
        (consumer_name(), index())
            .prop_map(|(name, session)| Command::ConsumerDetach { name, session }),
        facts_by_name().prop_map(|pairs| Command::ConstraintsSet { pairs }),
        (disabling(), btree_set(scope(), 0..4))
            .prop_map(|(change, scopes)| Command::DisabledSet { change, scopes }),
    ]
}

fn disabling() -> impl Strategy<Value = Disabling> {
    select(vec![Disabling::Disable, Disabling::Enable, Disabling::Replace])
}

fn scope() -> impl Strategy<Value = AllocationScope> {
    prop_oneof![
        node_id().prop_map(AllocationScope::Node),
        service_key().prop_map(AllocationScope::Service),
        (service_key(), node_id())
            .prop_map(|(service, node)| AllocationScope::Pair { service, node }),
        (service_key(), replica_id())
            .prop_map(|(service, id)| AllocationScope::Replica { service, id }),
    ]
}

fn disabled() -> impl Strategy<Value = DisabledSet> {
    let rest = (identity(), moment()).prop_map(|(by, at)| Rest { by, at });
    (btree_map(scope(), rest, 0..4), index()).prop_map(|(scopes, modified)| DisabledSet {
        scopes: scopes.into_iter().collect(),
        modified,
    })
}

fn standing() -> impl Strategy<Value = Standing> {
    select(vec![Standing::Active, Standing::Disabled])
}

fn rebalance_move() -> impl Strategy<Value = RebalanceMove> {
    (replica_id(), new_instance(), facts_by_name())
        .prop_map(|(id, instance, facts)| RebalanceMove { id, instance, facts })
}

fn rebalance_revert() -> impl Strategy<Value = RebalanceRevert> {
    (replica_id(), facts_by_name()).prop_map(|(id, facts)| RebalanceRevert { id, facts })
}

fn change() -> impl Strategy<Value = Change> {
    let cause = select(vec![
        ReplaceCause::SpecChanged,
        ReplaceCause::Failed,
        ReplaceCause::NodeLost,
        ReplaceCause::Moved,
        ReplaceCause::CompanyReplaced,
        ReplaceCause::Enabled,
    ]);
    let previous = select(vec![Previous::Retire, Previous::Drop]);
    prop_oneof![
        (replica_id(), service_key(), ordinal(), new_instance(), standing()).prop_map(
            |(id, service, ordinal, instance, standing)| Change::SlotCreate {
                id,
                service,
                ordinal,
                instance,
                standing
            }
        ),
        (replica_id(), new_instance())
            .prop_map(|(id, instance)| Change::SlotDisable { id, instance }),
        (replica_id(), new_instance(), previous, cause, any::<u32>()).prop_map(
            |(id, instance, previous, cause, consecutive_failures)| Change::SlotReplace {
                id,
                instance,
                previous,
                cause,
                consecutive_failures
            }
        ),
        replica_id().prop_map(|id| Change::SlotSettle { id }),
        replica_id().prop_map(|id| Change::SlotRevert { id }),
        (replica_id(), any::<u32>(), exhausted()).prop_map(|(id, consecutive, exhausted)| {
            Change::SlotSetRestarts { id, consecutive, exhausted }
        }),
        replica_id().prop_map(|id| Change::SlotRemove { id }),
        (service_key(), scheduling()).prop_map(|(service, record)| Change::SchedulingSet {
            service,
            record: Box::new(record)
        }),
        instance_id().prop_map(|id| Change::LeavingEnd { id }),
        consumer_name().prop_map(|name| Change::ConsumerExpire { name }),
        (node_id(), node_status(), text())
            .prop_map(|(node, status, reason)| Change::NodeStatusSet { node, status, reason }),
        (node_id(), text()).prop_map(|(node, left)| Change::DrainGiveUp { node, left }),
        (service_key(), revision(), image_digest()).prop_map(|(service, revision, digest)| {
            Change::ImageResolve { service, revision, digest }
        }),
    ]
}

pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    let change = select(vec![SpecChange::Created, SpecChange::Updated, SpecChange::Unchanged]);
    prop_oneof![
        Just(Outcome::Done),
        node_id().prop_map(|id| Outcome::NodeAdmitted { id }),
        (revision(), change).prop_map(|(revision, change)| Outcome::Deployed { revision, change }),
        (select(ErrorCode::ALL), text(), facts_by_name()).prop_map(|(code, message, details)| {
            Outcome::Rejected(Rejection { code, message, details })
        }),
    ]
}

pub(crate) fn state() -> impl Strategy<Value = ClusterState> {
    let tables = (
        table(node(), |node| node.id),
        table(deployment(), |deployment| deployment.name.clone()),
        btree_map(service_key(), scheduling(), 0..4).prop_map(|rows| rows.into_iter().collect()),
        table(slot(), |slot| slot.id.clone()),
        table(observed(), |observed| observed.id.clone()),
        table(consumer(), |consumer| consumer.name.clone()),
        table(leaving(), |leaving| leaving.id.clone()),
        table(operator_token(), |token| token.id.clone()),
        table(join_token(), |token| token.id.clone()),
    );
    let contents = btree_map(content_id(), content(), 0..4);
    let named = btree_map(named_key(), named_content(), 0..4);
    let registries = btree_map(registry_name(), registry_login(), 0..4);
    let one = (option::of(meta()), facts_by_name(), disabled());
    (index(), one, tables, requests(), audit(), (contents, named, registries)).prop_map(
        |(index, (meta, constraints, disabled), tables, requests, audit, files)| {
            let (contents, named, registries) = files;
            let (
                nodes,
                deployments,
                scheduling,
                slots,
                observed,
                consumers,
                leaving,
                operator_tokens,
                join_tokens,
            ) = tables;
            ClusterState {
                index,
                meta,
                constraints,
                disabled,
                nodes,
                deployments,
                scheduling,
                slots,
                observed,
                consumers,
                leaving,
                operator_tokens,
                join_tokens,
                requests,
                audit,
                contents: contents.into_iter().collect(),
                named: named.into_iter().collect(),
                registries: registries.into_iter().collect(),
            }
        },
    )
}

fn table<K: Ord + Clone + std::fmt::Debug, V: Clone + std::fmt::Debug>(
    row: impl Strategy<Value = V>,
    key: impl Fn(&V) -> K,
) -> impl Strategy<Value = Table<K, V>> {
    vec(row, 0..4).prop_map(move |rows| rows.into_iter().map(|row| (key(&row), row)).collect())
}

fn pin() -> impl Strategy<Value = Pin> {
    select(vec![Pin::No, Pin::Yes])
}

fn consumer() -> impl Strategy<Value = Consumer> {
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

fn leaving() -> impl Strategy<Value = Leaving> {
    (instance_id(), service_key(), instance(), index(), moment()).prop_map(
        |(id, service, instance, left_at, since)| Leaving {
            id,
            service,
            node: instance.node,
            revision: instance.revision,
            spec_hash: instance.spec_hash,
            gpus: instance.gpus,
            left_at,
            since,
        },
    )
}

fn consumer_name() -> impl Strategy<Value = ConsumerName> {
    "[a-z0-9][a-z0-9._-]{0,20}".prop_map(|text| ConsumerName::new(&text).unwrap())
}

fn millis() -> impl Strategy<Value = Millis> {
    any::<u64>().prop_map(Millis)
}

fn deployment() -> impl Strategy<Value = Deployment> {
    let digests = btree_map(service_name(), image_digest(), 0..3);
    let record = (spec(), moment(), identity(), option::of(revision()), pin(), text(), digests);
    let record = record.prop_map(|fields| {
        let (spec, applied_at, applied_by, restores, pin, failure, digests) = fields;
        Arc::new(RevisionRecord { spec, applied_at, applied_by, restores, pin, failure, digests })
    });
    let revisions = btree_map(revision(), record, 1..4);
    (deployment_name(), revisions, any::<prop::sample::Index>(), index()).prop_map(
        |(name, revisions, wanted, modified)| {
            let revision = *revisions.keys().nth(wanted.index(revisions.len())).unwrap();
            Deployment { name, revision, revisions, modified }
        },
    )
}

/// As `apply` builds it: each request once, by its age and by its id.
fn requests() -> impl Strategy<Value = RequestLog> {
    btree_map(request(), (index(), outcome()), 0..5).prop_map(|requests| {
        let mut log = RequestLog::default();
        for (request, (index, outcome)) in requests {
            if !log.order.contains(&index) {
                log.order.insert(index, request.clone());
                log.outcomes.insert(request, outcome);
            }
        }
        log
    })
}

fn audit() -> impl Strategy<Value = AuditLog> {
    let key = || (index(), any::<u32>()).prop_map(|(index, number)| AuditKey { index, number });
    let digest = || option::of(any::<[u8; 32]>().prop_map(Digest));
    let who = (identity(), option::of(origin()), option::of(request()));
    let said = (audit_kind(), moment(), who, facts_by_name());
    let event =
        (said, digest()).prop_map(|((kind, at, (by, origin, request), payload), previous)| {
            AuditEvent { kind, at, by, origin, request, payload, previous }
        });
    let retention = (millis(), option::of(key())).prop_map(|(age, cut)| Retention { age, cut });
    let refusals = btree_map(identity(), refusal_count(), 0..4);
    (btree_map(key(), event, 0..4), digest(), option::of(retention), refusals).prop_map(
        |(events, head, retention, refusals)| AuditLog {
            events: events.into_iter().collect(),
            head,
            retention,
            refusals: refusals.into_iter().collect(),
        },
    )
}

fn refusal_count() -> impl Strategy<Value = RefusalCount> {
    (moment(), any::<u32>(), any::<u64>()).prop_map(|(since, written, unreported)| RefusalCount {
        since,
        written,
        unreported,
    })
}

fn meta() -> impl Strategy<Value = ClusterMeta> {
    let id = "[0-9a-f]{32}".prop_map(|text| ClusterId::new(&text).unwrap());
    (id, text(), text(), vec(any::<u8>(), 0..40), moment()).prop_map(
        |(id, name, ca_certificate, sealed_ca_key, created_at)| ClusterMeta {
            id,
            name,
            ca_certificate,
            sealed_ca_key,
            created_at,
        },
    )
}

fn operator_token() -> impl Strategy<Value = OperatorToken> {
    (token_id(), any::<[u8; 32]>(), moment(), identity(), option::of(moment())).prop_map(
        |(id, secret_hash, issued_at, issued_by, revoked_at)| OperatorToken {
            id,
            secret_hash,
            issued_at,
            issued_by,
            revoked_at,
        },
    )
}

fn join_token() -> impl Strategy<Value = JoinToken> {
    (token_id(), any::<[u8; 32]>(), moment(), identity(), moment(), any::<u32>()).prop_map(
        |(id, secret_hash, issued_at, issued_by, expires_at, uses_left)| JoinToken {
            id,
            secret_hash,
            issued_at,
            issued_by,
            expires_at,
            uses_left,
        },
    )
}

fn drain() -> impl Strategy<Value = Drain> {
    (any::<u64>(), moment(), availability()).prop_map(|(patience, progress_at, before)| Drain {
        patience: Millis(patience),
        progress_at,
        before,
    })
}

fn node() -> impl Strategy<Value = Node> {
    let standing = (node_status(), text(), availability(), text(), option::of(drain()));
    let standing = (standing, facts_by_name());
    (node_id(), hostname(), text(), any::<[u8; 32]>(), standing, facts(), moment(), index())
        .prop_map(
            |(id, hostname, address, key_fingerprint, standing, facts, joined_at, modified)| {
                let (standing, labels) = standing;
                let (status, status_reason, availability, availability_reason, drain) = standing;
                Node {
                    id,
                    hostname,
                    address,
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

fn new_node() -> impl Strategy<Value = NewNode> {
    (hostname(), text(), any::<[u8; 32]>(), facts()).prop_map(
        |(hostname, address, key_fingerprint, facts)| NewNode {
            hostname,
            address,
            key_fingerprint,
            facts,
        },
    )
}

fn facts() -> impl Strategy<Value = NodeFacts> {
    let said = (text(), text(), text(), text());
    let gpus = vec(gpu(), 0..3);
    (said, resources(), facts_by_name(), any::<u64>(), gpus, machine()).prop_map(
        |((version, os, arch, engine), capacity, labels, storage, gpus, machine)| NodeFacts {
            version,
            os,
            arch,
            engine,
            capacity,
            storage: Bytes(storage),
            gpus,
            machine,
            labels,
        },
    )
}

fn gpu() -> impl Strategy<Value = Gpu> {
    let gpu = |(id, driver, model, memory): (String, _, _, _)| Gpu {
        id: id.into(),
        driver,
        model,
        memory: Bytes(memory),
    };
    (text(), text(), text(), any::<u64>()).prop_map(gpu)
}

fn machine() -> impl Strategy<Value = Machine> {
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

fn slot() -> impl Strategy<Value = Slot> {
    let restarts = (any::<u32>(), exhausted())
        .prop_map(|(consecutive, exhausted)| RestartCount { consecutive, exhausted });
    let instances = (instance(), option::of(instance()));
    let restarts = (restarts, vec(ending(), 0..3));
    let ordinal = (ordinal(), standing());
    (replica_id(), service_key(), ordinal, instances, restarts, index()).prop_map(
        |(id, service, (ordinal, standing), (current, retiring), (restarts, endings), modified)| {
            Slot { id, service, ordinal, standing, current, retiring, restarts, endings, modified }
        },
    )
}

fn ending() -> impl Strategy<Value = Ending> {
    let what = (select(Aftermath::ALL), observed());
    (instance(), moment(), what).prop_map(|(instance, at, (aftermath, seen))| Ending {
        raft_index: instance.raft_index,
        node: instance.node,
        revision: instance.revision,
        at,
        aftermath,
        state: seen.state,
        code: seen.code,
        details: seen.details,
        exit: seen.exit,
    })
}

fn instance() -> impl Strategy<Value = Instance> {
    (index(), new_instance()).prop_map(|(raft_index, new)| Instance {
        raft_index,
        node: new.node,
        revision: new.revision,
        spec_hash: new.spec_hash,
        gpus: new.gpus,
    })
}

fn new_instance() -> impl Strategy<Value = NewInstance> {
    (node_id(), revision(), any::<[u8; 32]>().prop_map(SpecHash), gpu_ids()).prop_map(
        |(node, revision, spec_hash, gpus)| NewInstance { node, revision, spec_hash, gpus },
    )
}

fn gpu_ids() -> impl Strategy<Value = Vec<Arc<str>>> {
    vec(text().prop_map(Arc::from), 0..3)
}

fn gpu_demand() -> impl Strategy<Value = GpuDemand> {
    let choice = prop_oneof![
        Just(GpuChoice::All),
        (1..=u32::MAX)
            .prop_filter_map("not zero", |count| { NonZeroU32::new(count).map(GpuChoice::Count) }),
        gpu_ids().prop_map(GpuChoice::These),
    ];
    (text(), choice).prop_map(|(driver, choice)| GpuDemand { driver, choice })
}

fn observed() -> impl Strategy<Value = InstanceObserved> {
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

fn scheduling() -> impl Strategy<Value = Scheduling> {
    let unplaced = (any::<u32>(), text(), facts_by_name())
        .prop_map(|(count, reason, details)| Unplaced { count, reason, details });
    (any::<u64>(), revision(), option::of(rollout()), vec(unplaced, 0..3), index()).prop_map(
        |(next_index, planned_revision, rollout, unplaced, modified)| Scheduling {
            next_index,
            planned_revision,
            rollout,
            unplaced,
            modified,
        },
    )
}

fn rollout() -> impl Strategy<Value = Rollout> {
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
    let preparing = option::of((moment(), nodes).prop_map(|(due, nodes)| Preparing { due, nodes }));
    let going_back = any::<(u32, u32)>()
        .prop_map(|(total_steps, current_step)| GoingBack { total_steps, current_step });
    let moments = (moment(), moment(), preparing, option::of(going_back));
    let under_way = btree_set(replica_id(), 0..3);
    (revisions, steps, state, text(), moments, under_way).prop_map(
        |(revisions, steps, state, failure_reason, moments, under_way)| {
            let (started_at, last_step_at, preparing, going_back) = moments;
            Rollout {
                target_revision: revisions.0,
                previous_revision: revisions.1,
                total_steps: steps.0,
                current_step: steps.1,
                state,
                failure_reason,
                started_at,
                last_step_at,
                preparing,
                going_back,
                under_way,
            }
        },
    )
}

fn spec() -> impl Strategy<Value = DeploymentSpec> {
    let contents = (btree_set(content_id(), 0..3), btree_set(named_key(), 0..3));
    let privileges = btree_set(select(Privilege::ALL), 1..4);
    let privileges = btree_map(service_name(), privileges, 0..3);
    let fields = (vec(service_spec(), 0..3), text(), text(), text(), contents, privileges);
    fields.prop_map(|(services, compose, overlay, environment, (contents, named), privileges)| {
        let by_name = |service: ServiceSpec| (service.name.clone(), Arc::new(service));
        DeploymentSpec {
            services: services.into_iter().map(by_name).collect(),
            compose: compose.into(),
            overlay: overlay.into(),
            environment: environment.into(),
            contents,
            named,
            privileges,
        }
    })
}

fn content_id() -> impl Strategy<Value = ContentId> {
    any::<[u8; 32]>().prop_map(ContentId)
}

fn form() -> impl Strategy<Value = Form> {
    select(&[Form::Plain, Form::Sealed][..])
}

fn piece_bytes() -> impl Strategy<Value = PieceBytes> {
    vec(any::<u8>(), 0..5).prop_map(|bytes| PieceBytes(bytes.into()))
}

fn piece() -> impl Strategy<Value = Piece> {
    (content_id(), form(), piece_bytes()).prop_map(|(id, form, bytes)| Piece { id, form, bytes })
}

fn named_key() -> impl Strategy<Value = NamedKey> {
    let kind = select(vec![NamedKind::Config, NamedKind::Secret]);
    let name = "[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}";
    (kind, name).prop_map(|(kind, name)| NamedKey { kind, name: ContentName::new(&name).unwrap() })
}

fn named_content() -> impl Strategy<Value = NamedContent> {
    (any::<u64>(), content_id(), btree_set(content_id(), 0..3), any::<u64>(), any::<u64>())
        .prop_map(|(version, tree, pieces, size, at)| NamedContent {
            version,
            tree,
            pieces,
            size,
            stored_at: Timestamp(at),
        })
}

fn registry_name() -> impl Strategy<Value = RegistryName> {
    let host = prop_oneof![
        "[a-z0-9]{1,8}(\\.[a-z0-9]{1,8}){1,3}(:[1-9][0-9]{0,3})?",
        "(localhost|registry):[1-9][0-9]{0,3}",
        Just("docker.io".to_owned()),
    ];
    host.prop_map(|name| RegistryName::new(&name).unwrap())
}

fn registry_username() -> impl Strategy<Value = RegistryUsername> {
    "[a-zA-Z0-9 $@._-]{1,20}".prop_map(|name| RegistryUsername::new(&name).unwrap())
}

fn sealed_password() -> impl Strategy<Value = SealedPassword> {
    vec(any::<u8>(), 0..5).prop_map(|bytes| SealedPassword(bytes.into()))
}

fn registry_login() -> impl Strategy<Value = RegistryLogin> {
    (registry_username(), sealed_password(), moment(), identity()).prop_map(
        |(username, password, stored_at, by)| RegistryLogin { username, password, stored_at, by },
    )
}

fn content() -> impl Strategy<Value = Content> {
    let hold = prop_oneof![moment().prop_map(|since| Hold::Staged { since }), Just(Hold::Kept)];
    (piece_bytes(), form(), hold).prop_map(|(bytes, form, hold)| Content { bytes, form, hold })
}

fn service_spec() -> impl Strategy<Value = ServiceSpec> {
    let wanted = (service_name(), text(), placement(), any::<u32>());
    let needs = (vec(host_port(), 0..3), vec(dependency(), 0..3), resources(), resources());
    let kinds = (
        select(vec![Storage::Stateless, Storage::Stateful]),
        select(vec![Healthcheck::None, Healthcheck::Declared]),
        select(vec![Pull::Missing, Pull::Always, Pull::Never]),
    );
    let hash = (text(), any::<[u8; 32]>(), option::of(gpu_demand()));
    (wanted, needs, kinds, update_policy(), scheduling_policy(), on_node_loss(), hash).prop_map(
        |(wanted, needs, kinds, update, scheduling, on_node_loss, (container, hash, gpus))| {
            let (name, image, placement, replicas) = wanted;
            let (host_ports, depends_on, reservation, limit) = needs;
            let (storage, healthcheck, pull) = kinds;
            ServiceSpec {
                name,
                image: image.into(),
                pull,
                placement,
                replicas,
                host_ports,
                depends_on,
                reservation,
                limit,
                gpus,
                storage,
                healthcheck,
                update,
                scheduling,
                on_node_loss,
                container: container.into(),
                hash: SpecHash(hash),
            }
        },
    )
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::Spread),
        Just(Placement::Pack),
        btree_set(hostname(), 0..4).prop_map(Placement::Hosts),
        Just(Placement::Global),
    ]
}

fn on_node_loss() -> impl Strategy<Value = OnNodeLoss> {
    prop_oneof![
        millis().prop_map(|after| OnNodeLoss::Replace { after }),
        Just(OnNodeLoss::default()),
        Just(OnNodeLoss::Wait),
        (millis(), millis()).prop_map(|(after, grace)| OnNodeLoss::StopSelf { after, grace }),
    ]
}

fn scheduling_policy() -> impl Strategy<Value = SchedulingPolicy> {
    let affinity = (constraint(), any::<i8>())
        .prop_map(|(constraint, weight)| Affinity { constraint, weight });
    let target = (text(), any::<u8>()).prop_map(|(value, percent)| SpreadTarget { value, percent });
    let criterion = (text(), any::<u8>(), vec(target, 0..3))
        .prop_map(|(attribute, weight, targets)| SpreadCriterion { attribute, weight, targets });
    let lists = (vec(constraint(), 0..3), vec(affinity, 0..3), vec(criterion, 0..3));
    let with = (any::<u32>(), btree_set(service_name(), 0..3), btree_set(service_name(), 0..3));
    let sets = (btree_set(text(), 0..3), btree_set(text(), 0..3));
    let scoring = select(vec![Scoring::Jaco, Scoring::Nomad]);
    let policy = (sets, lists, resources(), with, scoring).prop_map(
        |((selectors, own_keys), (constraints, affinities, spread), minimum, with, scoring)| {
            SchedulingPolicy {
                selectors,
                constraints,
                affinities,
                spread,
                minimum,
                own_keys,
                max_per_node: std::num::NonZeroU32::new(with.0),
                place_with: with.1,
                beside: with.2,
                scoring,
            }
        },
    );
    prop_oneof![Just(SchedulingPolicy::default()), policy]
}

fn constraint() -> impl Strategy<Value = Constraint> {
    (text(), select(Operator::ALL), text()).prop_map(|(attribute, operator, value)| Constraint {
        attribute,
        operator,
        value,
    })
}

fn host_port() -> impl Strategy<Value = HostPort> {
    (any::<u16>(), select(vec![Protocol::Tcp, Protocol::Udp, Protocol::Sctp]))
        .prop_map(|(port, protocol)| HostPort { port, protocol })
}

fn dependency() -> impl Strategy<Value = Dependency> {
    let condition =
        select(vec![Condition::Started, Condition::Healthy, Condition::CompletedSuccessfully]);
    (service_name(), condition, select(vec![Required::Yes, Required::No]))
        .prop_map(|(service, condition, required)| Dependency { service, condition, required })
}

fn update_policy() -> impl Strategy<Value = UpdatePolicy> {
    let millis = || any::<u64>().prop_map(Millis);
    let order = select(vec![UpdateOrder::StartFirst, UpdateOrder::StopFirst]);
    let back_action = select(vec![BackFailureAction::Continue, BackFailureAction::Pause]);
    let back =
        (any::<u32>(), order.clone(), millis(), option::of(millis()), back_action, any::<u32>());
    let back = back.prop_map(
        |(parallelism, order, delay, monitor, failure_action, max_failure_permille)| BackPolicy {
            parallelism,
            order,
            delay,
            monitor,
            failure_action,
            max_failure_permille,
        },
    );
    let failure_action =
        select(vec![FailureAction::Rollback, FailureAction::Pause, FailureAction::Continue]);
    let failing = (failure_action, any::<u32>(), back);
    let monitor = option::of(millis());
    (any::<u32>(), order, millis(), monitor, millis(), failing).prop_map(
        |(
            parallelism,
            order,
            step_timeout,
            monitor,
            delay,
            (failure_action, max_failure_permille, back),
        )| UpdatePolicy {
            failure_action,
            max_failure_permille,
            back,
            parallelism,
            order,
            step_timeout,
            monitor,
            delay,
        },
    )
}

fn resources() -> impl Strategy<Value = Resources> {
    any::<(u64, u64)>()
        .prop_map(|(cpu, memory)| Resources { cpu: MilliCores(cpu), memory: Bytes(memory) })
}

fn node_status() -> impl Strategy<Value = NodeStatus> {
    select(vec![
        NodeStatus::Joining,
        NodeStatus::Ready,
        NodeStatus::Down,
        NodeStatus::EngineDown,
        NodeStatus::DiskFull,
    ])
}

fn availability() -> impl Strategy<Value = Availability> {
    select(vec![Availability::Active, Availability::Cordoned, Availability::Draining])
}

fn exhausted() -> impl Strategy<Value = Exhausted> {
    select(vec![Exhausted::No, Exhausted::Yes])
}

fn audit_kind() -> impl Strategy<Value = AuditKind> {
    select(AuditKind::ALL)
}

fn ordinal() -> impl Strategy<Value = Ordinal> {
    prop_oneof![any::<u64>().prop_map(Ordinal::Index), hostname().prop_map(Ordinal::Host)]
}

fn image_digest() -> impl Strategy<Value = ImageDigest> {
    "[a-z]{1,5}(:[0-9]{1,4}/[a-z]{1,5})?@sha256:[0-9a-f]{64}"
        .prop_map(|text| ImageDigest::parse(&text).unwrap())
}

fn service_key() -> impl Strategy<Value = ServiceKey> {
    (deployment_name(), service_name())
        .prop_map(|(deployment, service)| ServiceKey { deployment, service })
}

fn instance_id() -> impl Strategy<Value = InstanceId> {
    (replica_id(), index()).prop_map(|(replica, raft_index)| InstanceId { replica, raft_index })
}

fn deployment_name() -> impl Strategy<Value = DeploymentName> {
    "[a-z0-9][a-z0-9_-]{0,6}".prop_map(|text| DeploymentName::new(&text).unwrap())
}

fn service_name() -> impl Strategy<Value = ServiceName> {
    "[a-zA-Z0-9][a-zA-Z0-9._-]{0,6}".prop_map(|text| ServiceName::new(&text).unwrap())
}

fn hostname() -> impl Strategy<Value = Hostname> {
    "[a-z][a-z0-9]{0,4}(\\.[a-z]{1,3})?".prop_map(|text| Hostname::new(&text).unwrap())
}

fn token_id() -> impl Strategy<Value = TokenId> {
    "[a-z0-9-]{1,8}".prop_map(|text| TokenId::new(&text).unwrap())
}

fn request() -> impl Strategy<Value = RequestId> {
    "[!-~]{1,12}".prop_map(|text| RequestId::new(&text).unwrap())
}

fn replica_id() -> impl Strategy<Value = ReplicaId> {
    "[!-~]{1,12}".prop_map(|text| ReplicaId::parse(&text).unwrap())
}

fn node_id() -> impl Strategy<Value = NodeId> {
    any::<u64>().prop_map(NodeId)
}

fn index() -> impl Strategy<Value = StateIndex> {
    any::<u64>().prop_map(StateIndex)
}

fn revision() -> impl Strategy<Value = Revision> {
    any::<u64>().prop_map(Revision)
}

fn moment() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

fn facts_by_name() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..3)
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,10}"
}

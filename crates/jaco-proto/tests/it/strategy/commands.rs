//! Log entries and their outcomes.

use super::*;

pub(crate) fn payload() -> impl Strategy<Value = Payload> {
    (moment(), identity(), option::of(origin()), option::of(request()), command())
        .prop_map(|(at, by, origin, request, command)| Payload { at, by, origin, request, command })
}

pub(crate) fn author() -> impl Strategy<Value = Author> {
    (identity(), option::of(origin())).prop_map(|(by, origin)| Author { by, origin })
}

pub(crate) fn origin() -> impl Strategy<Value = Origin> {
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

fn authority_command() -> impl Strategy<Value = Command> {
    let tokens = select(vec![OpenJoinTokens::Wait, OpenJoinTokens::Revoke]);
    prop_oneof![
        (any::<[u8; 32]>(), rotated()).prop_map(|(old, new)| AuthorityRotate::new(old, new).into()),
        (index(), node_id(), rotation_step())
            .prop_map(|(id, node, step)| AuthorityReport::new(id, node, step).into()),
        (index(), tokens)
            .prop_map(|(id, tokens)| AuthorityContinue::new(id).join_tokens(tokens).into()),
        index().prop_map(|id| AuthoritySettle::new(id).into()),
        index().prop_map(|id| AuthorityAbandon::new(id).into()),
    ]
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        (meta(), new_node(), operator_token())
            .prop_map(|(meta, node, token)| ClusterInit::new(meta, node, token).into()),
        (new_node(), token_id()).prop_map(|(node, token)| NodeAdmit::new(node, token).into()),
        (node_id(), text(), facts())
            .prop_map(|(node, address, facts)| NodeReport::new(node, address, facts).into()),
        (node_id(), availability()).prop_map(|(node, availability)| {
            NodeSetAvailability::new(node, availability).into()
        }),
        (node_id(), any::<u64>()).prop_map(|(node, patience)| NodeDrain::new(
            node,
            Millis(patience)
        )
        .into()),
        (node_id(), facts_by_name(), btree_set(text(), 0..3))
            .prop_map(|(node, set, unset)| NodeSetLabels::new(node).set(set).unset(unset).into()),
        node_id().prop_map(|node| NodeRemove::new(node).into()),
        vec(piece(), 0..3).prop_map(|pieces| ContentPut::new(pieces).into()),
        (named_key(), content_id(), vec(piece(), 0..3), any::<u64>()).prop_map(
            |(key, tree, pieces, size)| NamedContentPut::new(key, tree, pieces, size).into()
        ),
        (named_key(), content_id(), content_users()).prop_map(|(key, tree, users)| {
            NamedContentPut::new(key, tree, Vec::new(), 0).for_users(users).into()
        }),
        (named_key(), content_id(), content_terms()).prop_map(|(key, tree, terms)| {
            NamedContentPut::new(key, tree, Vec::new(), 0).on(terms).into()
        }),
        named_key().prop_map(|key| NamedContentRemove::new(key).into()),
        (registry_name(), registry_username(), sealed_password()).prop_map(
            |(registry, username, password)| RegistryStore::new(registry, username, password)
                .into()
        ),
        registry_name().prop_map(|registry| RegistryRemove::new(registry).into()),
        (prefix(), any::<u16>()).prop_map(|(prefix, mtu)| NetworkBegin::new(prefix, mtu).into()),
        (network_name(), reach(), option::of(any::<u8>())).prop_map(|(name, reach, length)| {
            NetworkCreate::new(name).reach(reach).length(length).into()
        }),
        network_name().prop_map(|name| NetworkRemove::new(name).into()),
        (network_scope(), any::<u8>())
            .prop_map(|(scope, length)| NetworkResize::new(scope, length).into()),
        Just(EdgeBegin.into()),
        certificate_store(),
        certificate_name().prop_map(|name| CertificateRemove::new(name).into()),
        acme_note(),
        (
            deployment_name(),
            spec(),
            option::of(revision()),
            reaches(),
            (option::of(any::<u64>()), option::of(trace()))
        )
            .prop_map(|(name, spec, based_on, reaches, (max, trace))| {
                let command = DeploymentApply::new(name, spec).based_on(based_on);
                command.reaches(reaches).replicas_max(max).trace(trace).into()
            }),
        deployment_name().prop_map(|name| DeploymentDelete::new(name).into()),
        (deployment_name(), option::of(revision()), reaches(), option::of(any::<u64>())).prop_map(
            |(name, to, reaches, max)| {
                DeploymentRollback::new(name).to(to).reaches(reaches).replicas_max(max).into()
            }
        ),
        policy_mode().prop_map(|mode| PolicySet::new(mode).into()),
        (deployment_name(), grants()).prop_map(|(name, all)| PolicyAllow::new(name, all).into()),
        (deployment_name(), grants()).prop_map(|(name, all)| PolicyRevoke::new(name, all).into()),
        authority_command(),
        kek_command(),
        job_command(),
        image_command(),
        notify_command(),
        backup_command(),
        (deployment_name(), revision(), pin())
            .prop_map(|(name, revision, pin)| RevisionPin::new(name, revision, pin).into()),
        (index(), vec(change(), 0..6))
            .prop_map(|(based_on, changes)| Batch::new(based_on, changes).into()),
        (node_id(), vec(observed(), 0..3), vec(instance_id(), 0..3)).prop_map(
            |(node, observed, gone)| Observe::new(node).observed(observed).gone(gone).into()
        ),
        operator_token().prop_map(|token| OperatorTokenIssue::new(token).into()),
        token_id().prop_map(|id| OperatorTokenRevoke::new(id).into()),
        (token_id(), any::<[u8; 32]>(), option::of(moment())).prop_map(|(id, secret, until)| {
            OperatorTokenRotate::new(id, secret).former_until(until).into()
        }),
        btree_map(token_id(), moment(), 0..3).prop_map(|uses| TokensUsed::new(uses).into()),
        join_token().prop_map(|token| JoinTokenIssue::new(token).into()),
        token_id().prop_map(|id| JoinTokenRevoke::new(id).into()),
        Just(Command::AuditBegin),
        millis().prop_map(|age| AuditRetention::new(age).into()),
        millis().prop_map(|age| AuditRetention::new(age).doubting_jumps().into()),
        (index(), vec(rebalance_revert(), 0..3))
            .prop_map(|(based_on, reverts)| RebalanceRevert::new(based_on, reverts).into()),
        (index(), vec(rebalance_move(), 0..3), vec(facts_by_name(), 0..3))
            .prop_map(|(based_on, moves, kept)| Rebalance::new(based_on, moves).kept(kept).into()),
        (audit_kind(), facts_by_name())
            .prop_map(|(kind, payload)| AuditNote::new(kind, payload).into()),
        (consumer_name(), node_id(), millis())
            .prop_map(|(name, node, lease)| ConsumerAttach::new(name, node, lease).into()),
        (consumer_name(), index())
            .prop_map(|(name, session)| ConsumerDetach::new(name, session).into()),
        facts_by_name().prop_map(|pairs| ConstraintsSet::new(pairs).into()),
        (btree_map(replica_id(), index(), 0..3), node_id())
            .prop_map(|(replicas, to)| DataMove::new(replicas, to).into()),
        (disabling(), btree_set(scope(), 0..4))
            .prop_map(|(change, scopes)| DisabledSet::new(change, scopes).into()),
    ]
}

pub(crate) fn disabling() -> impl Strategy<Value = Disabling> {
    select(vec![Disabling::Disable, Disabling::Enable, Disabling::Replace])
}

pub(crate) fn rebalance_move() -> impl Strategy<Value = RebalanceMove> {
    (replica_id(), new_instance(), facts_by_name())
        .prop_map(|(id, instance, facts)| RebalanceMove { id, instance, facts })
}

pub(crate) fn rebalance_revert() -> impl Strategy<Value = RevertedMove> {
    (replica_id(), facts_by_name()).prop_map(|(id, facts)| RevertedMove { id, facts })
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let cause = select(vec![
        ReplaceCause::SpecChanged,
        ReplaceCause::Failed,
        ReplaceCause::NodeLost,
        ReplaceCause::Moved,
        ReplaceCause::ColocatedReplaced,
        ReplaceCause::Enabled,
    ]);
    let previous = select(vec![Previous::Retire, Previous::Drop]);
    prop_oneof![
        (replica_id(), service_key(), ordinal(), new_instance(), desired_state_of_slot()).prop_map(
            |(id, service, ordinal, instance, desired_state)| Change::SlotCreate {
                id,
                service,
                ordinal,
                instance,
                desired_state,
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
        (replica_id(), select(Completion::ALL), any::<u32>()).prop_map(
            |(id, completion, consecutive_failures)| Change::SlotFinish {
                id,
                completion,
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
        instance_id().prop_map(|id| Change::TerminatingRemove { id }),
        consumer_name().prop_map(|name| Change::ConsumerExpire { name }),
        (node_id(), node_status(), text())
            .prop_map(|(node, status, reason)| Change::NodeStatusSet { node, status, reason }),
        (node_id(), text()).prop_map(|(node, left)| Change::DrainTimeout { node, left }),
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

pub(crate) fn new_node() -> impl Strategy<Value = NewNode> {
    (hostname(), text(), any::<[u8; 32]>(), facts()).prop_map(
        |(hostname, address, key_fingerprint, facts)| NewNode {
            hostname,
            address,
            key_fingerprint,
            facts,
        },
    )
}

pub(crate) fn new_instance() -> impl Strategy<Value = NewInstance> {
    (node_id(), revision(), any::<[u8; 32]>().prop_map(SpecHash), gpu_ids()).prop_map(
        |(node, revision, spec_hash, gpus)| NewInstance { node, revision, spec_hash, gpus },
    )
}

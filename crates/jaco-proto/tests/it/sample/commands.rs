//! Log entries, their authors and outcomes.

use super::*;

pub(crate) fn payload(command: Command) -> Payload {
    let request = Some(RequestId::new("r-1").unwrap());
    let (at, by) = (Timestamp(1_700_000_000_123), Identity::Scheduler);
    Payload { at, by, origin: None, request, command }
}

/// Payloads that say from where they come; those of [`commands`] are of older versions.
pub(crate) fn payloads_with_origin() -> Vec<Payload> {
    let with = |origin| Payload { origin: Some(origin), ..payload(Command::AuditBegin) };
    origins().into_iter().map(with).collect()
}

pub(crate) fn origins() -> Vec<Origin> {
    let node = NodeId(7);
    let address = |text: &str| Origin::Address { address: text.parse().unwrap(), node };
    vec![
        Origin::Socket { uid: 1000, node },
        address("192.0.2.7:41234"),
        address("[2001:db8::1]:41234"),
        Origin::Member { node },
    ]
}

pub(crate) fn commands() -> Vec<Command> {
    let node = NodeId(7);
    let mut all = vec![
        ClusterInit::new(meta(), new_node(), operator_token()).into(),
        NodeAdmit::new(new_node(), token_id("join-1")).into(),
        NodeReport::new(node, "10.0.0.7:7000".into(), facts()).into(),
        NodeSetAvailability::new(node, Availability::Draining).into(),
        NodeSetLabels::new(node).set(by_name("zone", "b")).unset(["rack".to_owned()].into()).into(),
        NodeRemove::new(node).into(),
        DeploymentApply::new(deployment_name(), spec()).into(),
        DeploymentDelete::new(deployment_name()).into(),
        Batch::new(StateIndex(40), changes()).into(),
        Observe::new(node).observed(vec![observed()]).gone(vec![observed().id]).into(),
        OperatorTokenIssue::new(operator_token()).into(),
        OperatorTokenRevoke::new(token_id("ops-1")).into(),
        JoinTokenIssue::new(join_token()).into(),
        AuditNote::new(AuditKind::AccessRefused, by_name("why", "unknown")).into(),
        ConsumerAttach::new(consumer_name(), node, Millis(5000)).into(),
        ConsumerDetach::new(consumer_name(), StateIndex(33)).into(),
        ContentPut::new(vec![piece(1, Form::Plain), piece(2, Form::Sealed)]).into(),
        ConstraintsSet::new(by_name("ram", "3G")).into(),
        DeploymentRollback::new(deployment_name()).to(Some(Revision(1))).into(),
        RevisionPin::new(deployment_name(), Revision(1), Pin::Yes).into(),
        NamedContentPut::new(
            named_key(NamedKind::Secret),
            content_id(1),
            vec![piece(1, Form::Plain), piece(2, Form::Sealed)],
            3,
        )
        .into(),
        NamedContentRemove::new(named_key(NamedKind::Config)).into(),
        Command::AuditBegin,
        Rebalance::new(
            StateIndex(40),
            vec![RebalanceMove {
                id: replica_id(),
                instance: NewInstance {
                    node: NodeId(7),
                    revision: Revision(2),
                    spec_hash: hash(),
                    gpus: Vec::new(),
                },
                facts: by_name("dominant", "cpu"),
            }],
        )
        .kept(vec![by_name("reason", "dst_cap")])
        .into(),
        NodeDrain::new(node, Millis(300_000)).into(),
        DisabledSet::new(Disabling::Disable, scopes()).into(),
        AuditRetention::new(Millis(7_776_000_000)).into(),
        RebalanceRevert::new(
            StateIndex(40),
            vec![RevertedMove { id: replica_id(), facts: by_name("reason", "step_timeout") }],
        )
        .into(),
        RegistryStore::new(
            RegistryName::new("registry.example.com:5000").unwrap(),
            registry_username(),
            SealedPassword([7; 40].into()),
        )
        .into(),
        RegistryRemove::new(RegistryName::new("docker.io").unwrap()).into(),
        JoinTokenRevoke::new(token_id("join-1")).into(),
        NetworkBegin::new("10.64.0.0/12".parse().unwrap(), 1420).into(),
        NetworkCreate::new(network_name("backbone")).into(),
        NetworkRemove::new(network_name("backbone")).into(),
        NetworkResize::new(NetworkScope::Shared(network_name("backbone")), 20).into(),
        EdgeBegin.into(),
        certificate_store().into(),
        CertificateRemove::new(certificate_name()).into(),
        AcmeNote::Account(acme_account()).into(),
        PolicySet::new(PolicyMode::Refuse).into(),
        PolicyAllow::new(deployment_name(), grants()).into(),
        PolicyRevoke::new(deployment_name(), grants()).into(),
        TokensUsed::new([(token_id("ops-1"), Timestamp(1_700_000_000_500))].into()).into(),
        AuthorityRotate::new([0x44; 32], rotated(0x55)).into(),
        AuthorityReport::new(StateIndex(40), node, RotationStep::Trusts).into(),
        AuthorityContinue::new(StateIndex(40)).into(),
        AuthoritySettle::new(StateIndex(40)).into(),
        AuthorityAbandon::new(StateIndex(40)).into(),
    ];
    all.extend(kek_commands());
    all.push(OperatorTokenRotate::new(token_id("ops-1"), [0x77; 32]).into());
    all.extend(job_commands());
    all.extend(image_commands());
    all.push(DataMove::new([(replica_id(), StateIndex(40))].into(), NodeId(8)).into());
    all.extend(notify_commands());
    all.extend(backup_commands());
    all
}

/// Commands of a rotation with the other values of their enums.
pub(crate) fn commands_of_rotations() -> Vec<Command> {
    let report = |step| AuthorityReport::new(StateIndex(40), NodeId(7), step).into();
    vec![
        report(RotationStep::Renewed),
        report(RotationStep::Reconnected),
        report(RotationStep::Dropped),
        AuthorityContinue::new(StateIndex(40)).join_tokens(OpenJoinTokens::Revoke).into(),
    ]
}

/// An authority of a rotation.
pub(crate) fn rotated(fingerprint: u8) -> RotatedAuthority {
    RotatedAuthority {
        certificate: "PEM".into(),
        fingerprint: [fingerprint; 32],
        sealed_key: vec![4, 5, 6],
    }
}

/// Commands that hold between them each value of each enum that the others leave out.
pub(crate) fn commands_of_other_values() -> Vec<Command> {
    let set = |availability| NodeSetAvailability::new(NodeId(7), availability).into();
    vec![
        set(Availability::Active),
        set(Availability::Cordoned),
        Batch::new(StateIndex(40), other_changes()).into(),
        Observe::new(NodeId(7)).observed(other_observations()).into(),
        DeploymentApply::new(deployment_name(), other_spec()).into(),
        Batch::new(StateIndex(40), routing_changes()).into(),
        DeploymentApply::new(
            deployment_name(),
            DeploymentSpec { contents: [content_id(1), content_id(2)].into(), ..spec() },
        )
        .into(),
        DeploymentApply::new(deployment_name(), spec_that_may_fail()).into(),
        Batch::new(StateIndex(40), vec![paused()]).into(),
        DeploymentApply::new(
            deployment_name(),
            DeploymentSpec { named: [named_key(NamedKind::Secret)].into(), ..spec() },
        )
        .into(),
        Batch::new(StateIndex(40), vec![disk_full()]).into(),
        Observe::new(NodeId(7)).observed(vec![isolated()]).into(),
        DeploymentApply::new(deployment_name(), spec_with_loss_policies()).into(),
        Batch::new(StateIndex(40), vec![drain_timed_out()]).into(),
        DeploymentApply::new(deployment_name(), spec_with_colocation()).into(),
        Batch::new(StateIndex(40), vec![colocated_replaced()]).into(),
        DeploymentApply::new(deployment_name(), spec_with_gpus()).into(),
        Batch::new(StateIndex(40), vec![created_with_gpus()]).into(),
        NodeReport::new(NodeId(7), "10.0.0.7:7000".into(), facts_of_machine()).into(),
        DeploymentApply::new(deployment_name(), spec_scored_by_nomad()).into(),
        DisabledSet::new(Disabling::Enable, BTreeSet::new()).into(),
        DisabledSet::new(Disabling::Replace, BTreeSet::new()).into(),
        Batch::new(StateIndex(40), disabling_changes()).into(),
        Batch::new(StateIndex(40), vec![rollback_progress(), blocked_rollout()]).into(),
        DeploymentApply::new(deployment_name(), spec_with_monitor()).into(),
        DeploymentApply::new(
            deployment_name(),
            DeploymentSpec { privileges: privileges(), ..spec() },
        )
        .into(),
        Batch::new(StateIndex(40), vec![two_in_flight()]).into(),
        Batch::new(StateIndex(40), vec![image_resolved()]).into(),
        DeploymentApply::new(deployment_name(), DeploymentSpec::default())
            .based_on(Some(Revision(4)))
            .into(),
        Batch::new(StateIndex(40), vec![first_watched()]).into(),
        OperatorTokenIssue::new(expiring_token()).into(),
        DeploymentApply::new(deployment_name(), DeploymentSpec::default())
            .reaches(reaches())
            .into(),
        PolicySet::new(PolicyMode::Warn).into(),
        DeploymentRollback::new(deployment_name()).reaches(reaches()).into(),
    ]
}

/// Commands that carry a bound on replicas or instances.
pub(crate) fn commands_with_bounds() -> Vec<Command> {
    let apply = DeploymentApply::new(deployment_name(), DeploymentSpec::default());
    let rollback = DeploymentRollback::new(deployment_name());
    let facts = NodeFacts { instances_max: NonZeroU32::new(110), ..facts() };
    vec![
        apply.replicas_max(Some(100_000)).into(),
        rollback.replicas_max(Some(100_000)).into(),
        NodeReport::new(NodeId(7), "10.0.0.7:7000".into(), facts).into(),
    ]
}

/// Commands that carry classes of volumes.
pub(crate) fn commands_with_volume_classes() -> Vec<Command> {
    let class = |name| VolumeClass::new(name).unwrap();
    let demand = |volume: &str, name, size| VolumeDemand {
        volume: volume.into(),
        class: class(name),
        size: Bytes(size),
    };
    let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
    let volumes = vec![demand("all-logs", "hdd", 0), demand("shop_data", "ssd", 10 << 30)];
    let services = [(web.name.clone(), Arc::new(ServiceSpec { volumes, ..web }))];
    let spec = DeploymentSpec { services: services.into(), ..DeploymentSpec::default() };
    let volume_classes = [(class("hdd"), Bytes(0)), (class("ssd"), Bytes(1 << 40))].into();
    let facts = NodeFacts { volume_classes, ..facts() };
    vec![
        DeploymentApply::new(deployment_name(), spec).into(),
        NodeReport::new(NodeId(7), "10.0.0.7:7000".into(), facts).into(),
    ]
}

/// A command that carries the trace of its request.
pub(crate) fn command_with_trace() -> Command {
    let apply = DeploymentApply::new(deployment_name(), DeploymentSpec::default());
    apply.trace(Some(trace())).into()
}

pub(crate) fn scopes() -> BTreeSet<AllocationScope> {
    let (service, node) = (service_key(), NodeId(7));
    [
        AllocationScope::Node(node),
        AllocationScope::Service(service.clone()),
        AllocationScope::Pair { service: service.clone(), node },
        AllocationScope::Replica { service, id: replica_id() },
    ]
    .into()
}

pub(crate) fn consumer_name() -> ConsumerName {
    ConsumerName::new("edge-1").unwrap()
}

/// A new variant does not compile until it has a name, and then is missed among the frozen ones.
pub(crate) fn command_name(command: &Command) -> &'static str {
    match command {
        Command::ClusterInit(_) => "cluster_init",
        Command::NetworkBegin(_) => "network_begin",
        Command::NetworkCreate(_) => "network_create",
        Command::NetworkRemove(_) => "network_remove",
        Command::NetworkResize(_) => "network_resize",
        Command::EdgeBegin(_) => "edge_begin",
        Command::CertificateStore(_) => "certificate_store",
        Command::CertificateRemove(_) => "certificate_remove",
        Command::AcmeNote(_) => "acme_note",
        Command::NodeAdmit(_) => "node_admit",
        Command::NodeReport(_) => "node_report",
        Command::NodeSetAvailability(_) => "node_set_availability",
        Command::NodeSetLabels(_) => "node_set_labels",
        Command::NodeRemove(_) => "node_remove",
        Command::DeploymentApply(_) => "deployment_apply",
        Command::DeploymentDelete(_) => "deployment_delete",
        Command::Batch(_) => "batch",
        Command::Observe(_) => "observe",
        Command::OperatorTokenIssue(_) => "operator_token_issue",
        Command::OperatorTokenRevoke(_) => "operator_token_revoke",
        Command::OperatorTokenRotate(_) => "operator_token_rotate",
        Command::TokensUsed(_) => "tokens_used",
        Command::JoinTokenIssue(_) => "join_token_issue",
        Command::JoinTokenRevoke(_) => "join_token_revoke",
        Command::AuditNote(_) => "audit_note",
        Command::ConsumerAttach(_) => "consumer_attach",
        Command::ConsumerDetach(_) => "consumer_detach",
        Command::ContentPut(_) => "content_put",
        Command::ConstraintsSet(_) => "constraints_set",
        Command::DeploymentRollback(_) => "deployment_rollback",
        Command::RevisionPin(_) => "revision_pin",
        Command::NamedContentPut(_) => "named_content_put",
        Command::NamedContentRemove(_) => "named_content_remove",
        Command::RegistryStore(_) => "registry_store",
        Command::RegistryRemove(_) => "registry_remove",
        Command::AuditBegin => "audit_begin",
        Command::AuditRetention(_) => "audit_retention",
        Command::RebalanceRevert(_) => "rebalance_revert",
        Command::Rebalance(_) => "rebalance",
        Command::NodeDrain(_) => "node_drain",
        Command::DisabledSet(_) => "disabled_set",
        Command::DataMove(_) => "data_move",
        Command::PolicySet(_) => "policy_set",
        Command::PolicyAllow(_) => "policy_allow",
        Command::PolicyRevoke(_) => "policy_revoke",
        Command::AuthorityRotate(_) => "authority_rotate",
        Command::AuthorityReport(_) => "authority_report",
        Command::AuthorityContinue(_) => "authority_continue",
        Command::AuthoritySettle(_) => "authority_settle",
        Command::AuthorityAbandon(_) => "authority_abandon",
        Command::KekRotate(_) => "kek_rotate",
        Command::KekReport(_) => "kek_report",
        Command::KekAdvance(_) => "kek_advance",
        Command::KekReseal(_) => "kek_reseal",
        Command::KekAbandon(_) => "kek_abandon",
        Command::JobDue(_) => "job_due",
        Command::JobRewind(_) => "job_rewind",
        Command::JobStart(_) => "job_start",
        Command::ImagePush(_) => "image_push",
        Command::ImageTagSet(_) => "image_tag_set",
        Command::ImageRemove(_) => "image_remove",
        Command::ImagesHeld(_) => "images_held",
        Command::BackupScheduleStore(_) => "backup_schedule_store",
        Command::BackupScheduleRemove(_) => "backup_schedule_remove",
        Command::BackupBegin(_) => "backup_begin",
        Command::BackupReport(_) => "backup_report",
        Command::NotifyStore(_) => "notify_store",
        Command::NotifyRemove(_) => "notify_remove",
        Command::NotifyPause(_) => "notify_pause",
        Command::NotifyProgress(_) => "notify_progress",
        Command::UndeliveredSettle(_) => "undelivered_settle",
    }
}

pub(crate) fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Done,
        Outcome::NodeAdmitted { id: NodeId(7) },
        Outcome::Deployed { revision: Revision(1), change: SpecChange::Created },
        Outcome::Deployed { revision: Revision(2), change: SpecChange::Updated },
        Outcome::Deployed { revision: Revision(2), change: SpecChange::Unchanged },
        Outcome::Rejected(
            Rejection::new(ErrorCode::UnknownHost, "there is no host n9").with("host", "n9"),
        ),
    ]
}

pub(crate) fn authors() -> Vec<Author> {
    let identities = [
        Identity::Local { uid: 1000 },
        Identity::Operator { token: token_id("ops-1") },
        Identity::Node { id: NodeId(7) },
        Identity::Scheduler,
        Identity::Anonymous,
    ];
    identities.into_iter().map(|by| Author { by, origin: None }).collect()
}

pub(crate) fn authors_with_origin() -> Vec<Author> {
    let by = Identity::Local { uid: 1000 };
    origins().into_iter().map(|origin| Author { by: by.clone(), origin: Some(origin) }).collect()
}

pub(crate) fn registry_username() -> RegistryUsername {
    RegistryUsername::new("robot$ci").unwrap()
}

pub(crate) fn named_key(kind: NamedKind) -> NamedKey {
    NamedKey { kind, name: ContentName::new("db.key").unwrap() }
}

pub(crate) fn piece(number: u8, form: Form) -> Piece {
    Piece { id: content_id(number), form, bytes: PieceBytes([number; 3].into()) }
}

pub(crate) fn content_id(number: u8) -> ContentId {
    ContentId([number; 32])
}

pub(crate) fn meta() -> ClusterMeta {
    ClusterMeta {
        id: ClusterId::new("0123456789abcdef0123456789abcdef").unwrap(),
        name: "lab".into(),
        ca_certificate: "PEM".into(),
        sealed_ca_key: vec![1, 2, 3],
        created_at: Timestamp(1_699_999_999_999),
    }
}

pub(crate) fn operator_token() -> OperatorToken {
    OperatorToken {
        id: token_id("ops-1"),
        proof: Proof::Secret([0x11; 32]),
        issued_at: Timestamp(1_700_000_000_000),
        issued_by: Identity::Local { uid: 0 },
        revoked_at: Some(Timestamp(1_700_000_000_999)),
        expires_at: None,
        rights: None,
        last_used_at: None,
    }
}

pub(crate) fn expiring_token() -> OperatorToken {
    let expires_at = Some(Timestamp(1_707_776_000_000));
    OperatorToken { revoked_at: None, expires_at, ..operator_token() }
}

/// Commands of the rotation of a token's secret.
pub(crate) fn commands_of_token_rotations() -> Vec<Command> {
    let until = Timestamp(1_700_086_400_000);
    let rotate = OperatorTokenRotate::new(token_id("ops-1"), [0x77; 32]);
    vec![rotate.former_until(Some(until)).into(), OperatorTokenIssue::new(rotated_token()).into()]
}

/// A token with two secrets.
pub(crate) fn rotated_token() -> OperatorToken {
    let former_until = Timestamp(1_700_086_400_000);
    let proof = Proof::Rotated { secret: [0x77; 32], former: [0x11; 32], former_until };
    OperatorToken { proof, ..expiring_token() }
}

/// A client certificate.
pub(crate) fn operator_certificate() -> OperatorToken {
    let proof = Proof::Certificate([0x44; 32]);
    OperatorToken { proof, rights: Some(Rights::Operator), ..expiring_token() }
}

/// A token of each role.
pub(crate) fn tokens_with_roles() -> Vec<OperatorToken> {
    let shops = [deployment_name(), DeploymentName::new("web").unwrap()];
    [Rights::Viewer, Rights::Deployer(shops.into()), Rights::Operator, Rights::Admin]
        .map(|rights| OperatorToken { rights: Some(rights), ..expiring_token() })
        .into()
}

pub(crate) fn commands_of_roles() -> Vec<Command> {
    let issue = |token| OperatorTokenIssue::new(token).into();
    tokens_with_roles().into_iter().map(issue).collect()
}

pub(crate) fn join_token() -> JoinToken {
    JoinToken {
        id: token_id("join-1"),
        secret_hash: [0x22; 32],
        issued_at: Timestamp(1_700_000_000_000),
        issued_by: Identity::Operator { token: token_id("ops-1") },
        expires_at: Timestamp(1_700_000_600_000),
        uses_left: 1,
        revoked_at: None,
    }
}

pub(crate) fn new_node() -> NewNode {
    let address = "10.0.0.7:7000".into();
    NewNode { hostname: hostname(), address, key_fingerprint: [0x33; 32], facts: facts() }
}

/// A secret that is for two deployments.
pub(crate) fn named_content_for_users() -> NamedContentPut {
    let key = named_key(NamedKind::Secret);
    NamedContentPut::new(key, content_id(1), Vec::new(), 3).for_users(content_users())
}

/// A secret with all that it can be stored with.
pub(crate) fn named_contents_on_terms() -> Vec<NamedContentPut> {
    let stored = |terms| {
        let key = named_key(NamedKind::Secret);
        NamedContentPut::new(key, content_id(1), vec![piece(1, Form::Plain)], 3).on(terms)
    };
    let expiry = Some(Expiry::At(Timestamp(1_707_776_000_000)));
    vec![
        stored(ContentTerms::default()),
        stored(ContentTerms { based_on: Some(6), expiry }),
        stored(ContentTerms { based_on: None, expiry: Some(Expiry::Never) }),
    ]
}

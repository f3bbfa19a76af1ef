//! Which commands leave which events, and that nobody can change one afterwards unseen.

use std::collections::BTreeMap;

use jaco_state::audit::{AuditEvent, AuditKey, AuditKind, DEFAULT_AGE};
use jaco_state::audit::{Broken, Digest};
use jaco_state::command::{
    AuditNote, AuditRetention, AuthorityAbandon, AuthorityContinue, AuthorityReport,
    AuthorityRotate, AuthoritySettle, Batch, CertificateRemove, ConstraintsSet, ConsumerAttach,
    ConsumerDetach, ContentPut, DeploymentApply, DeploymentDelete, DeploymentRollback, DisabledSet,
    Disabling, EdgeBegin, ImageRemove, InUse, JoinTokenIssue, JoinTokenRevoke, NamedContentRemove,
    NetworkCreate, NetworkRemove, NetworkResize, NodeDrain, NodeRemove, NodeReport,
    NodeSetAvailability, NodeSetLabels, NotifyProgress, Observe, OperatorTokenIssue,
    OperatorTokenRevoke, OperatorTokenRotate, PauseChange, PolicyAllow, PolicyRevoke, PolicySet,
    Rebalance, RebalanceRevert, RevisionPin, TargetProgress, UndeliveredChange,
};
use jaco_state::contents::Piece;
use jaco_state::deployment::Pin;
use jaco_state::kek::KekPhase;
use jaco_state::policy::PolicyMode;
use jaco_state::rotation::RotationStep;
use jaco_state::token::OperatorToken;
use jaco_state::{Change, Command, Entry, Outcome, apply};
use jaco_types::spec::{Privilege, Reach, ReachKind};
use jaco_types::{
    Availability, ConsumerName, Identity, Millis, NetworkScope, NodeFacts, NodeId, Origin,
    ReplicaState, RequestId, Revision, ServiceName, StateIndex, Timestamp, TokenId,
};
use proptest::prelude::*;

use crate::history::{
    History, ORIGIN, admit, create, deploy, deployment, init, join_token, key, seen, service, spec,
};
use crate::{
    attached, backups, contents, images, job_runs, kek, notifications, orders, registries,
    rotation, routes,
};

/// What a command leaves in the audit log when it is done.
#[derive(Debug, PartialEq, Eq)]
enum Leaves {
    /// These kinds of events.
    Events(&'static [AuditKind]),
    /// None, for this reason.
    Nothing(&'static str),
}

/// For each command there is. A new one does not compile before it says what it leaves.
fn leaves(command: &Command) -> Leaves {
    use Leaves::{Events, Nothing};
    match command {
        Command::ClusterInit(_) => Events(&[AuditKind::ClusterInit]),
        Command::NodeAdmit(_) => Events(&[AuditKind::NodeJoin, AuditKind::CertificateIssued]),
        Command::NodeSetAvailability(_) | Command::NodeDrain(_) => {
            Events(&[AuditKind::NodeAvailability])
        }
        Command::NodeSetLabels(_) => Events(&[AuditKind::NodeLabels]),
        Command::NodeRemove(_) => Events(&[AuditKind::NodeRemove]),
        Command::DisabledSet(_) => Events(&[AuditKind::AllocationsDisabled]),
        Command::DataMove(_) => Events(&[AuditKind::DataMoved]),
        Command::ConstraintsSet(_) => Events(&[AuditKind::ConstraintsSet]),
        Command::DeploymentApply(_) => Events(&[AuditKind::Apply]),
        Command::DeploymentRollback(_) => Events(&[AuditKind::Rollback]),
        Command::RevisionPin(_) => Events(&[AuditKind::RevisionPinned]),
        Command::DeploymentDelete(_) => Events(&[AuditKind::Delete]),
        Command::Batch(_) => Events(&[AuditKind::ReplicaPlaced]),
        Command::OperatorTokenIssue(_) | Command::JoinTokenIssue(_) => {
            Events(&[AuditKind::TokenIssue])
        }
        Command::OperatorTokenRevoke(_) | Command::JoinTokenRevoke(_) => {
            Events(&[AuditKind::TokenRevoke])
        }
        Command::OperatorTokenRotate(_) => Events(&[AuditKind::TokenRotate]),
        Command::TokensUsed(_) => Nothing("a use is no change; what it was for has events"),
        Command::ConsumerAttach(_) => Events(&[AuditKind::ConsumerAttached]),
        Command::ConsumerDetach(_) => Events(&[AuditKind::ConsumerDetached]),
        Command::AuditBegin => Events(&[AuditKind::AuditChainBegun]),
        Command::AuditRetention(_) => Events(&[AuditKind::AuditRetentionSet]),
        Command::AuditNote(_) => Events(&[AuditKind::AccessRefused]),
        Command::Rebalance(_) => Events(&[AuditKind::RebalanceSkipped]),
        Command::RebalanceRevert(_) => Nothing("here, where no replica is on its way"),
        Command::NodeReport(_) => Nothing("what a node says of itself is not a decision"),
        Command::Observe(_) => Nothing("what is seen is not done; what follows from it is"),
        Command::NamedContentPut(_) => Events(&[AuditKind::ContentStored]),
        Command::NamedContentRemove(_) => Events(&[AuditKind::ContentRemoved]),
        Command::RegistryStore(_) => Events(&[AuditKind::RegistryStored]),
        Command::RegistryRemove(_) => Events(&[AuditKind::RegistryRemoved]),
        Command::NetworkBegin(_) => Events(&[AuditKind::NetworksEnabled]),
        Command::NetworkCreate(_) => Events(&[AuditKind::NetworkCreated]),
        Command::NetworkRemove(_) => Events(&[AuditKind::NetworkRemoved]),
        Command::NetworkResize(_) => Events(&[AuditKind::NetworkResized]),
        Command::EdgeBegin(_) => Nothing("the apply or certificate that needs it has the event"),
        Command::CertificateStore(_) => Events(&[AuditKind::CertificateStored]),
        Command::CertificateRemove(_) => Events(&[AuditKind::CertificateRemoved]),
        Command::AcmeNote(_) => Events(&[AuditKind::AcmeAccountMade]),
        Command::PolicySet(_) => Events(&[AuditKind::PolicySet]),
        Command::PolicyAllow(_) => Events(&[AuditKind::PolicyGranted]),
        Command::PolicyRevoke(_) => Events(&[AuditKind::PolicyRevoked]),
        Command::AuthorityRotate(_) => Events(&[AuditKind::AuthorityRotationBegun]),
        Command::AuthorityReport(_) => {
            Nothing("the phase that follows from all reports has the event")
        }
        Command::AuthorityContinue(_) => Events(&[AuditKind::AuthorityRotationContinued]),
        Command::AuthoritySettle(_) => Events(&[AuditKind::AuthorityRotationSettled]),
        Command::AuthorityAbandon(_) => Events(&[AuditKind::AuthorityRotationAbandoned]),
        Command::KekRotate(_) => Events(&[AuditKind::KekRotationBegun]),
        Command::KekReport(_) => Nothing("the phase that follows from all reports has the event"),
        Command::KekAdvance(command) => match command.leaves {
            KekPhase::HandingOut => Events(&[AuditKind::KekRotationResealing]),
            KekPhase::Resealing => Events(&[AuditKind::KekRotationSettled]),
            KekPhase::Settled | KekPhase::Abandoned => Nothing("no phase follows"),
        },
        Command::KekReseal(_) => Nothing("the same is sealed; the phase has the event"),
        Command::KekAbandon(_) => Events(&[AuditKind::KekRotationAbandoned]),
        Command::JobDue(_) | Command::JobStart(_) => Events(&[AuditKind::JobRunBegun]),
        Command::JobRewind(_) => Events(&[AuditKind::JobRunMissed]),
        Command::ImagePush(_) => Nothing("the name that it gets has the event"),
        Command::ImageTagSet(_) => Events(&[AuditKind::ImagePush]),
        Command::ImageRemove(_) => Events(&[AuditKind::ImageRemove]),
        Command::ImagesHeld(_) => Nothing("what a node says of itself is not a decision"),
        Command::BackupScheduleStore(_) => Events(&[AuditKind::BackupScheduleStored]),
        Command::BackupScheduleRemove(_) => Events(&[AuditKind::BackupScheduleRemoved]),
        Command::BackupBegin(_) => Events(&[AuditKind::BackupTaken]),
        Command::BackupReport(_) => Events(&[AuditKind::BackupStored]),
        Command::NotifyStore(_) => Events(&[AuditKind::NotifyStored]),
        Command::NotifyRemove(_) => Events(&[AuditKind::NotifyRemoved]),
        Command::NotifyPause(_) => Events(&[AuditKind::NotifyPaused]),
        Command::NotifyProgress(_) => Events(&[AuditKind::NotifyUndelivered]),
        Command::UndeliveredSettle(_) => Events(&[AuditKind::NotifySettled]),
        Command::ContentPut(_) => Nothing("the apply that refers to it has the event"),
    }
}

/// Every command, once, in an order in which each is done.
fn every_command(now: Timestamp) -> Vec<Command> {
    let token = TokenId::new("ops").unwrap();
    let consumer = ConsumerName::new("edge-1").unwrap();
    let (node, name) = (NodeId::FIRST, || deployment("shop"));
    let placed = create(&key("shop", "web"), 1, node);
    let Change::SlotCreate { id, .. } = &placed else { unreachable!("it creates a slot") };
    let instance = jaco_types::InstanceId { replica: id.clone(), raft_index: StateIndex(13) };
    let observed = vec![seen(instance, node, ReplicaState::Running)];
    let mut all = vec![
        init(),
        Command::AuditBegin,
        JoinTokenIssue::new(join_token("t", now, 1)).into(),
        admit("n2", "t"),
        NodeReport::new(node, "new:1".into(), NodeFacts::default()).into(),
        NodeSetAvailability::new(node, Availability::Cordoned).into(),
        NodeSetLabels::new(node)
            .set([("zone".to_owned(), "a".to_owned())].into())
            .unset([].into())
            .into(),
        ConstraintsSet::new([("ram".to_owned(), "3G".to_owned())].into()).into(),
        DisabledSet::new(Disabling::Disable, [jaco_types::AllocationScope::Node(node)].into())
            .into(),
        ContentPut::new(Vec::<Piece>::new()).into(),
        deploy("shop", &[service("web", "web:1")]),
        deploy("shop", &[service("web", "web:2")]),
        Batch::new(StateIndex(13), vec![placed]).into(),
        Observe::new(node).observed(observed).into(),
        RevisionPin::new(name(), Revision(1), Pin::Yes).into(),
        DeploymentRollback::new(name()).to(Some(Revision(1))).into(),
        DeploymentDelete::new(name()).into(),
        OperatorTokenIssue::new(OperatorToken {
            id: token.clone(),
            proof: jaco_state::token::Proof::Secret([1; 32]),
            issued_at: now,
            issued_by: Identity::Local { uid: 0 },
            revoked_at: None,
            expires_at: None,
            rights: None,
            last_used_at: None,
        })
        .into(),
        OperatorTokenRotate::new(token.clone(), [2; 32]).into(),
        OperatorTokenRevoke::new(token).into(),
        ConsumerAttach::new(consumer.clone(), node, Millis(5000)).into(),
        ConsumerDetach::new(consumer, StateIndex(22)).into(),
        AuditNote::new(AuditKind::AccessRefused, BTreeMap::new()).into(),
        Rebalance::new(StateIndex(20), vec![]).kept(vec![BTreeMap::new()]).into(),
        RebalanceRevert::new(StateIndex(20), vec![]).into(),
        contents::named(&[1, 2]),
        NamedContentRemove::new(contents::db()).into(),
        registries::store("ghcr.io", b"sealed"),
        registries::remove("ghcr.io"),
        images::push(7).into(),
        images::held(node, &[7]),
        images::tag("app:1", 7),
        ImageRemove::new(images::name("app:1"), InUse::Refuse).into(),
        attached::begin("10.64.0.0/12", 1420),
        NetworkCreate::new(attached::network_name("backbone")).into(),
        NetworkResize::new(NetworkScope::parse("backbone").unwrap(), 22).into(),
        NetworkRemove::new(attached::network_name("backbone")).into(),
        EdgeBegin.into(),
        routes::certificate("own").into(),
        CertificateRemove::new(routes::certificate_name("own")).into(),
        orders::account(1),
        PolicySet::new(PolicyMode::Refuse).into(),
        PolicyAllow::new(name(), [Reach::new(ReachKind::Runtime, "kata")].into()).into(),
        PolicyRevoke::new(name(), [Reach::new(ReachKind::Runtime, "kata")].into()).into(),
        AuditRetention::new(DEFAULT_AGE).into(),
        JoinTokenRevoke::new(TokenId::new("t").unwrap()).into(),
        NodeDrain::new(node, Millis::from_secs(300)).into(),
        NodeRemove::new(node).into(),
    ];
    let index = |all: &[Command]| StateIndex(2 + all.len() as u64);
    let abandoned = index(&all);
    all.push(AuthorityRotate::new([1; 32], rotation::authority(2)).into());
    all.push(AuthorityAbandon::new(abandoned).into());
    let (settled, left) = (index(&all), NodeId(5));
    all.push(AuthorityRotate::new([1; 32], rotation::authority(3)).into());
    all.push(AuthorityReport::new(settled, left, RotationStep::Trusts).into());
    all.push(AuthorityContinue::new(settled).into());
    all.push(AuthorityReport::new(settled, left, RotationStep::Reconnected).into());
    all.push(AuthoritySettle::new(settled).into());
    let stored = index(&all);
    all.push(notifications::store("ops").into());
    let event = AuditKey { index: index(&all), number: 0 };
    all.push(registries::store("quay.io", b"sealed"));
    let progress = TargetProgress {
        given_up: vec![notifications::given_up(event)],
        ..notifications::progress("ops", stored, event)
    };
    all.push(NotifyProgress::new(vec![progress]).into());
    all.push(notifications::settle("ops", UndeliveredChange::Clear).into());
    all.push(notifications::pause("ops", PauseChange::Pause));
    all.push(notifications::remove("ops"));
    let scheduled = index(&all);
    all.push(backups::store("nightly").into());
    let run = index(&all);
    all.push(backups::begin("nightly", scheduled, None));
    all.push(backups::report("nightly", (scheduled, run), backups::taken(now, run)));
    all.push(backups::remove("nightly"));
    all
}

/// Who may write a command.
fn author(command: &Command) -> Identity {
    match command {
        Command::AuthorityReport(report) => Identity::Node { id: report.node },
        Command::KekReport(report) => Identity::Node { id: report.node },
        Command::ImagesHeld(report) => Identity::Node { id: report.node },
        _ => Identity::Local { uid: 0 },
    }
}

/// R-CLI-5: every command leaves its events, with who, when and for which request, or none for a reason.
#[test]
fn every_command_leaves_its_events() {
    check_events(&mut kek::founded(), kek::every_command());
    let (mut jobs, commands) = job_runs::every_command();
    check_events(&mut jobs, commands);
    let mut history = History { now: Timestamp(1_000_000), ..History::default() };
    history.state.index = StateIndex(1);
    let commands = every_command(history.now);
    check_events(&mut history, commands);
    assert_eq!(history.state.audit.verify().unwrap().follows, Digest::start());
}

fn check_events(history: &mut History, commands: Vec<Command>) {
    for (number, command) in commands.into_iter().enumerate() {
        let before = history.state.audit.events.len();
        let request = format!("r-{number}");
        let by = author(&command);
        let entry = Entry { by, ..history.entry(Some(&request), command.clone()) };
        let outcome = apply(&mut history.state, &entry);
        assert!(!matches!(outcome, Outcome::Rejected(_)), "{command:?}: {outcome:?}");
        let events: Vec<_> = history.state.audit.events.values().skip(before).collect();
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        match leaves(&command) {
            Leaves::Events(expected) => assert_eq!(kinds, expected, "{command:?}"),
            Leaves::Nothing(reason) => assert_eq!(kinds, [], "{reason}: {command:?}"),
        }
        for event in events {
            assert_eq!(event.by, Identity::Local { uid: 0 });
            assert_eq!(event.at, history.now);
            assert_eq!(event.origin, Some(ORIGIN));
            assert_eq!(event.request, Some(RequestId::new(request.as_str()).unwrap()));
        }
    }
}

/// R-CLI-5: each kind of event has a line in the docs that says when it is written and what it tells, and
/// no other kind has one.
#[test]
fn every_kind_is_in_the_docs() {
    let page = include_str!("../../../../docs/audit.md");
    let row = |line: &str| line.strip_prefix("| `")?.split('`').next().map(str::to_owned);
    let mut told: Vec<String> = page.lines().filter_map(row).collect();
    let mut known: Vec<_> = AuditKind::ALL.iter().map(|kind| kind.as_str().to_owned()).collect();
    told.sort();
    known.sort();
    assert_eq!(told, known);
}

/// A command that asks for what is there already leaves nothing: a loop cannot flood the log.
#[test]
fn what_changes_nothing_leaves_nothing() {
    let mut history = History::founded();
    let node = NodeId::FIRST;
    let labels: BTreeMap<_, _> = [("zone".to_owned(), "a".to_owned())].into();
    let commands = [
        Command::AuditBegin,
        AuditRetention::new(DEFAULT_AGE).into(),
        NodeSetAvailability::new(node, Availability::Cordoned).into(),
        NodeSetLabels::new(node).set(labels).unset([].into()).into(),
        ConstraintsSet::new([("ram".to_owned(), "3G".to_owned())].into()).into(),
        deploy("shop", &[service("web", "web:1")]),
        registries::store("ghcr.io", b"sealed"),
        registries::remove("quay.io"),
        EdgeBegin.into(),
        routes::certificate("own").into(),
        RevisionPin::new(deployment("shop"), Revision(1), Pin::Yes).into(),
    ];
    for command in commands {
        history.apply(command.clone());
        let once = history.state.audit.clone();
        for _ in 0..100 {
            history.apply(command.clone());
        }
        assert_eq!(history.state.audit, once, "{command:?}");
    }
}

/// R-CLI-5: an apply and a rollback say what they change, field by field, and never what a container is
/// told: its environment may hold secrets.
#[test]
fn an_apply_says_what_it_changes() {
    let mut history = History::founded();
    let mut web = service("web", "web:1");
    web.container = r#"{"environment":{"KEY":"hunter2"}}"#.into();
    history.apply(deploy("shop", &[web.clone(), service("db", "db:1")]));
    assert!(!history.last_event().contains("changes="), "there was nothing before");
    web.container = r#"{"environment":{"KEY":"hunter3"}}"#.into();
    (web.image, web.replicas) = ("web:2".into(), web.replicas + 1);
    history.apply(deploy("shop", &[web, service("cache", "cache:1")]));
    let expected = "changes=-db; +cache; web: image web:1 -> web:2, replicas 1 -> 2, container";
    assert!(history.last_event().contains(expected), "{}", history.last_event());
    let to = Some(Revision(1));
    history.apply(DeploymentRollback::new(deployment("shop")).to(to).into());
    let expected = "changes=-cache; +db; web: image web:2 -> web:1, replicas 2 -> 1, container";
    assert!(history.last_event().contains(expected), "{}", history.last_event());
    assert!(!format!("{:?}", history.state.audit).contains("hunter"), "a secret is in the log");
}

/// R-CLI-5: who lets a service reach the nodes leaves an event for each such service and revision, be it
/// by an apply or by a rollback, and none where nothing changes.
#[test]
fn privileges_are_told() {
    let mut history = History::founded();
    let mut reaching = spec(&[service("web", "web:1"), service("db", "db:1")]);
    let privileges = [Privilege::HostPid, Privilege::HostPath].into();
    reaching.privileges = [(ServiceName::new("db").unwrap(), privileges)].into();
    let apply = |spec| DeploymentApply::new(deployment("shop"), spec).into();
    for _ in 0..3 {
        history.apply(apply(reaching.clone()));
    }
    history.apply(apply(spec(&[service("web", "web:2")])));
    history.apply(DeploymentRollback::new(deployment("shop")).to(Some(Revision(1))).into());
    let events = history.state.audit.events.values();
    let told: Vec<_> = events
        .filter(|event| event.kind == AuditKind::PrivilegedWorkloadAdmitted)
        .map(|event| {
            ["deployment", "revision", "service", "privileges"].map(|key| &*event.payload[key])
        })
        .collect();
    let both = "host_pid, host_path";
    assert_eq!(told, [["shop", "1", "db", both], ["shop", "3", "db", both]]);
}

/// R-IN-6: each admission of a service that reaches its nodes is an event with what and who, once per revision. An
/// entry of an older version, without values, has the event that it always had.
#[test]
fn reaches_are_told_with_their_values() {
    let mut history = History::founded();
    let db = ServiceName::new("db").unwrap();
    let mut reaching = spec(&[service("web", "web:1"), service("db", "db:1")]);
    reaching.privileges = [(db.clone(), [Privilege::HostPath].into())].into();
    let path = Reach::new(ReachKind::HostPath, "/srv/media");
    let all = [
        (db, [path, Reach::new(ReachKind::Runtime, "kata")].into()),
        (ServiceName::new("web").unwrap(), [Reach::new(ReachKind::Sysctl, "vm.overcommit")].into()),
    ];
    let apply = |reaches| {
        DeploymentApply::new(deployment("shop"), reaching.clone()).reaches(reaches).into()
    };
    history.apply(apply(all.clone().into()));
    history.apply(apply(all.into()));
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    history.apply(apply([].into()));
    let events = history.state.audit.events.values();
    let events: Vec<_> =
        events.filter(|event| event.kind == AuditKind::PrivilegedWorkloadAdmitted).collect();
    let told = |key: &str| -> Vec<Option<&str>> {
        events.iter().map(|event| event.payload.get(key).map(|text| &**text)).collect()
    };
    assert_eq!(told("service"), [Some("db"), Some("web"), Some("db")]);
    assert_eq!(told("privileges"), [Some("host_path"), Some(""), Some("host_path")]);
    let of_db = Some("host-path=/srv/media, runtime=kata");
    assert_eq!(told("reaches"), [of_db, Some("sysctl=vm.overcommit"), None]);
    assert!(events.iter().all(|event| event.by == events[0].by));
}

/// A change of one part of an event.
type Forgery = fn(&mut AuditEvent);

const FORGERIES: [Forgery; 8] = [
    |event| event.kind = AuditKind::RolloutPaused,
    |event| event.at = Timestamp(event.at.0 ^ 1),
    |event| event.by = Identity::Anonymous,
    |event| event.origin = None,
    |event| event.origin = Some(Origin::Member { node: NodeId(9) }),
    |event| event.request = Some(RequestId::new("forged").unwrap()),
    |event| {
        event.payload.insert("forged".to_owned(), String::new());
    },
    |event| event.previous = Some(Digest([0; 32])),
];

/// A cluster with a chain that was begun after some events.
fn chained(before: usize, after: usize) -> History {
    let mut history = History::founded();
    let note = |n: usize| {
        AuditNote::new(AuditKind::AccessRefused, [("n".to_owned(), n.to_string())].into()).into()
    };
    for n in 0..before {
        history.apply(note(n));
    }
    history.apply(Command::AuditBegin);
    for n in 0..after {
        history.apply(note(n));
    }
    history
}

proptest! {
    /// ST-13, R-CLI-5: whatever is changed of whichever event, the chain says which.
    #[test]
    fn a_changed_event_is_named(
        before in 0..5usize, after in 0..5usize, place: prop::sample::Index, forgery in 0..8usize,
    ) {
        let mut audit = chained(before, after).state.audit;
        prop_assert_eq!(audit.verify().unwrap().events, before + after + 2);
        let keys: Vec<AuditKey> = audit.events.keys().copied().collect();
        let key = keys[place.index(keys.len())];
        FORGERIES[forgery](audit.events.get_mut(&key).unwrap());
        prop_assert_eq!(audit.verify(), Err(Broken::Altered { key }));
    }

    /// R-CLI-5: an event that is taken out or put in between leaves a gap that the chain names.
    #[test]
    fn a_missing_event_is_noticed(after in 2..6usize, place: prop::sample::Index) {
        let mut audit = chained(0, after).state.audit;
        let keys: Vec<AuditKey> = audit.events.keys().copied().collect();
        // Without its oldest event a chain is one that has evicted it.
        let place = 1 + place.index(keys.len() - 1);
        audit.events.remove(&keys[place]);
        prop_assert_eq!(audit.verify(), Err(Broken::Altered { key: keys[place - 1] }));
    }
}

/// Before it is begun there is no chain, and that is not taken for one that holds.
#[test]
fn no_chain_is_no_proof() {
    assert_eq!(History::founded().state.audit.verify(), Err(Broken::NotBegun));
}

/// The oldest events go, and what is kept still proves itself and says that it is not all.
#[test]
fn a_chain_outlives_its_oldest_events() {
    let history = chained(0, jaco_state::audit::KEPT_EVENTS + 5);
    let verified = history.state.audit.verify().unwrap();
    assert_eq!(verified.events, jaco_state::audit::KEPT_EVENTS);
    assert_ne!(verified.follows, Digest::start());
}

/// The hash is part of what is stored for ever.
#[test]
fn the_hash_is_as_it_was() {
    let event = AuditEvent {
        kind: AuditKind::Apply,
        at: Timestamp(1_700_000_000_123),
        by: Identity::Local { uid: 1000 },
        origin: None,
        request: Some(RequestId::new("r-1").unwrap()),
        payload: [("deployment".to_owned(), "shop".to_owned())].into(),
        previous: Some(Digest::start()),
    };
    let key = AuditKey { index: StateIndex(41), number: 1 };
    assert_eq!(
        Digest::start().to_string(),
        "8ad3b4c77260d28d50384f1d3f628461c27d8ad7f98a7816484d23ff6bfcdb8b"
    );
    assert_eq!(
        Digest::of(key, &event).to_string(),
        "9a067f09de551f811d0afd60e3e817e123f53a772acf9eaf245ac7db118eef7b"
    );
    let address = "192.0.2.7:41234".parse().unwrap();
    let origin = Some(Origin::Address { address, node: NodeId(7) });
    assert_eq!(
        Digest::of(key, &AuditEvent { origin, ..event }).to_string(),
        "79921869ce327d43982bf9717fe376bbc25fdf0070969bea4890404df7213d77"
    );
}

//! Pages of a cluster that has something of everything, with the same text wherever a message has one.

use jaco_proto::v1::{
    Amount, AuditEvent, BackupScheduleInfo, ClusterStatusResponse, DeploymentInfo, ExplainResponse,
    FailedRule, HistoryResponse, NodeAnswer, NodeFactsInfo, NodeInfo, NodeTop, PlannedWait,
    PullInfo, ReplicaAddress, ReplicaInfo, RetiringInfo, RevisionInfo, RolloutInfo, RouteInfo,
    ServiceInfo, SpreadShare, Staleness, StatusResponse, TerminatingInfo, TerminationInfo,
    TopResponse, UnplacedInfo, VoterProgress,
};
use jaco_types::Rights;
use jaco_ui::action::{self, Action, BoundData};
use jaco_ui::link::Link;
use jaco_ui::{
    AuditPage, DeploymentPage, Frame, Login, NodePage, OverviewPage, Part, ProblemPage, Question,
    Refused, SignedIn, SignedOut, WhyPage,
};

use crate::planned;
use crate::reading;

pub(crate) const NOW: i64 = 1_795_000_000_000;

pub(crate) fn frame(text: &str) -> Frame {
    Frame {
        now_ms: NOW,
        by: text.to_owned(),
        rights: Rights::Admin,
        signed_in: SignedIn::Session,
        done: action::done("scale"),
    }
}

/// Whether what a page is made of could be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Had {
    Everything,
    /// What only others know is missing, and what is known is old.
    Little,
}

pub(crate) fn node(text: &str) -> NodeInfo {
    let t = || text.to_owned();
    NodeInfo {
        id: 1,
        hostname: t(),
        address: t(),
        status: t(),
        status_reason: t(),
        availability: t(),
        suffrage: t(),
        version: t(),
        engine: t(),
        os: t(),
        arch: t(),
        cpu_millis: 2000,
        memory_bytes: 1 << 31,
        labels: [(t(), t())].into(),
        replicas: 2,
        joined_at_ms: NOW - 5000,
        stopping: 1,
        availability_reason: t(),
        net: "none".to_owned(),
        net_reason: t(),
        edge: t(),
        edge_reason: t(),
    }
}

pub(crate) fn cluster(text: &str, had: Had) -> ClusterStatusResponse {
    let t = || text.to_owned();
    ClusterStatusResponse {
        initialized: true,
        cluster_id: t(),
        name: t(),
        leader: if had == Had::Everything { t() } else { String::new() },
        term: 3,
        raft_index: 120,
        nodes: vec![node(text)],
        answered_by: t(),
        quorum_lost: had == Had::Little,
        version: t(),
        staleness: (had == Had::Little).then(|| Staleness { age_ms: 4200, reason: t() }),
        rotation: None,
        kek_rotation: None,
    }
}

pub(crate) fn replica(text: &str, state: &str) -> ReplicaInfo {
    let t = || text.to_owned();
    ReplicaInfo {
        id: format!("{text}-{state}"),
        deployment: t(),
        service: t(),
        node: t(),
        state: state.to_owned(),
        code: t(),
        details: [(t(), t())].into(),
        image: t(),
        revision: 2,
        spec_hash: t(),
        raft_index: 9,
        container_id: t(),
        ports: [(80, t())].into(),
        started_at_ms: NOW - 60_000,
        since_ms: NOW - 60_000,
        consecutive_failures: 1,
        retiring: Some(RetiringInfo { node: t(), ..RetiringInfo::default() }),
        exit_code: 1,
        exited: true,
        in_routing: true,
        terminating: vec![TerminatingInfo {
            node: t(),
            waits_for: vec![t()],
            ..Default::default()
        }],
        terminations: vec![TerminationInfo {
            code: t(),
            at_ms: NOW - 70_000,
            ..Default::default()
        }],
        restart_at_ms: NOW,
        gpus: vec![t()],
        image_digest: t(),
        pull: Some(PullInfo { attempts: 2, ..PullInfo::default() }),
        addresses: vec![ReplicaAddress { network: t(), address: t() }],
        joining_since_ms: NOW,
    }
}

pub(crate) fn deployment(text: &str) -> DeploymentInfo {
    let t = || text.to_owned();
    let rollout = RolloutInfo {
        target_revision: 2,
        total_steps: 4,
        current_step: 1,
        state: "paused".to_owned(),
        failure_reason: t(),
        started_at_ms: NOW - 1000,
        prepull: [(t(), t())].into(),
        previous_revision: 1,
        rollback_progress: None,
        pulls: [(t(), PullInfo { attempts: 3, ..PullInfo::default() })].into(),
    };
    let service = ServiceInfo {
        name: t(),
        image: t(),
        placement: t(),
        desired: 3,
        running: 1,
        updated: 1,
        spec_hash: t(),
        rollout: Some(rollout),
        unplaced: vec![UnplacedInfo { count: 2, reason: t(), details: [(t(), t())].into() }],
        image_digest: t(),
        serving: Vec::new(),
        published: vec![t()],
        status: t(),
        completes_as: t(),
        completed: 1,
        disabled: 1,
        job: None,
    };
    DeploymentInfo {
        name: t(),
        revision: 2,
        status: t(),
        services: vec![service],
        updated_at_ms: NOW - 3000,
        updated_by: t(),
    }
}

pub(crate) fn status(text: &str) -> StatusResponse {
    let states = ["running", "failed", "pending", "stopped", "unknown", ""];
    StatusResponse {
        raft_index: 120,
        leader: text.to_owned(),
        answered_by: text.to_owned(),
        deployments: vec![deployment(text)],
        replicas: states.map(|state| replica(text, state)).into(),
        nodes: vec![node(text)],
        staleness: None,
        more: false,
        past: None,
    }
}

pub(crate) fn routes(text: &str) -> Vec<RouteInfo> {
    let t = || text.to_owned();
    let route = RouteInfo {
        domain: t(),
        path: t(),
        deployment: t(),
        service: t(),
        port: 80,
        redirect: String::new(),
        tls: t(),
        expires_at_ms: NOW,
        endpoints: 1,
        wanted: 2,
        warning: t(),
        since_ms: NOW,
        edges: 1,
        nodes: 1,
    };
    vec![RouteInfo { redirect: t(), ..route.clone() }, route]
}

pub(crate) fn had<T>(had: Had, text: &str, value: T) -> Part<T> {
    match had {
        Had::Everything => Ok(value),
        Had::Little => Err(Refused { code: text.to_owned(), message: text.to_owned() }),
    }
}

fn failing_backup(text: &str) -> BackupScheduleInfo {
    let t = || text.to_owned();
    BackupScheduleInfo {
        name: t(),
        target: t(),
        failing_since_ms: NOW - 6_000,
        failing_reason: t(),
        ..BackupScheduleInfo::default()
    }
}

pub(crate) fn overview(text: &str, much: Had) -> String {
    let cluster = cluster(text, much);
    let voter =
        VoterProgress { node: text.to_owned(), refused: text.to_owned(), ..Default::default() };
    let page = OverviewPage {
        cluster: &cluster,
        status: Ok(status(text)),
        routes: had(much, text, routes(text)),
        voters: had(much, text, vec![voter]),
        backups: had(much, text, vec![failing_backup(text)]),
        find: text.to_owned(),
        around: None,
    };
    page.html(&frame(text))
}

pub(crate) fn history(text: &str) -> HistoryResponse {
    let t = || text.to_owned();
    let revision = RevisionInfo {
        revision: 2,
        applied_at_ms: NOW - 9000,
        applied_by: t(),
        restores: 1,
        pinned: true,
        failure: t(),
        replicas: 1,
        images: [(t(), t())].into(),
        digests: [(t(), t())].into(),
    };
    let earlier = RevisionInfo { revision: 1, ..revision.clone() };
    HistoryResponse { deployment: t(), revision: 2, revisions: vec![earlier, revision] }
}

pub(crate) fn deployment_page(text: &str, much: Had) -> String {
    let (cluster, status) = (cluster(text, much), status(text));
    let page = DeploymentPage {
        cluster: &cluster,
        deployment: &status.deployments[0],
        status: &status,
        history: had(much, text, history(text)),
        routes: had(much, text, routes(text)),
        around: None,
    };
    page.html(&frame(text))
}

pub(crate) fn node_page(text: &str, much: Had) -> String {
    let cluster = cluster(text, much);
    let t = || text.to_owned();
    let amount = |cpu_millis| Some(Amount { cpu_millis, memory_bytes: 1 << 30 });
    let top = NodeTop {
        hostname: t(),
        pressure: Some(430_000),
        measured: amount(500),
        reserved: amount(1500),
        limit: amount(4000),
        capacity: Some(Amount { cpu_millis: 2000, memory_bytes: 2 << 30 }),
        replicas: 2,
    };
    let top = TopResponse { nodes: vec![top], ..TopResponse::default() };
    let facts = NodeFactsInfo { hostname: t(), kernel: t(), cores: 2, ..Default::default() };
    let page = NodePage {
        cluster: &cluster,
        name: text,
        replicas: had(much, text, status(text).replicas),
        facts: had(much, text, Some(facts)),
        top: had(much, text, top),
        voters: had(much, text, Vec::new()),
    };
    page.html(&frame(text)).expect("the cluster has it")
}

pub(crate) fn why_page(text: &str, much: Had) -> String {
    let cluster = cluster(text, much);
    let t = || text.to_owned();
    let node = |failed: Vec<FailedRule>| NodeAnswer { node: t(), failed, ..NodeAnswer::default() };
    let rule = FailedRule { rule: t(), text: t() };
    let wait = PlannedWait {
        deployment: t(),
        service: t(),
        count: 1,
        reason: t(),
        details: [(t(), t())].into(),
    };
    let share = SpreadShare { attribute: t(), value: Some(t()), desired: 1, actual: 0 };
    let answer = ExplainResponse {
        deployment: t(),
        service: t(),
        placement: t(),
        desired: 2,
        present: 1,
        replica: t(),
        replica_node: t(),
        nodes: vec![node(Vec::new()), node(vec![rule])],
        waits: vec![wait],
        smallest_change: vec![t()],
        shares: vec![share],
    };
    let page = WhyPage {
        cluster: &cluster,
        question: Question { deployment: t(), service: t(), replica: t() },
        answer: Some(had(much, text, answer)),
    };
    page.html(&frame(text))
}

pub(crate) fn event(text: &str, index: u64) -> AuditEvent {
    let t = || text.to_owned();
    AuditEvent {
        index,
        number: 1,
        kind: t(),
        at_ms: NOW - 100,
        by: t(),
        request_id: t(),
        payload: [(t(), t())].into(),
        previous: t(),
        origin: t(),
        gap: None,
    }
}

pub(crate) fn audit_page(text: &str, much: Had) -> String {
    let cluster = cluster(text, much);
    let t = || text.to_owned();
    let page = AuditPage {
        cluster: &cluster,
        events: had(much, text, vec![event(text, 7)]),
        before: t(),
        older: t(),
        deployment: t(),
        node: t(),
        kind: t(),
    };
    page.html(&frame(text))
}

/// Every document that there is, by a name.
pub(crate) fn all(text: &str) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for much in [Had::Everything, Had::Little] {
        for (name, html) in [
            ("overview", overview(text, much)),
            ("deployment", deployment_page(text, much)),
            ("node", node_page(text, much)),
            ("why", why_page(text, much)),
            ("audit", audit_page(text, much)),
            ("whatif", planned::whatif_page(text, much)),
            ("scale", planned::action_page(text, much, &planned::scale())),
            ("drain", planned::action_page(text, much, &planned::drain(BoundData::Refuses))),
            ("remove", planned::action_page(text, much, &Action::Remove { node: "n1".to_owned() })),
            ("overview then", reading::overview_then(text, much)),
            ("node then", reading::node_then(text, much)),
            ("deployment then", reading::deployment_then(text, much)),
            ("network", reading::network(text, much)),
        ] {
            pages.push((format!("{name} with {much:?}"), html));
        }
    }
    let refused = Refused { code: text.to_owned(), message: text.to_owned() };
    let problem = ProblemPage { heading: text.to_owned(), refused, cluster: None };
    pages.push(("problem".to_owned(), problem.html(&frame(text))));
    let next = || Link::wanted("/ui/why?replica=a");
    let login = Login { problem: Some(text.to_owned()), next: next(), offer: None };
    let (by, node, secret) = (text.to_owned(), text.to_owned(), text.to_owned());
    let offer = Some(jaco_ui::Offer { by, node, secret });
    let confirmation = Login { problem: None, next: next(), offer };
    pages.push(("logs".to_owned(), reading::logs(text)));
    pages.push(("difference".to_owned(), reading::difference(text)));
    pages.push(("login".to_owned(), login.html()));
    pages.push(("confirmation".to_owned(), confirmation.html()));
    pages.push(("signed out".to_owned(), SignedOut.html()));
    pages
}

//! What a status has to show: what needs attention, and the rows of each list. Pure: the same status gives the same rows.

use jaco_proto::v1::{DeploymentInfo, NodeInfo, ReplicaInfo, ServiceInfo, StatusResponse};
use jaco_sentences::attention;
use jaco_sentences::condition::{Condition, of_replica};
use jaco_sentences::node::{ListedNode, listed};

use crate::format::quantity::{count, natural_order};
use crate::format::time;
use crate::view::{progress, reason, staleness};

/// The lists, in the order of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Services,
    Replicas,
    Nodes,
}

/// One line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) condition: Condition,
    /// In the order of the head; the first is its name.
    pub(crate) cells: Vec<String>,
    /// What a filter looks at: the cells in lower case.
    text: String,
}

/// One list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) head: &'static [&'static str],
    pub(crate) rows: Vec<Row>,
}

/// Everything that is shown of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// Who answered, and who leads.
    pub(crate) source: String,
    /// Sentences, the heaviest first.
    pub(crate) attention: Vec<String>,
    services: Rows,
    replicas: Rows,
    nodes: Rows,
}

impl List {
    pub(crate) const ALL: [Self; 3] = [Self::Services, Self::Replicas, Self::Nodes];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Replicas => "replicas",
            Self::Nodes => "nodes",
        }
    }
}

/// How something is, readable without colours.
pub(crate) const fn sign(condition: Condition) -> char {
    match condition {
        Condition::Well => ' ',
        Condition::Changing => '~',
        Condition::Failing => '!',
    }
}

impl Row {
    pub(crate) fn name(&self) -> &str {
        self.cells.first().map_or("", String::as_str)
    }

    fn new(condition: Condition, cells: Vec<String>) -> Self {
        // No filter has a line break.
        let text = cells.join("\n").to_lowercase();
        Self { condition, cells, text }
    }

    /// Whether a cell has the text, which is in lower case.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.text.contains(text)
    }
}

impl Content {
    pub(crate) fn of(status: &StatusResponse, now_ms: i64) -> Self {
        let leader = match status.leader.as_str() {
            "" => "no leader".to_owned(),
            leader => format!("leader {leader}"),
        };
        let mut nodes = listed(status.nodes.clone(), &[]);
        nodes.sort_by(|a, b| natural_order(a.hostname(), b.hostname()));
        Self {
            source: format!("answered by {} · {leader}", status.answered_by),
            attention: attention(status, &nodes),
            services: services(status),
            replicas: replicas(&status.replicas, now_ms),
            nodes: node_rows(&nodes),
        }
    }

    pub(crate) fn rows(&self, list: List) -> &Rows {
        match list {
            List::Services => &self.services,
            List::Replicas => &self.replicas,
            List::Nodes => &self.nodes,
        }
    }
}

/// As the page and `jaco doctor` say it, what does not work first.
fn attention(status: &StatusResponse, nodes: &[ListedNode]) -> Vec<String> {
    let mut found = attention::nodes(nodes);
    found.extend(attention::workload(status));
    found.sort();
    let sentences = found.iter().map(|one| format!("{}: {}", one.subject, one.message));
    status.staleness.iter().map(staleness::sentence).chain(sentences).collect()
}

/// The content of the newest status. It is made anew for another status or another second, since when things are so, and not
/// for each key.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    content: Option<(Moment, Content)>,
}

/// The number of a status, and the second in which it is looked at.
type Moment = (u64, i64);

impl Kept {
    pub(crate) fn content(
        &mut self,
        number: u64,
        now_ms: i64,
        make: impl FnOnce() -> Content,
    ) -> &Content {
        let moment = (number, now_ms.div_euclid(1000));
        let kept = self.content.take().filter(|(of, _)| *of == moment);
        let (_, content) = self.content.insert(kept.unwrap_or_else(|| (moment, make())));
        content
    }
}

fn each_service(
    status: &StatusResponse,
) -> impl Iterator<Item = (&DeploymentInfo, &ServiceInfo)> + Clone {
    let deployments = status.deployments.iter();
    deployments.flat_map(|one| one.services.iter().map(move |service| (one, service)))
}

fn services(status: &StatusResponse) -> Rows {
    let rows = each_service(status).map(|(deployment, service)| {
        Row::new(
            of_service(status, deployment, service),
            vec![
                format!("{}/{}", deployment.name, service.name),
                format!("{}/{}", progress::fulfilled(service), service.desired),
                service.image.clone(),
                notes(status, deployment, service),
            ],
        )
    });
    Rows { head: &["SERVICE", "RUNNING", "IMAGE", "NOTES"], rows: rows.collect() }
}

fn notes(status: &StatusResponse, deployment: &DeploymentInfo, service: &ServiceInfo) -> String {
    let rollout = progress::rollout(status, deployment, service);
    let unplaced = service.unplaced.iter().map(reason::of_unplaced);
    rollout.into_iter().chain(unplaced).collect::<Vec<_>>().join("; ")
}

fn replicas(all: &[ReplicaInfo], now_ms: i64) -> Rows {
    let mut all: Vec<&ReplicaInfo> = all.iter().collect();
    all.sort_by(|a, b| natural_order(&a.id, &b.id));
    let rows = all.into_iter().map(|replica| {
        Row::new(
            of_replica(replica),
            vec![
                replica.id.clone(),
                replica.state.clone(),
                replica.node.clone(),
                time::ago(replica.since_ms, now_ms),
                match replica.state.as_str() {
                    "running" => String::new(),
                    _ => reason::of_replica(replica),
                },
            ],
        )
    });
    Rows { head: &["REPLICA", "STATE", "NODE", "SINCE", "REASON"], rows: rows.collect() }
}

fn node_rows(all: &[ListedNode]) -> Rows {
    let rows = all.iter().map(|one| {
        Row::new(
            of_node(&one.node),
            vec![
                one.node.hostname.clone(),
                one.node.status.clone(),
                one.node.availability.clone(),
                count(one.node.replicas as usize, "replica"),
                one.node.address.clone(),
                one.notes(),
            ],
        )
    });
    let head = &["NODE", "STATUS", "AVAILABILITY", "REPLICAS", "ADDRESS", "NOTES"];
    Rows { head, rows: rows.collect() }
}

fn of_service(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
) -> Condition {
    let rollout = service.rollout.as_ref().map_or("completed", |rollout| rollout.state.as_str());
    let own = status
        .replicas
        .iter()
        .filter(|replica| replica.deployment == deployment.name && replica.service == service.name);
    let worst = own.map(of_replica).max().unwrap_or(Condition::Well);
    // A service waits for others at first, and for nodes where it cannot be placed.
    let waits = service.unplaced.iter().map(|unplaced| match unplaced.reason.as_str() {
        "waiting_for_dependency" | "waiting_for_job" => Condition::Changing,
        _ => Condition::Failing,
    });
    let rollout = match rollout {
        "completed" => Condition::Well,
        "in_progress" => Condition::Changing,
        _ => Condition::Failing,
    };
    waits.chain([worst, rollout]).max().unwrap_or(Condition::Well)
}

fn of_node(node: &NodeInfo) -> Condition {
    let has_problem = !node.net_reason.is_empty() || node.edge == "failing";
    match (node.status.as_str(), node.availability.as_str()) {
        ("joining", _) => Condition::Changing,
        ("ready", _) if has_problem => Condition::Failing,
        ("ready", "active") => Condition::Well,
        ("ready", _) => Condition::Changing,
        _ => Condition::Failing,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use jaco_proto::v1::{RolloutInfo, Staleness, UnplacedInfo};

    use super::*;

    /// Three services on three nodes: one is well, one is being rolled out, one cannot be placed.
    pub(in crate::screen) fn status() -> StatusResponse {
        let replica = |id: &str, service: &str, node: &str, state: &str, code: &str| ReplicaInfo {
            id: id.into(),
            deployment: "shop".into(),
            service: service.into(),
            node: node.into(),
            state: state.into(),
            code: code.into(),
            since_ms: 1_000,
            ..ReplicaInfo::default()
        };
        let service = |name: &str, running, desired| ServiceInfo {
            name: name.into(),
            image: format!("{name}:1"),
            running,
            desired,
            ..ServiceInfo::default()
        };
        let rolling = Some(RolloutInfo {
            target_revision: 2,
            total_steps: 2,
            state: "in_progress".into(),
            ..RolloutInfo::default()
        });
        let unplaced = vec![UnplacedInfo {
            count: 1,
            reason: "no_eligible_node".into(),
            ..UnplacedInfo::default()
        }];
        let node = |name: &str, status: &str, availability: &str| NodeInfo {
            hostname: name.into(),
            status: status.into(),
            availability: availability.into(),
            address: format!("10.0.0.{}:7000", &name[1..]),
            replicas: 2,
            suffrage: "voter".into(),
            ..NodeInfo::default()
        };
        StatusResponse {
            leader: "n1".into(),
            answered_by: "n2".into(),
            deployments: vec![DeploymentInfo {
                name: "shop".into(),
                services: vec![
                    service("web", 2, 2),
                    ServiceInfo { rollout: rolling, ..service("api", 1, 2) },
                    ServiceInfo { unplaced, ..service("db", 0, 1) },
                ],
                ..DeploymentInfo::default()
            }],
            replicas: vec![
                replica("shop-web-10", "web", "n2", "running", ""),
                replica("shop-web-9", "web", "n1", "running", ""),
                replica("shop-api-0", "api", "n1", "running", ""),
                replica("shop-api-1", "api", "n2", "starting", "health_pending"),
            ],
            nodes: vec![
                node("n1", "ready", "active"),
                node("n2", "ready", "draining"),
                node("n3", "down", "active"),
            ],
            ..StatusResponse::default()
        }
    }

    /// R-OPS-1: what needs an operator comes first, as sentences; what is to be looked into after it.
    #[test]
    fn what_needs_attention_is_said() {
        let mut status = status();
        status.staleness = Some(Staleness { age_ms: 7_000, reason: "there is no quorum".into() });
        let content = Content::of(&status, 61_000);
        assert_eq!(
            content.attention,
            [
                "not current for 7.0s: there is no quorum",
                "n3: not ready: it sends no heartbeat",
                "shop/db: 1 replica cannot be placed: no node is eligible",
                "n2: draining: its replicas move away",
            ]
        );
    }

    /// R-OPS-1: keys do not have what is shown made again: only another status or another second does.
    #[test]
    fn content_is_made_once_for_a_status_and_a_second() {
        let (mut kept, status, mut made) = (Kept::default(), status(), 0);
        let mut look = |number, now_ms| {
            let content = kept.content(number, now_ms, || {
                made += 1;
                Content::of(&status, now_ms)
            });
            (content == &Content::of(&status, now_ms), made)
        };
        let seen = [(1, 61_000), (1, 61_000), (1, 61_999), (1, 62_000), (2, 62_000), (2, 62_001)];
        let expected = [1, 1, 1, 2, 3, 3].map(|made| (true, made));
        assert_eq!(seen.map(|(number, now_ms)| look(number, now_ms)), expected);
    }

    /// R-OPS-1: a replica has its sign and, if that is a failure, its sentence by the same judgement.
    #[test]
    fn a_pull_that_fails_is_said() {
        let mut status = status();
        status.replicas[2].state = "pulling".into();
        status.replicas[2].code = "image_pull_failed".into();
        let content = Content::of(&status, 61_000);
        let rows = &content.rows(List::Replicas).rows;
        assert_eq!((sign(rows[0].condition), rows[0].name()), ('!', "shop-api-0"));
        let said = "shop-api-0: pulling: the image cannot be pulled".to_owned();
        assert!(content.attention.contains(&said), "{:?}", content.attention);
    }

    /// R-OPS-1: rows say how they are by a sign, and why.
    #[test]
    fn each_list_has_its_rows() {
        let content = Content::of(&status(), 61_000);
        let lines = |list| {
            let rows = content.rows(list).rows.iter();
            let text = |row: &Row| format!("{} {}", sign(row.condition), row.cells.join(" | "));
            rows.map(text).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(List::Services),
            [
                "  shop/web | 2/2 | web:1 | ",
                "~ shop/api | 1/2 | api:1 | rolling to r2 step 1/2",
                "! shop/db | 0/1 | db:1 | 1 replica cannot be placed: no node is eligible",
            ]
        );
        assert_eq!(
            lines(List::Replicas),
            [
                "  shop-api-0 | running | n1 | 1m | ",
                "~ shop-api-1 | starting | n2 | 1m | its healthcheck has not passed yet",
                "  shop-web-9 | running | n1 | 1m | ",
                "  shop-web-10 | running | n2 | 1m | ",
            ]
        );
        assert_eq!(
            lines(List::Nodes),
            [
                "  n1 | ready | active | 2 replicas | 10.0.0.1:7000 | ",
                "~ n2 | ready | draining | 2 replicas | 10.0.0.2:7000 | draining: its replicas move away",
                "! n3 | down | active | 2 replicas | 10.0.0.3:7000 | not ready: it sends no heartbeat",
            ]
        );
    }
}

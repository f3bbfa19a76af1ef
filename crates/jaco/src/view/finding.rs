//! What is wrong with a cluster, from what its members say. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jaco_proto::v1::{
    ClusterStatusResponse, DeploymentInfo, ExamineResponse, ExaminedNode, NodeInfo, ReplicaInfo,
    ServiceInfo, StatusResponse,
};
use serde_json::{Value, json};

use crate::error::count;
use crate::progress;

/// A clock that is further off than this stretches or shortens what is measured across nodes:
/// `update.monitor`, the steady run of 10 s, the times in the audit log.
const CLOCK_MS_MAX: i64 = 1000;

/// A member that lacks more entries than this does not keep up: it is more than a busy second.
const BEHIND_MAX: u64 = 10_000;

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something does not work.
    Failing,
    /// It works, with less to spare, or not as somebody may expect.
    Warning,
}

impl Severity {
    /// As it is shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Warning => "warning",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at; the names are part of the interface.
    pub check: &'static str,
    /// The node, service or replica, or `cluster`.
    pub of: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub help: String,
}

impl Finding {
    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "severity": self.severity.as_str(),
            "check": self.check,
            "of": self.of,
            "what": self.what,
            "help": self.help,
        })
    }
}

/// All that is looked at.
#[derive(Debug)]
pub struct Examined<'a> {
    /// What the asked node knows of the cluster.
    pub cluster: &'a ClusterStatusResponse,
    /// What the members say.
    pub members: &'a ExamineResponse,
    /// What is wanted and what is there.
    pub status: &'a StatusResponse,
    /// The version of this program.
    pub own_version: &'a str,
}

/// What is wrong, the worst first.
#[must_use]
pub fn findings(examined: &Examined<'_>) -> Vec<Finding> {
    let mut found = BTreeSet::new();
    agreement(examined, &mut found);
    for node in &examined.members.nodes {
        member(node, examined, &mut found);
    }
    for node in &examined.cluster.nodes {
        availability(node, examined, &mut found);
    }
    versions(examined, &mut found);
    for deployment in &examined.status.deployments {
        for service in &deployment.services {
            of_service(deployment, service, &mut found);
        }
    }
    for replica in &examined.status.replicas {
        of_replica(replica, &mut found);
    }
    found.into_iter().collect()
}

/// How many voters there are, and how many of those that answer can be lost.
#[must_use]
pub fn voters(cluster: &ClusterStatusResponse, members: &ExamineResponse) -> (usize, usize) {
    let is_voter = |node: &&NodeInfo| node.suffrage == "voter";
    let answers = |node: &&NodeInfo| {
        let asked = members.nodes.iter().find(|member| member.node == node.hostname);
        asked.is_some_and(|member| member.unreachable.is_empty())
    };
    let voters = cluster.nodes.iter().filter(is_voter).count();
    let live = cluster.nodes.iter().filter(is_voter).filter(answers).count();
    let majority = voters / 2 + 1;
    (voters, live.saturating_sub(majority))
}

type Found = BTreeSet<Finding>;

fn add(
    found: &mut Found,
    (severity, check): (Severity, &'static str),
    of: &str,
    what: impl Into<String>,
    help: impl Into<String>,
) {
    let (of, what, help) = (of.to_owned(), what.into(), help.into());
    found.insert(Finding { severity, check, of, what, help });
}

fn agreement(examined: &Examined<'_>, found: &mut Found) {
    let cluster = examined.cluster;
    let (voters, can_lose) = voters(cluster, examined.members);
    if cluster.quorum_lost || cluster.leader.is_empty() {
        let what = "too few voters answer: nothing can be changed, what runs goes on running";
        let help = "bring voters back; jaco help error quorum_lost says how";
        add(found, (Severity::Failing, "quorum"), "cluster", what, help);
    } else if can_lose == 0 && cluster.nodes.len() > 1 {
        let what = format!("{} can be lost without losing the quorum", of_voters(0, voters));
        let help = match voters {
            0..=2 => "three nodes are the least that survive the loss of one: jaco token join",
            3.. => "bring back those that do not answer, or jaco node remove --force them",
        };
        add(found, (Severity::Warning, "voters"), "cluster", what, help);
    }
    let terms = examined.members.nodes.iter().filter(|node| node.unreachable.is_empty());
    let leaders: BTreeMap<&str, Vec<&str>> = terms.fold(BTreeMap::new(), |mut by, node| {
        by.entry(node.leader.as_str()).or_insert_with(Vec::new).push(&node.node);
        by
    });
    if leaders.len() > 1 {
        let told = leaders.iter().map(|(leader, nodes)| {
            let leader = if leader.is_empty() { "nobody" } else { leader };
            format!("{} follow {leader}", nodes.join(", "))
        });
        let what = format!(
            "the members do not agree on who leads: {}",
            told.collect::<Vec<_>>().join("; ")
        );
        let help = "an election may be under way: ask again; if it stays, look at what does not reach what";
        add(found, (Severity::Warning, "leader"), "cluster", what, help);
    }
}

/// `0 of 2 voters`.
#[must_use]
pub fn of_voters(some: usize, voters: usize) -> String {
    format!("{some} of {}", count(voters, "voter"))
}

fn member(node: &ExaminedNode, examined: &Examined<'_>, found: &mut Found) {
    let name = node.node.as_str();
    if !node.unreachable.is_empty() {
        let what = format!("{} does not reach it: {}", examined.members.asked, node.unreachable);
        let help =
            format!("look at its daemon (journalctl -u jacod on {name}) and at what lies between");
        add(found, (Severity::Failing, "reach"), name, what, help);
        return;
    }
    for reach in node.reaches.iter().filter(|reach| !reach.unreachable.is_empty()) {
        let asked = examined.members.nodes.iter().find(|other| other.node == reach.node);
        // Said of that one already.
        if asked.is_none_or(|other| !other.unreachable.is_empty()) {
            continue;
        }
        let what =
            format!("it does not reach {}, which others do: {}", reach.node, reach.unreachable);
        let help = "look at firewalls and routes between the two, in this direction";
        add(found, (Severity::Failing, "reach"), name, what, help);
    }
    let unsure_ms = i64::try_from(node.round_trip_us / 2000).unwrap_or(i64::MAX);
    let off = node.clock_ahead_ms.saturating_abs();
    if off > CLOCK_MS_MAX.saturating_add(unsure_ms) {
        let side = if node.clock_ahead_ms > 0 { "ahead of" } else { "behind" };
        let what =
            format!("its clock is {:.1} s {side} that of {}", seconds(off), examined.members.asked);
        add(
            found,
            (Severity::Warning, "clock"),
            name,
            what,
            "let a time service such as chrony set it",
        );
    }
    if !node.engine_down.is_empty() {
        let what = format!("its container engine does not answer: {}", node.engine_down);
        let help = format!("docker info on {name}");
        add(found, (Severity::Failing, "engine"), name, what, help);
    }
    let newest = examined.members.nodes.iter().map(|node| node.applied).max().unwrap_or_default();
    let behind = newest.saturating_sub(node.applied);
    if behind > BEHIND_MAX {
        let what = format!("its state is {behind} entries behind");
        let help = "it catches up by itself; if it does not, its disk or its network is too slow";
        add(found, (Severity::Warning, "behind"), name, what, help);
    }
}

#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

fn availability(node: &NodeInfo, examined: &Examined<'_>, found: &mut Found) {
    let name = node.hostname.as_str();
    let examined = examined.members.nodes.iter().find(|member| member.node == node.hostname);
    let answers = examined.is_some_and(|member| member.unreachable.is_empty());
    match node.status.as_str() {
        "ready" | "joining" => {}
        // What is asked now is newer than what was agreed on.
        "down" if !answers => {}
        "engine_down" if examined.is_some_and(|member| !member.engine_down.is_empty()) => {}
        status => {
            let reason = match node.status_reason.as_str() {
                "" => String::new(),
                reason => format!(": {reason}"),
            };
            let what = format!("it is {status}{reason}");
            let help = "nothing new is placed there until it is ready again";
            add(found, (Severity::Failing, "node"), name, what, help);
        }
    }
    if node.availability == "cordoned" {
        let help = format!("jaco node uncordon {name}");
        add(found, (Severity::Warning, "cordon"), name, "it takes no new replicas", help);
    }
}

fn versions(examined: &Examined<'_>, found: &mut Found) {
    let mut by_version: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in examined.members.nodes.iter().filter(|node| !node.version.is_empty()) {
        by_version.entry(&node.version).or_default().push(&node.node);
    }
    if by_version.len() > 1 {
        let told =
            by_version.iter().map(|(version, nodes)| format!("{version} on {}", nodes.join(", ")));
        let what =
            format!("the nodes run different versions: {}", told.collect::<Vec<_>>().join("; "));
        let help = "bring all to the newest: some new abilities wait until then";
        add(found, (Severity::Warning, "version"), "cluster", what, help);
    }
    if !by_version.is_empty() && !by_version.contains_key(examined.own_version) {
        let what = format!("this program is of version {}, no node is", examined.own_version);
        let help = "use the jaco that came with the daemons";
        add(found, (Severity::Warning, "version"), "jaco", what, help);
    }
}

fn of_service(deployment: &DeploymentInfo, service: &ServiceInfo, found: &mut Found) {
    let name = format!("{}/{}", deployment.name, service.name);
    for unplaced in &service.unplaced {
        let what = progress::unplaced_text(unplaced);
        let help = format!("jaco explain {name} says what would place it");
        add(found, (Severity::Failing, "placement"), &name, what, help);
    }
    let Some(rollout) = &service.rollout else { return };
    if ["aborted", "paused", "rollback_paused"].contains(&rollout.state.as_str()) {
        let why = match rollout.failure_reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        let what = format!(
            "its rollout to revision {} is {}{why}",
            rollout.target_revision, rollout.state
        );
        let help = format!("jaco status {name}; apply again once the cause is gone");
        add(found, (Severity::Warning, "rollout"), &name, what, help);
    }
}

fn of_replica(replica: &ReplicaInfo, found: &mut Found) {
    if !["failed", "degraded"].contains(&replica.state.as_str()) {
        return;
    }
    let what = match progress::reason(replica).as_str() {
        "" => replica.state.clone(),
        reason => format!("{}: {reason}", replica.state),
    };
    let help = format!("jaco get replica {} shows its last words", replica.id);
    add(found, (Severity::Failing, "replica"), &replica.id, what, help);
}

#[cfg(test)]
mod tests {
    use jaco_proto::v1::{Reach, RolloutInfo, UnplacedInfo};

    use super::*;

    fn cluster(nodes: &[&str]) -> ClusterStatusResponse {
        let node = |name: &&str| NodeInfo {
            hostname: (*name).to_owned(),
            status: "ready".to_owned(),
            availability: "active".to_owned(),
            suffrage: "voter".to_owned(),
            ..NodeInfo::default()
        };
        ClusterStatusResponse {
            leader: "n1".to_owned(),
            nodes: nodes.iter().map(node).collect(),
            ..ClusterStatusResponse::default()
        }
    }

    fn members(nodes: &[&str]) -> ExamineResponse {
        let node = |name: &&str| ExaminedNode {
            node: (*name).to_owned(),
            version: "1.0.0".to_owned(),
            leader: "n1".to_owned(),
            applied: 40_000,
            round_trip_us: 500,
            ..ExaminedNode::default()
        };
        ExamineResponse { asked: "n1".to_owned(), nodes: nodes.iter().map(node).collect() }
    }

    fn told(
        cluster: &ClusterStatusResponse,
        members: &ExamineResponse,
        status: &StatusResponse,
    ) -> Vec<String> {
        let found = findings(&Examined { cluster, members, status, own_version: "1.0.0" });
        let line = |one: Finding| {
            assert!(!one.help.is_empty(), "{one:?}");
            format!("{} {} {}: {}", one.severity.as_str(), one.check, one.of, one.what)
        };
        found.into_iter().map(line).collect()
    }

    const THREE: [&str; 3] = ["n1", "n2", "n3"];

    /// R-CLI-6: a cluster that is well has no findings, and one node alone is well.
    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        let none = StatusResponse::default();
        assert_eq!(told(&cluster(&THREE), &members(&THREE), &none), [""; 0]);
        assert_eq!(told(&cluster(&["n1"]), &members(&["n1"]), &none), [""; 0]);
    }

    /// R-CLI-6: what keeps nodes apart is told once, and in which direction.
    #[test]
    fn ways_between_nodes_are_told() {
        let none = StatusResponse::default();
        let mut seen = members(&THREE);
        let reach = |node: &str, why: &str| Reach {
            node: node.to_owned(),
            unreachable: why.to_owned(),
            ..Reach::default()
        };
        seen.nodes[1].reaches = vec![reach("n1", ""), reach("n3", "no answer within 2 s")];
        assert_eq!(
            told(&cluster(&THREE), &seen, &none),
            ["failing reach n2: it does not reach n3, which others do: no answer within 2 s"]
        );
        seen.nodes[2] = ExaminedNode {
            node: "n3".to_owned(),
            unreachable: "connection refused".to_owned(),
            ..ExaminedNode::default()
        };
        let mut known = cluster(&THREE);
        known.nodes[2].status = "down".to_owned();
        assert_eq!(
            told(&known, &seen, &none),
            [
                "failing reach n3: n1 does not reach it: connection refused",
                "warning voters cluster: 0 of 3 voters can be lost without losing the quorum",
            ]
        );
        // It answers; that the leader thinks otherwise is worth a word.
        assert_eq!(told(&known, &members(&THREE), &none), ["failing node n3: it is down"]);
    }

    /// R-CLI-6: each fact that the members tell of themselves has its finding.
    #[test]
    fn what_members_say_of_themselves_is_judged() {
        let none = StatusResponse::default();
        let check = |change: &dyn Fn(&mut ExaminedNode), expected: &[&str]| {
            let mut seen = members(&THREE);
            change(&mut seen.nodes[2]);
            assert_eq!(told(&cluster(&THREE), &seen, &none), expected);
        };
        check(&|node| node.clock_ahead_ms = 1000, &[]);
        check(
            &|node| node.clock_ahead_ms = -2500,
            &["warning clock n3: its clock is 2.5 s behind that of n1"],
        );
        check(&|node| (node.clock_ahead_ms, node.round_trip_us) = (2500, 3_000_000), &[]);
        check(&|node| node.applied = 30_000, &[]);
        check(
            &|node| node.applied = 29_999,
            &["warning behind n3: its state is 10001 entries behind"],
        );
        check(
            &|node| node.engine_down = "refused".to_owned(),
            &["failing engine n3: its container engine does not answer: refused"],
        );
        check(
            &|node| node.version = "0.9.0".to_owned(),
            &[
                "warning version cluster: the nodes run different versions: 0.9.0 on n3; 1.0.0 on n1, n2",
            ],
        );
        check(
            &|node| node.leader.clear(),
            &[
                "warning leader cluster: the members do not agree on who leads: n3 follow nobody; n1, n2 follow n1",
            ],
        );
    }

    /// R-CLI-6: what the cluster as a whole lacks.
    #[test]
    fn the_cluster_is_judged() {
        let none = StatusResponse::default();
        let lost = ClusterStatusResponse { quorum_lost: true, ..cluster(&THREE) };
        assert_eq!(
            told(&lost, &members(&THREE), &none),
            [
                "failing quorum cluster: too few voters answer: nothing can be changed, what runs goes on running",
            ]
        );
        let mut two = cluster(&["n1", "n2"]);
        two.nodes[1].suffrage = "learner".to_owned();
        two.nodes[1].availability = "cordoned".to_owned();
        assert_eq!(
            told(&two, &members(&["n1", "n2"]), &none),
            [
                "warning cordon n2: it takes no new replicas",
                "warning voters cluster: 0 of 1 voter can be lost without losing the quorum",
            ]
        );
    }

    /// R-CLI-6: what does not run is among the findings.
    #[test]
    fn what_does_not_run_is_told() {
        let service = ServiceInfo {
            name: "web".to_owned(),
            unplaced: vec![UnplacedInfo {
                count: 2,
                reason: "no_capacity".to_owned(),
                ..UnplacedInfo::default()
            }],
            rollout: Some(RolloutInfo {
                target_revision: 3,
                state: "aborted".to_owned(),
                failure_reason: "step_timeout".to_owned(),
                ..RolloutInfo::default()
            }),
            ..ServiceInfo::default()
        };
        let replica = |id: &str, state: &str| ReplicaInfo {
            id: id.to_owned(),
            state: state.to_owned(),
            code: "restart_exhausted".to_owned(),
            ..ReplicaInfo::default()
        };
        let status = StatusResponse {
            deployments: vec![DeploymentInfo {
                name: "shop".to_owned(),
                services: vec![service],
                ..DeploymentInfo::default()
            }],
            replicas: vec![replica("shop-web-0", "running"), replica("shop-web-1", "failed")],
            ..StatusResponse::default()
        };
        let found = told(&cluster(&THREE), &members(&THREE), &status);
        let [placement, replica, rollout] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            placement,
            "failing placement shop/web: 2 replicas cannot be placed: no_capacity"
        );
        assert!(replica.starts_with("failing replica shop-web-1: failed"), "{replica}");
        assert_eq!(
            rollout,
            "warning rollout shop/web: its rollout to revision 3 is aborted: step_timeout"
        );
    }
}

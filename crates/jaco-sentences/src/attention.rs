//! What in a status needs attention: each with a sentence, and a command that helps.

use std::fmt;

use jaco_proto::v1::{
    BackupScheduleInfo, ClusterStatusResponse, DeploymentInfo, ReplicaInfo, RouteInfo, ServiceInfo,
    StatusResponse,
};

use crate::condition::{self, Condition};
use crate::node::ListedNode;
use crate::quantity::count;
use crate::{reason, staleness, time};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something does not work.
    Failing,
    /// It works, with reduced fault tolerance or unexpected behaviour.
    Warning,
}

impl Severity {
    /// Its name in the output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Warning => "warning",
        }
    }
}

/// What it is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The cluster as a whole.
    Cluster,
    /// A node, by its name.
    Node(String),
    /// A service.
    Service {
        /// The deployment that it is of.
        deployment: String,
        /// Its name there.
        service: String,
    },
    /// A replica.
    Replica {
        /// The deployment that it is of.
        deployment: String,
        /// Its name.
        id: String,
    },
    /// A route: the domain and the path.
    Route {
        /// The deployment that has it.
        deployment: String,
        /// Domain and path.
        name: String,
    },
    /// A schedule of backups, by its name.
    BackupSchedule(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::Node(name)
            | Self::Replica { id: name, .. }
            | Self::Route { name, .. }
            | Self::BackupSchedule(name) => f.write_str(name),
            Self::Service { deployment, service } => write!(f, "{deployment}/{service}"),
        }
    }
}

/// One thing that needs attention. Sorted, what fails comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attention {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// The name of the check that found it.
    pub check: &'static str,
    /// The problem.
    pub message: String,
    /// The advice; empty if there is none.
    pub help: String,
}

/// Services that are not placed or whose rollout has stopped, and replicas that fail.
#[must_use]
pub fn workload(status: &StatusResponse) -> Vec<Attention> {
    let mut found = Vec::new();
    for deployment in &status.deployments {
        for one in &deployment.services {
            service(deployment, one, &mut found);
        }
    }
    found.extend(status.replicas.iter().filter_map(replica));
    found
}

/// Schedules of backups that fail: that there is no backup is found out when one is needed.
#[must_use]
pub fn backups(schedules: &[BackupScheduleInfo], now_ms: i64) -> Vec<Attention> {
    let failing = schedules.iter().filter(|schedule| schedule.failing_since_ms > 0);
    let found = failing.map(|schedule| {
        let since = time::ago(schedule.failing_since_ms, now_ms);
        let BackupScheduleInfo { name, target, failing_reason: reason, .. } = schedule;
        let last = match schedule.last_at_ms {
            0 => "there is none yet".to_owned(),
            at => format!("the last one is {} old", time::ago(at, now_ms)),
        };
        Attention {
            severity: Severity::Warning,
            subject: Subject::BackupSchedule(name.clone()),
            check: "backup",
            message: format!("backups to {target} have failed for {since}, {last}: {reason}"),
            help: format!("jaco backup schedule run {name} tries it now"),
        }
    });
    found.collect()
}

/// Nodes that take no replicas, or whose vote does not count, for a reason that is not ordinary.
#[must_use]
pub fn nodes(nodes: &[ListedNode]) -> Vec<Attention> {
    let found = nodes.iter().filter(|node| !node.notes().is_empty()).map(|node| {
        let name = node.hostname();
        let has_failed = ["down", "engine_down", "disk_full"].contains(&node.node.status.as_str())
            || node.node.net == "none";
        Attention {
            severity: if has_failed { Severity::Failing } else { Severity::Warning },
            subject: Subject::Node(name.to_owned()),
            check: "node",
            message: node.notes(),
            help: format!("jaco doctor examines {name} and its connections"),
        }
    });
    found.collect()
}

/// Whether the answer is current, and whether a leader and a quorum are there.
#[must_use]
pub fn cluster(cluster: &ClusterStatusResponse) -> Vec<Attention> {
    let about = |severity, check, message, help: &str| Attention {
        severity,
        subject: Subject::Cluster,
        check,
        message,
        help: help.to_owned(),
    };
    let mut found = Vec::new();
    if let Some(age) = &cluster.staleness {
        let message = format!("what {} knows is {}", cluster.answered_by, staleness::sentence(age));
        found.push(about(
            Severity::Failing,
            "age",
            message,
            "ask another node, or see jaco doctor",
        ));
    }
    if cluster.quorum_lost || cluster.leader.is_empty() {
        let message = match cluster.quorum_lost {
            true => "no quorum: nothing can be changed, running containers keep running",
            false => {
                "no leader is known: nothing can be changed until one is elected, running containers keep running"
            }
        };
        let help = "bring voters back; see jaco help error quorum_lost";
        found.push(about(Severity::Failing, "quorum", message.to_owned(), help));
        return found;
    }
    let is_down = |status: &str| matches!(status, "down" | "unknown");
    let voters = cluster.nodes.iter().filter(|node| node.suffrage == "voter");
    let (mut all, mut up) = (0, 0);
    for voter in voters {
        all += 1;
        up += usize::from(!is_down(&voter.status));
    }
    if up <= all / 2 + 1 && cluster.nodes.len() > 1 {
        let message = format!("0 of {} can be lost without losing the quorum", count(all, "voter"));
        let help = match all {
            0..=2 => "at least three nodes are needed to survive the loss of one: jaco token join",
            3.. => "bring back unreachable voters, or remove them with jaco node rm --force",
        };
        found.push(about(Severity::Warning, "voters", message, help));
    }
    found
}

/// Routes that something is wrong with.
#[must_use]
pub fn routes(routes: &[RouteInfo]) -> Vec<Attention> {
    let found = routes.iter().filter(|route| !route.warning.is_empty()).map(|route| {
        let name = format!("{}{}", route.domain, route.path.trim_end_matches('/'));
        Attention {
            severity: Severity::Warning,
            subject: Subject::Route { deployment: route.deployment.clone(), name },
            check: "route",
            message: reason::one_line(&route.warning),
            help: "jaco route ls shows all routes with what answers them".to_owned(),
        }
    });
    found.collect()
}

fn service(deployment: &DeploymentInfo, service: &ServiceInfo, found: &mut Vec<Attention>) {
    let subject =
        Subject::Service { deployment: deployment.name.clone(), service: service.name.clone() };
    let name = subject.to_string();
    for unplaced in &service.unplaced {
        found.push(Attention {
            severity: Severity::Failing,
            subject: subject.clone(),
            check: "placement",
            message: reason::of_unplaced(unplaced),
            help: format!("jaco explain {name} shows what would make a node eligible"),
        });
    }
    let Some(rollout) = &service.rollout else { return };
    if ["aborted", "paused", "rollback_paused"].contains(&rollout.state.as_str()) {
        let why = match rollout.failure_reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        let message = format!(
            "its rollout to revision {} is {}{why}",
            rollout.target_revision, rollout.state
        );
        found.push(Attention {
            severity: Severity::Warning,
            subject,
            check: "rollout",
            message,
            help: format!("jaco status {name}; apply again after the cause is fixed"),
        });
    }
}

fn replica(replica: &ReplicaInfo) -> Option<Attention> {
    let fails = condition::of_replica(replica) == Condition::Failing;
    if !fails || condition::is_said_elsewhere(replica) {
        return None;
    }
    let message = match reason::of_replica(replica).as_str() {
        "" => replica.state.clone(),
        reason => format!("{}: {reason}", replica.state),
    };
    Some(Attention {
        severity: Severity::Failing,
        subject: Subject::Replica {
            deployment: replica.deployment.clone(),
            id: replica.id.clone(),
        },
        check: "replica",
        message,
        help: format!("jaco get replica {} shows its last log lines", replica.id),
    })
}

#[cfg(test)]
mod tests {
    use jaco_proto::v1::{NodeInfo, Staleness, UnplacedInfo};
    use jaco_types::ReasonCode;

    use super::*;

    fn of(quorum_lost: bool, leader: &str, voters: &[&str]) -> Vec<String> {
        let node = |status: &&str| NodeInfo {
            status: (*status).to_owned(),
            suffrage: "voter".to_owned(),
            ..NodeInfo::default()
        };
        let status = ClusterStatusResponse {
            quorum_lost,
            leader: leader.to_owned(),
            nodes: voters.iter().map(node).collect(),
            ..ClusterStatusResponse::default()
        };
        cluster(&status).into_iter().map(|found| found.message).collect()
    }

    /// R-OPS-1: what a cluster cannot do without is told first, and a cluster that is in order says nothing.
    #[test]
    fn quorum_and_leader_are_told() {
        assert_eq!(of(false, "n1", &["ready"]), [""; 0]);
        assert_eq!(of(false, "n1", &["ready"; 3]), [""; 0]);
        let none = ["0 of 3 voters can be lost without losing the quorum"];
        assert_eq!(of(false, "n1", &["ready", "down", "ready"]), none);
        assert_eq!(
            of(false, "n1", &["ready", "ready"]),
            ["0 of 2 voters can be lost without losing the quorum"]
        );
        assert!(of(true, "", &["unknown"; 3])[0].starts_with("no quorum: "));
        assert!(of(false, "", &["ready"; 3])[0].starts_with("no leader is known"));
    }

    /// R-OPS-1: an answer that is not current says so, with its age.
    #[test]
    fn age_is_told() {
        let status = ClusterStatusResponse {
            answered_by: "n2".to_owned(),
            leader: "n1".to_owned(),
            staleness: Some(Staleness { age_ms: 2500, reason: "no quorum".to_owned() }),
            ..ClusterStatusResponse::default()
        };
        assert_eq!(cluster(&status)[0].message, "what n2 knows is not current for 2.5s: no quorum");
    }

    /// What is said of a status with one replica: of itself, its service or its node.
    fn said_of(state: &str, code: &str) -> Vec<String> {
        let unplaced = match (state, code) {
            ("pending", "no_eligible_node") => {
                vec![UnplacedInfo { count: 1, reason: code.to_owned(), ..UnplacedInfo::default() }]
            }
            _ => Vec::new(),
        };
        let service = ServiceInfo { name: "web".to_owned(), unplaced, ..ServiceInfo::default() };
        let deployment = DeploymentInfo {
            name: "shop".to_owned(),
            services: vec![service],
            ..DeploymentInfo::default()
        };
        let status = StatusResponse {
            deployments: vec![deployment],
            replicas: vec![replica_that_is(state, code)],
            ..StatusResponse::default()
        };
        let node = NodeInfo {
            hostname: "n1".to_owned(),
            status: if code == "node_down" { "down" } else { "ready" }.to_owned(),
            availability: "active".to_owned(),
            suffrage: "voter".to_owned(),
            ..NodeInfo::default()
        };
        let mut found = nodes(&crate::node::listed(vec![node], &[]));
        found.extend(workload(&status));
        found.iter().map(|one| format!("{}: {}", one.subject, one.message)).collect()
    }

    fn replica_that_is(state: &str, code: &str) -> ReplicaInfo {
        ReplicaInfo {
            id: "shop-web-0".to_owned(),
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            node: "n1".to_owned(),
            state: state.to_owned(),
            code: code.to_owned(),
            exit_code: 1,
            exited: true,
            ..ReplicaInfo::default()
        }
    }

    /// R-OPS-1: a replica that has the sign of a failure has one sentence, whatever its state and code are, and one that has
    /// none has no sentence.
    #[test]
    fn each_failing_replica_is_said_once() {
        let states = [
            "pending", "pulling", "starting", "running", "degraded", "failed", "stopped",
            "stopping", "unknown",
        ];
        let other = ["", "no_eligible_node", "node_down", "terminating", "waiting_for_node"];
        let codes = ReasonCode::ALL.iter().map(|code| code.as_str()).chain(other);
        for (code, state) in codes.flat_map(|code| states.map(|state| (code, state))) {
            let fails = condition::of_replica(&replica_that_is(state, code)) == Condition::Failing;
            let said = said_of(state, code);
            // A node that is down is said, whatever its replicas are taken for.
            let expected = usize::from(fails || code == "node_down");
            assert_eq!(said.len(), expected, "{state} {code}: {said:?}");
        }
        let pulls = said_of("pulling", "image_pull_failed");
        assert!(
            pulls[0].starts_with("shop-web-0: pulling: the image cannot be pulled"),
            "{pulls:?}"
        );
    }

    /// R-OPS-1, R-CLI-6: a schedule of backups that fails is told with what there is, and one that does not is not.
    #[test]
    fn failing_backups_are_told() {
        let schedule = |name: &str, failing_since_ms: i64, last_at_ms: i64| BackupScheduleInfo {
            name: name.to_owned(),
            target: "/backups".to_owned(),
            failing_since_ms,
            last_at_ms,
            failing_reason: "no space left".to_owned(),
            ..BackupScheduleInfo::default()
        };
        let all =
            [schedule("fine", 0, 1), schedule("new", 4_000, 0), schedule("old", 4_000, 1_000)];
        let told = backups(&all, 10_000);
        let told: Vec<_> =
            told.iter().map(|it| format!("{}: {}", it.subject, it.message)).collect();
        assert_eq!(
            told,
            [
                "new: backups to /backups have failed for 6s, there is none yet: no space left",
                "old: backups to /backups have failed for 6s, the last one is 9s old: no space left",
            ]
        );
    }

    /// R-OPS-1: what fails comes before what is only to be looked into.
    #[test]
    fn failures_are_sorted_first() {
        let mut found = [
            Attention {
                severity: Severity::Warning,
                subject: Subject::Cluster,
                check: "voters",
                message: String::new(),
                help: String::new(),
            },
            Attention {
                severity: Severity::Failing,
                subject: Subject::Node("n1".to_owned()),
                check: "node",
                message: String::new(),
                help: String::new(),
            },
        ];
        found.sort();
        assert_eq!(found.map(|one| one.check), ["node", "voters"]);
    }
}

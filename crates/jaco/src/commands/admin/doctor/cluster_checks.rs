//! Checks of the cluster as a whole: quorum, leader, versions.

use std::collections::BTreeMap;

use jaco_proto::v1::{ClusterStatusResponse, ExamineResponse, NodeInfo, VoterProgress};

use super::examination::Examination;
use super::finding::Findings;
use crate::format::quantity::count;
use crate::format::time;
use crate::view::node_reasons::{entries, is_stuck};

/// How long a phase of a rotation may last before who holds it is named: the patience with connections, and some.
const HELD_MS: i64 = 20_000;

/// The leader hears a voter several times a second. One that it has not heard for so long is not behind, but cut off.
const UNHEARD_MS: u64 = 5_000;

/// Checks the quorum and the agreement about the leader.
pub(super) fn agreement(examination: &Examination<'_>, found: &mut Findings) {
    let cluster = examination.cluster;
    let (voters, can_lose) = voters(cluster, examination.members);
    let is_leaderless = cluster.quorum_lost || cluster.leader.is_empty();
    let elsewhere = leader_of_most(cluster, examination.members).filter(|_| is_leaderless);
    if let Some((leader, followers)) = elsewhere {
        let asked = &examination.members.asked;
        let message = format!(
            "it follows no leader, and {} follow {leader}: it is cut off, and the others go on without it",
            of_voters(followers, voters)
        );
        let help = format!(
            "check the firewall and the network between {asked} and the others; for now ask another node with --server"
        );
        found.failing("leader", asked, message, help);
    } else if is_leaderless {
        let unknown = match examination.status {
            Some(_) => "",
            None => {
                "; the node that answers has not caught up since its start, so deployments and replicas are unknown"
            }
        };
        let message =
            format!("no quorum: nothing can be changed, running containers keep running{unknown}");
        let help = "bring voters back; see jaco help error quorum_lost";
        found.failing("quorum", "cluster", message, help);
    } else if can_lose == 0 && cluster.nodes.len() > 1 {
        let message = format!("{} can be lost without losing the quorum", of_voters(0, voters));
        let help = match voters {
            0..=2 => "at least three nodes are needed to survive the loss of one: jaco token join",
            3.. => "bring back unreachable voters, or remove them with jaco node rm --force",
        };
        found.warning("voters", "cluster", message, help);
    }
    let reachable = examination.members.nodes.iter().filter(|node| node.unreachable.is_empty());
    let leaders: BTreeMap<&str, Vec<&str>> =
        reachable.fold(BTreeMap::new(), |mut by_leader, node| {
            by_leader.entry(node.leader.as_str()).or_insert_with(Vec::new).push(&node.node);
            by_leader
        });
    if leaders.len() > 1 && elsewhere.is_none() {
        let groups = leaders.iter().map(|(leader, nodes)| {
            let leader = if leader.is_empty() { "no leader" } else { leader };
            let follow = if nodes.len() == 1 { "follows" } else { "follow" };
            format!("{} {follow} {leader}", nodes.join(", "))
        });
        let message = format!(
            "the members disagree about the leader: {}",
            groups.collect::<Vec<_>>().join("; ")
        );
        let help = "an election may be in progress: run it again; if it stays, check the network between the nodes";
        found.warning("leader", "cluster", message, help);
    }
}

/// Another node than the one that answers that most of the voters follow, and how many of them do.
fn leader_of_most<'a>(
    cluster: &ClusterStatusResponse,
    members: &'a ExamineResponse,
) -> Option<(&'a str, usize)> {
    let votes = |name: &str| {
        cluster.nodes.iter().any(|node| node.hostname == name && node.suffrage == "voter")
    };
    let reachable = members.nodes.iter().filter(|node| node.unreachable.is_empty());
    let mut followers: BTreeMap<&str, usize> = BTreeMap::new();
    for node in reachable.filter(|node| !node.leader.is_empty() && votes(&node.node)) {
        *followers.entry(&node.leader).or_default() += 1;
    }
    let all = cluster.nodes.iter().filter(|node| node.suffrage == "voter").count();
    followers.into_iter().find(|(leader, count)| *leader != members.asked && 2 * count > all)
}

/// How far the voters are, by the leader of the newest term; empty where no leader has answered.
pub(super) fn progress(members: &ExamineResponse) -> &[VoterProgress] {
    let leaders = members.nodes.iter().filter(|node| !node.voters.is_empty());
    leaders.max_by_key(|node| node.term).map(|node| node.voters.as_slice()).unwrap_or_default()
}

/// Checks that the log of each voter that can be reached follows the leader's.
pub(super) fn replication(examination: &Examination<'_>, found: &mut Findings) {
    let members = examination.members;
    for voter in progress(members).iter().filter(|voter| is_stuck(voter)) {
        let name = voter.node.as_str();
        if !voter.refused.is_empty() {
            let message = format!("the leader refuses it: {}", voter.refused);
            let help = format!(
                "jacod rejoin on {name} has it join again as a new one; end any copy of it that runs elsewhere first"
            );
            found.failing("log", name, message, help);
            continue;
        }
        let asked = members.nodes.iter().find(|member| member.node == voter.node);
        // Reported by the check of the member.
        if asked.is_none_or(|member| !member.unreachable.is_empty()) {
            continue;
        }
        if voter.last_contact_ms.is_none_or(|contact| contact >= UNHEARD_MS) {
            let message = "the leader does not hear it, so that its log does not grow: it does not count as a voter that helps";
            let help = format!("check the firewall and the network from the leader to {name}");
            found.failing("replication", name, message, help);
            continue;
        }
        let (lag, still) = (voter.lag, voter.still_ms / 1000);
        let message = format!(
            "its log is {} behind the leader's and has not moved for {still} s: it does not count as a voter that helps",
            entries(lag)
        );
        let help = format!(
            "see the log of jacod on {name}; if a large snapshot is not on its way to it, remove it (jaco node rm {name}) and join it with an empty data_dir"
        );
        found.failing("replication", name, message, help);
    }
}

/// The number of voters, and how many of the reachable ones that keep up can be lost without losing the quorum.
pub(super) fn voters(cluster: &ClusterStatusResponse, members: &ExamineResponse) -> (usize, usize) {
    let is_voter = |node: &&NodeInfo| node.suffrage == "voter";
    let stuck: Vec<&str> =
        progress(members).iter().filter(|voter| is_stuck(voter)).map(|v| v.node.as_str()).collect();
    let answers = |node: &&NodeInfo| {
        let asked = members.nodes.iter().find(|member| member.node == node.hostname);
        let is_stuck = stuck.contains(&node.hostname.as_str());
        asked.is_some_and(|member| member.unreachable.is_empty()) && !is_stuck
    };
    let voters = cluster.nodes.iter().filter(is_voter).count();
    let live = cluster.nodes.iter().filter(is_voter).filter(answers).count();
    let majority = voters / 2 + 1;
    (voters, live.saturating_sub(majority))
}

/// A number of voters: `0 of 2 voters`.
pub(super) fn of_voters(some: usize, voters: usize) -> String {
    format!("{some} of {}", count(voters, "voter"))
}

/// Checks that no member holds a phase of a rotation of the authority. One of a few seconds' age is no finding: members
/// report one after the other.
pub(super) fn rotation(examination: &Examination<'_>, found: &mut Findings) {
    let Some(rotation) = &examination.cluster.rotation else { return };
    let age = examination.now_ms.saturating_sub(rotation.since_ms);
    if rotation.holders.is_empty() || age < HELD_MS {
        return;
    }
    let phase = rotation.phase.as_str();
    let since = time::ago(rotation.since_ms, examination.now_ms);
    for holder in &rotation.holders {
        let message = format!(
            "the rotation of the authority waits for it in the phase {phase}, which began {since} ago"
        );
        let help = format!(
            "bring {holder} back, or remove it with jaco node rm {holder}; see jaco cluster rotate-ca --status"
        );
        found.warning("rotation", holder, message, help);
    }
}

/// Checks that no member holds a phase of a rotation of the key-encryption key, and that nothing is left that cannot be
/// sealed anew.
pub(super) fn kek_rotation(examination: &Examination<'_>, found: &mut Findings) {
    let Some(rotation) = &examination.cluster.kek_rotation else { return };
    if examination.now_ms.saturating_sub(rotation.since_ms) < HELD_MS {
        return;
    }
    let phase = rotation.phase.as_str();
    let since = time::ago(rotation.since_ms, examination.now_ms);
    for holder in &rotation.holders {
        let message = format!(
            "the rotation of the key-encryption key waits for it in the phase {phase}, which began {since} ago"
        );
        let help = format!(
            "bring {holder} back, or remove it with jaco node rm {holder}; see jaco cluster rotate-kek --status"
        );
        found.warning("rotation", holder, message, help);
    }
    if phase == "resealing" && rotation.holders.is_empty() && rotation.left > 0 {
        let message = format!(
            "the rotation of the key-encryption key cannot seal {} anew since {since}",
            rotation.first_left
        );
        let help = "replace or remove it; the leader's log says why it does not open".to_owned();
        found.warning("rotation", &rotation.first_left, message, help);
    }
}

/// Checks that all nodes and this program have one version.
pub(super) fn versions(examination: &Examination<'_>, found: &mut Findings) {
    let mut by_version: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in examination.members.nodes.iter().filter(|node| !node.version.is_empty()) {
        by_version.entry(&node.version).or_default().push(&node.node);
    }
    if by_version.len() > 1 {
        let groups =
            by_version.iter().map(|(version, nodes)| format!("{version} on {}", nodes.join(", ")));
        let message =
            format!("the nodes run different versions: {}", groups.collect::<Vec<_>>().join("; "));
        let help = "upgrade all nodes: what is new in the later version waits for that";
        found.warning("version", "cluster", message, help);
    }
    if !by_version.is_empty() && !by_version.contains_key(examination.own_version) {
        let message =
            format!("this program has version {}, which no node runs", examination.own_version);
        let help = "use the jaco that came with the daemons";
        found.warning("version", "jaco", message, help);
    }
}

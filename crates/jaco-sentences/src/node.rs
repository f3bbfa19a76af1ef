//! Why a node takes no replicas, and why it does not help the quorum, each as a code and a sentence.

use jaco_proto::v1::{NodeInfo, VoterProgress};
use jaco_types::voter_target;

/// A voter that lacks entries and has not moved for so long, in milliseconds, does not just catch up: that takes less
/// than a second unless the leader has to send a snapshot.
const STILL_MS: u64 = 10_000;

/// A voter that has not answered its leader for so long, in milliseconds, is not late: it is asked several times a second.
const SILENT_MS: u64 = 5_000;

/// What a reason keeps from happening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// New replicas on the node.
    Placement,
    /// A vote that counts.
    Quorum,
}

impl About {
    /// Its name in the output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Placement => "placement",
            Self::Quorum => "quorum",
        }
    }
}

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What it keeps from happening.
    pub about: About,
    /// Its name, for programs.
    pub code: &'static str,
    /// The sentence.
    pub message: String,
    /// There is nothing to look into.
    pub is_ordinary: bool,
}

impl Reason {
    fn new(about: About, code: &'static str, message: impl Into<String>) -> Self {
        Self { about, code, message: message.into(), is_ordinary: false }
    }

    /// Nothing to look into.
    fn ordinary(self) -> Self {
        Self { is_ordinary: true, ..self }
    }
}

/// A node with what is known of its vote.
#[derive(Debug)]
pub struct ListedNode {
    /// The node.
    pub node: NodeInfo,
    /// Its reasons.
    pub reasons: Vec<Reason>,
}

impl ListedNode {
    /// Its name.
    #[must_use]
    pub fn hostname(&self) -> &str {
        &self.node.hostname
    }

    /// What is to be looked into: one text for the reasons that are not ordinary.
    #[must_use]
    pub fn notes(&self) -> String {
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        let ended = given(&self.node.availability_reason);
        let edge = given(&self.node.edge_reason).map(|reason| format!("edge: {reason}"));
        let reasons = self.reasons.iter().filter(|reason| !reason.is_ordinary);
        let sentences = reasons.map(|reason| reason.message.clone());
        sentences.chain(ended).chain(edge).collect::<Vec<_>>().join("; ")
    }
}

/// The nodes with their reasons; `voters` are as the leader knows them, none where no leader has answered.
#[must_use]
pub fn listed(nodes: Vec<NodeInfo>, voters: &[VoterProgress]) -> Vec<ListedNode> {
    let established = nodes.iter().filter(|node| node.suffrage == "voter").count();
    let has_all_voters = established >= voter_target(nodes.len());
    let reasons = |node: NodeInfo| {
        let progress = voters.iter().find(|voter| voter.node == node.hostname);
        let mut reasons = placement(&node);
        reasons.extend(quorum(&node, progress, has_all_voters));
        ListedNode { node, reasons }
    };
    nodes.into_iter().map(reasons).collect()
}

/// Whether a voter lacks entries and does not come nearer.
#[must_use]
pub fn is_stuck(voter: &VoterProgress) -> bool {
    !voter.refused.is_empty() || (voter.lag > 0 && voter.still_ms >= STILL_MS)
}

/// A number of entries of the log: `1 entry`.
#[must_use]
pub fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{number} entries") }
}

/// What keeps every new replica off the node; the codes are those of `jaco explain`.
fn placement(node: &NodeInfo) -> Vec<Reason> {
    let reason = |code, message: String| Reason::new(About::Placement, code, message);
    let because = |fact: &str, why: &str| match why {
        "" => fact.to_owned(),
        why => format!("{fact}: {why}"),
    };
    let why = node.status_reason.as_str();
    let by_status = match node.status.as_str() {
        "joining" => Some(reason(
            "not_ready",
            because("not ready: it has reported no working engine yet", why),
        )),
        "down" => Some(reason("not_ready", because("not ready: it sends no heartbeat", why))),
        "engine_down" => {
            Some(reason("engine_down", because("its container engine does not answer", why)))
        }
        "disk_full" => Some(reason("disk_full", because("a disk of it is nearly full", why))),
        // Ready, or not known.
        _ => None,
    };
    let by_operator = match node.availability.as_str() {
        "cordoned" => Some(reason("cordoned", "cordoned: it takes nothing new".to_owned())),
        "draining" => Some(reason("draining", "draining: its replicas move away".to_owned())),
        _ => None,
    };
    let no_network = (node.net == "none").then(|| {
        reason("no_network", because("no network: its router does not work", &node.net_reason))
    });
    [by_status, no_network, by_operator].into_iter().flatten().collect()
}

/// Why it does not help the quorum.
fn quorum(
    node: &NodeInfo,
    progress: Option<&VoterProgress>,
    has_all_voters: bool,
) -> Option<Reason> {
    let reason = |code, message: String| Reason::new(About::Quorum, code, message);
    match node.suffrage.as_str() {
        "voter" => voter(progress?),
        "learner" if has_all_voters => Some(
            reason("learner", "learner: the cluster has the voters that it needs".to_owned())
                .ordinary(),
        ),
        "learner" => Some(reason(
            "catching_up",
            "no voter yet: it has to keep up with the log for 2 s first".to_owned(),
        )),
        _ => Some(reason(
            "not_added",
            "the leader has not added it to the log's members yet".to_owned(),
        )),
    }
}

/// Why a voter does not help the quorum, as its leader sees it.
fn voter(progress: &VoterProgress) -> Option<Reason> {
    let reason = |code, message: String| Some(Reason::new(About::Quorum, code, message));
    if !progress.refused.is_empty() {
        let message = format!(
            "its vote does not count, the leader refuses its log: {}; run jacod rejoin on it",
            progress.refused
        );
        return reason("log_reverted", message);
    }
    match progress.last_contact_ms {
        None => {
            let message =
                "its vote does not count: it has not answered the leader since the election";
            return reason("no_contact", message.to_owned());
        }
        Some(silent) if silent >= SILENT_MS => {
            let silent = silent / 1000;
            let message =
                format!("its vote does not count: it has not answered the leader for {silent} s");
            return reason("no_contact", message);
        }
        Some(_) => {}
    }
    if is_stuck(progress) {
        let (lag, still) = (entries(progress.lag), progress.still_ms / 1000);
        let message = format!(
            "its vote does not count: its log is {lag} behind and has not moved for {still} s"
        );
        return reason("replication_stuck", message);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(hostname: &str, suffrage: &str) -> NodeInfo {
        NodeInfo {
            hostname: hostname.to_owned(),
            status: "ready".to_owned(),
            availability: "active".to_owned(),
            suffrage: suffrage.to_owned(),
            ..NodeInfo::default()
        }
    }

    fn answering(hostname: &str) -> VoterProgress {
        VoterProgress {
            node: hostname.to_owned(),
            match_index: Some(9),
            last_contact_ms: Some(40),
            ..VoterProgress::default()
        }
    }

    /// Codes and sentences of one node among three voters.
    fn reasons_of(node: NodeInfo, progress: VoterProgress) -> String {
        let others = [self::node("n8", "voter"), self::node("n9", "voter")];
        let nodes: Vec<_> = std::iter::once(node).chain(others).collect();
        let listed = listed(nodes, &[progress]);
        let reason = |reason: &Reason| {
            format!("{} {}: {}", reason.about.as_str(), reason.code, reason.message)
        };
        listed[0].reasons.iter().map(reason).collect::<Vec<_>>().join("\n")
    }

    /// R-CLI-6: a node that is in order has none.
    #[test]
    fn a_voter_that_answers_has_no_reasons() {
        assert_eq!(reasons_of(node("n1", "voter"), answering("n1")), "");
        let behind = VoterProgress { lag: 40, still_ms: 900, ..answering("n1") };
        assert_eq!(reasons_of(node("n1", "voter"), behind), "", "it catches up");
    }

    /// R-CLI-6: what keeps new replicas off it, each with the code of the planner's rule.
    #[test]
    fn placement_has_the_codes_of_the_planner() {
        let down = NodeInfo {
            status: "down".to_owned(),
            availability: "cordoned".to_owned(),
            net: "none".to_owned(),
            net_reason: "nft is missing".to_owned(),
            ..node("n1", "voter")
        };
        assert_eq!(
            reasons_of(down, answering("n1")),
            "placement not_ready: not ready: it sends no heartbeat\n\
             placement no_network: no network: its router does not work: nft is missing\n\
             placement cordoned: cordoned: it takes nothing new"
        );
        let full = NodeInfo {
            status: "disk_full".to_owned(),
            status_reason: "/ is 96% full".to_owned(),
            ..node("n1", "voter")
        };
        assert_eq!(
            reasons_of(full, answering("n1")),
            "placement disk_full: a disk of it is nearly full: / is 96% full"
        );
    }

    /// R-CLI-6, R-FAULT-1: whose vote does not count, and why.
    #[test]
    fn votes_that_do_not_count_are_named() {
        let of = |progress| reasons_of(node("n1", "voter"), progress);
        let refused = VoterProgress { refused: "entry 9 is missing".to_owned(), ..answering("n1") };
        assert_eq!(
            of(refused),
            "quorum log_reverted: its vote does not count, the leader refuses its log: entry 9 is missing; \
             run jacod rejoin on it"
        );
        let silent = VoterProgress { last_contact_ms: Some(12_300), ..answering("n1") };
        assert_eq!(
            of(silent),
            "quorum no_contact: its vote does not count: it has not answered the leader for 12 s"
        );
        let never = VoterProgress { last_contact_ms: None, ..answering("n1") };
        assert!(of(never).starts_with("quorum no_contact: "));
        let stuck = VoterProgress { lag: 1, still_ms: 11_000, ..answering("n1") };
        assert_eq!(
            of(stuck),
            "quorum replication_stuck: its vote does not count: its log is 1 entry behind and has not moved for 11 s"
        );
    }

    /// R-NODE-4: a learner that is on its way is told from one that is not needed.
    #[test]
    fn learners_are_told_apart() {
        let of = |node| reasons_of(node, answering("n8"));
        assert!(of(node("n1", "learner")).starts_with("quorum catching_up: "));
        assert!(of(node("n1", "none")).starts_with("quorum not_added: "));
        let four = ["n1", "n2", "n3"].map(|name| node(name, "voter"));
        let four: Vec<_> = four.into_iter().chain([node("n4", "learner")]).collect();
        let listed = listed(four, &[]);
        assert_eq!(listed[3].reasons[0].code, "learner");
        assert_eq!(listed[3].notes(), "", "nothing to look into");
        assert_eq!(listed[3].reasons[0].about, About::Quorum);
    }
}

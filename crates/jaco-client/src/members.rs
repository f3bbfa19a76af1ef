//! The addresses of the cluster's members, as its answers give them.

use std::any::Any;

use jaco_proto::v1;

/// The most addresses that are kept: enough that one of them answers, few enough to try them all.
const MEMBERS_MAX: usize = 16;

/// The addresses of the members that an answer lists, voters first; `None` if it lists no members.
pub(crate) fn listed_in(answer: &dyn Any) -> Option<Vec<String>> {
    let overview = answer.downcast_ref::<v1::StatusResponse>().map(|answer| &answer.nodes);
    let status = || answer.downcast_ref::<v1::ClusterStatusResponse>().map(|answer| &answer.nodes);
    let nodes = overview.or_else(status).filter(|nodes| !nodes.is_empty())?;
    let (voters, others): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|node| node.suffrage == "voter");
    let addresses = voters.into_iter().chain(others).map(|node| node.address.clone());
    Some(addresses.filter(|address| !address.is_empty()).take(MEMBERS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voters_come_first_and_not_all_are_kept() {
        let node = |number: usize| v1::NodeInfo {
            address: format!("n{number}:7000"),
            suffrage: if number >= 20 { "voter".to_owned() } else { "learner".to_owned() },
            ..Default::default()
        };
        let answer =
            v1::StatusResponse { nodes: (1..=22).map(node).collect(), ..Default::default() };
        let listed = listed_in(&answer).unwrap();
        assert_eq!(listed[..4], ["n20:7000", "n21:7000", "n22:7000", "n1:7000"]);
        assert_eq!(listed.len(), MEMBERS_MAX);
        assert_eq!(listed_in(&v1::StatusResponse::default()), None);
        assert_eq!(listed_in(&v1::ApplyResponse::default()), None);
    }
}

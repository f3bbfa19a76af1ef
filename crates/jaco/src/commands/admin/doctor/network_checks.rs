//! Checks of the packets that routers have sent each other.

use jaco_proto::v1::ExamineNetworkResponse;
use jaco_sentences::attention::Severity;
use jaco_sentences::network::{self, Trouble};

use super::finding::Findings;

/// Checks each router, and each direction between two of them.
pub(super) fn network(examined: &ExamineNetworkResponse, found: &mut Findings) {
    for router in &examined.routers {
        let name = router.node.as_str();
        if !router.problem.is_empty() {
            let message = format!("its router does not work: {}", router.problem);
            let help = format!("see NET in jaco node ls, and journalctl -u jacod-net on {name}");
            found.failing("router", name, message, help);
        }
        for from in &router.let_through {
            let message = format!(
                "its router let a packet of {from} through that its rules must drop: replicas of other networks \
                 may be reached"
            );
            let help = format!(
                "rules in the router's namespace were changed: restart jacod-net on {name}, and look for what did it"
            );
            found.failing("isolation", &format!("{from} to {name}"), message, help);
        }
    }
    for way in &examined.ways {
        if let Some(trouble) = network::trouble(way, examined.mtu) {
            let object = format!("{} to {}", way.from, way.to);
            let Trouble { severity, check, message, help } = trouble;
            match severity {
                Severity::Failing => found.failing(check, &object, message, help),
                Severity::Warning => found.warning(check, &object, message, help),
            }
        }
    }
}

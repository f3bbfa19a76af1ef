//! Checks of the packets that routers have sent each other.

use jaco_proto::v1::{ExamineNetworkResponse, ExaminedWay};

use super::finding::Findings;

/// What the tunnel adds to a packet over IPv4, in bytes.
const OVERHEAD: u32 = 60;

/// What it adds at most.
const OVERHEAD_MAX: u32 = 80;

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
        direction(way, examined.mtu, found);
    }
}

fn direction(way: &ExaminedWay, mtu: u32, found: &mut Findings) {
    let ExaminedWay { from, to, port, .. } = way;
    let object = format!("{from} to {to}");
    if !way.arrives {
        let (message, directions) = match way.one_direction {
            true => (format!("{to} hears nothing of the router of {from}"), ""),
            false => (format!("{to} does not answer the router of {from}"), ", and back"),
        };
        let help = format!("let UDP port {port} pass from {from} to {to}{directions}");
        found.failing("tunnel", &object, message, help);
    } else if !way.arrives_full {
        let message =
            format!("small packets arrive, those of {mtu} bytes do not: connections hang");
        let help = format!(
            "let the links from {from} to {to} take packets of {} bytes, or let what is between them report what it takes",
            mtu + OVERHEAD_MAX
        );
        found.failing("mtu", &object, message, help);
    } else if way.path_mtu > 0 && way.path_mtu < mtu + OVERHEAD {
        let message = format!(
            "the link takes {} bytes, so each packet of {mtu} bytes is sent in two: slower, and lost where fragments are \
             dropped",
            way.path_mtu
        );
        let help =
            format!("let the links between the two take packets of {} bytes", mtu + OVERHEAD_MAX);
        found.warning("mtu", &object, message, help);
    }
}

//! Packets between the routers of all nodes, sent now.

use jaco_proto::v1;
use jaco_store::Store;

use crate::member::Member;
use crate::service::peer::probe::probe_all;
use crate::view::ways::{ways, with_routers};

/// How long packets are sent where they are not answered, in milliseconds.
const WINDOW_MS: u32 = 1500;

/// Asks all routers at the same time.
pub(super) async fn examine(member: &Member) -> v1::ExamineNetworkResponse {
    let state = member.store.snapshot();
    let question =
        v1::ProbeRouterRequest { window_ms: WINDOW_MS, ..v1::ProbeRouterRequest::default() };
    let nodes = with_routers(&state).into_iter().map(|node| (node, question.clone()));
    let reports = probe_all(member, nodes.collect()).await;
    ways(&state, &reports)
}

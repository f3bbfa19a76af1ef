//! What the audit says of a move, or of a replica that stays. Names and form are part of the
//! interface: shares have four decimals, nodes their host names.

use std::collections::BTreeMap;

use jaco_state::ClusterState;
use jaco_types::NodeId;

use super::{Reason, Share, Weighed};

impl Weighed {
    /// The facts by name; with a reason exactly where it stays.
    #[must_use]
    pub fn payload(
        &self,
        state: &ClusterState,
        reason: Option<Reason>,
    ) -> BTreeMap<String, String> {
        let host = |id: NodeId| state.nodes.get(&id).map(|node| node.hostname.to_string());
        let (replica, service) = self
            .replica
            .as_ref()
            .map_or((None, None), |(id, service)| (Some(id.to_string()), Some(service)));
        let facts = [
            ("replica_id", replica.unwrap_or_default()),
            ("deployment", service.map(|key| key.deployment.to_string()).unwrap_or_default()),
            ("service", service.map(|key| key.service.to_string()).unwrap_or_default()),
            ("src", host(self.src).unwrap_or_default()),
            ("dst", self.dst.and_then(host).unwrap_or_default()),
            ("dominant", self.dominant.as_str().to_owned()),
            ("relief", self.relief.to_string()),
            ("score", difference(self.relief, self.move_cost)),
            ("move_cost", self.move_cost.to_string()),
            ("src_pressure_before", self.src_pressure.0.to_string()),
            ("dst_pressure_before", self.dst_pressure.0.to_string()),
            ("src_pressure_after", self.src_pressure.1.to_string()),
            ("dst_pressure_after", self.dst_pressure.1.to_string()),
        ];
        let reason = reason.map(|reason| ("reason", reason.as_str().to_owned()));
        facts.into_iter().chain(reason).map(|(name, fact)| (name.to_owned(), fact)).collect()
    }
}

fn difference(from: Share, taken: Share) -> String {
    match from >= taken {
        true => from.minus(taken).to_string(),
        false => format!("-{}", taken.minus(from)),
    }
}

//! Bounds of the audit log and of the outcomes of requests (ST-10).

use super::{Law, Violations};
use crate::audit::{IDENTITIES_MAX, KEPT_EVENTS};
use crate::requests::KEPT_REQUESTS;
use crate::state::ClusterState;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    let (events, outcomes) = (state.audit.events.len(), state.requests.outcomes.len());
    let counts = state.audit.refusals.len();
    // One count more than the bound is there until the next entry.
    if events > KEPT_EVENTS || outcomes > KEPT_REQUESTS || counts > IDENTITIES_MAX + 1 {
        let subject = format!("{events} events, {outcomes} outcomes and {counts} counts are kept");
        found.add(Law::LogBounds, subject);
    }
}

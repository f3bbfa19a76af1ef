//! NET-3: an address is not given within a minute after its holder was observed gone, whatever clocks show meanwhile.

use jaco_state::invariants::network::AddressWatch;
use jaco_store::cluster_time::SLEW;
use jaco_types::Timestamp;

use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};

/// Who has which address, followed from entry to entry.
#[derive(Debug, Default)]
pub(super) struct Quarantined(AddressWatch);

impl Invariant for Quarantined {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        // The cluster's time may pass faster than the true time, by one part in so many.
        let at = Timestamp(step.appended.0 + step.appended.0 / SLEW);
        let found = self.0.follow(&facts.state, at).into_iter().next();
        found.map_or(Ok(()), |violation| Err(InvariantViolation::State(violation)))
    }

    fn time_begins_anew(&mut self) {
        self.0 = AddressWatch::default();
    }
}

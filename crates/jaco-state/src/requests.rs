//! Outcomes of recent writes by request id, so that a retry gets the first answer and does nothing
//! again (R-CLI-9).

use jaco_types::{RequestId, StateIndex};

use crate::command::Outcome;
use crate::table::Table;

/// How many outcomes are kept. A retry comes within seconds; at 1,000 operator writes a second this
/// is 16 s, and about 4 MB.
pub const KEPT_REQUESTS: usize = 16_384;

/// The outcomes of the most recent writes that named a request id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestLog {
    /// The outcome of each.
    pub outcomes: Table<RequestId, Outcome>,
    /// The same requests by age, so that the oldest go first.
    pub order: Table<StateIndex, RequestId>,
}

impl RequestLog {
    /// The outcome that this request had.
    #[must_use]
    pub fn outcome(&self, request: &RequestId) -> Option<&Outcome> {
        self.outcomes.get(request)
    }

    pub(crate) fn record(&mut self, index: StateIndex, request: RequestId, outcome: Outcome) {
        self.outcomes.insert(request.clone(), outcome);
        self.order.insert(index, request);
        while self.order.len() > KEPT_REQUESTS {
            if let Some((_, oldest)) = self.order.pop_first() {
                self.outcomes.remove(&oldest);
            }
        }
    }
}

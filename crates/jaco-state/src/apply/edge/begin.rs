//! That all members understand routes, drain times, published ports and certificates.

use jaco_types::{ErrorCode, Rejection};

use crate::command::{Entry, Outcome};
use crate::state::ClusterState;

/// Notes the entry. The same command again changes nothing.
pub(in crate::apply) fn begin(state: &mut ClusterState, entry: &Entry) -> Outcome {
    state.edges.begun.get_or_insert(entry.index);
    Outcome::Done
}

/// Refuses what members of older versions would not understand.
///
/// # Errors
/// `members_outdated` until [`begin`].
pub(super) fn check(state: &ClusterState) -> Result<(), Rejection> {
    match state.edges.begun {
        Some(_) => Ok(()),
        None => {
            let message = "routes, drain times, ports that every node answers and certificates are for \
                           clusters whose members all know them";
            Err(Rejection::new(ErrorCode::MembersOutdated, message))
        }
    }
}

//! Events of what a member did itself at a person's word, without a command of its own.

use std::collections::BTreeMap;

use jaco_state::Command;
use jaco_state::audit::AuditKind;
use jaco_store::Proposal;
use jaco_types::{Author, Identity, Rejection};

use crate::member::Member;
use crate::status::from_propose_error;

/// Writes one event, and returns once it is agreed on. A member passes on only what it says itself, so
/// one that does not lead names who asked in the event.
///
/// # Errors
/// Why it could not be agreed on.
pub(super) async fn note(
    member: &Member,
    by: Author,
    kind: AuditKind,
    mut payload: BTreeMap<String, String>,
) -> Result<(), Rejection> {
    let Author { mut by, origin } = by;
    if !member.store.leads() {
        payload.insert("asked_by".to_owned(), by.to_string());
        by = Identity::Node { id: member.id };
    }
    let command = Command::AuditNote { kind, payload };
    let proposal = Proposal { by, request: None, command };
    let noted = member.store.propose_from(proposal, origin).await;
    noted.map_err(|error| from_propose_error(&error))?;
    Ok(())
}

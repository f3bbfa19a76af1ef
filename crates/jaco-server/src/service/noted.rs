//! Events of what a member does itself at a person's word, without a command of its own.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::Command;
use jaco_state::audit::AuditKind;
use jaco_types::{Author, Rejection};

use crate::member::{Member, Write, name_if_unnamed};
use crate::status::invalid;

/// Writes one event in the name of whoever asked, and returns once it is agreed on.
///
/// # Errors
/// Why it could not be agreed on.
pub(super) async fn note(
    member: &Member,
    by: Author,
    kind: AuditKind,
    payload: BTreeMap<String, String>,
) -> Result<(), Rejection> {
    let note = v1::NoteRequest {
        kind: kind.number(),
        payload: payload.into_iter().collect(),
        request_id: String::new(),
    };
    member.write(by, note).await.map(drop)
}

/// Passed on between members only: no service takes it from a person.
#[async_trait]
impl Write for v1::NoteRequest {
    const METHOD: &'static str = "/jaco.v1.Peer/Note";
    type Answer = v1::NoteResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(self, member: &Member, by: Author) -> Result<v1::NoteResponse, Rejection> {
        let kind = AuditKind::from_number(self.kind)
            .ok_or_else(|| invalid(format!("{} is no kind of event", self.kind)))?;
        let payload = self.payload.into_iter().collect();
        let command = Command::AuditNote { kind, payload };
        member.commit(by, &self.request_id, command).await?;
        Ok(v1::NoteResponse {})
    }
}

//! Audits operator actions that have no command of their own: a backup, an exec.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::audit::AuditKind;
use jaco_state::command::AuditNote;
use jaco_types::{Author, Rejection};

use crate::forward::{self, Write};
use crate::member::Member;
use crate::status::invalid;

/// Writes one audit event in the name of the operator, and returns once it is committed.
///
/// # Errors
/// Why it could not be committed.
pub(super) async fn audit(
    member: &Member,
    by: Author,
    kind: AuditKind,
    payload: BTreeMap<String, String>,
) -> Result<(), Rejection> {
    let event = v1::AuditActionRequest {
        kind: kind.number(),
        payload: payload.into_iter().collect(),
        request_id: String::new(),
    };
    forward::write(member, by, event).await.map(drop)
}

#[async_trait]
impl Write for v1::AuditActionRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::AuditActionResponse, Rejection> {
        let kind = AuditKind::from_number(self.kind)
            .ok_or_else(|| invalid(format!("{} is no kind of audit event", self.kind)))?;
        let payload = self.payload.into_iter().collect();
        let command = AuditNote::new(kind, payload).into();
        member.commit(by, &self.request_id, command).await?;
        Ok(v1::AuditActionResponse {})
    }
}

//! Retention of audit events.

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::audit::KEPT_EVENTS;
use jaco_state::command::AuditRetention;
use jaco_types::{Author, ErrorCode, Millis, Rejection, Role};

use crate::auth::permission::Concern;
use crate::forward::Write;
use crate::member::Member;

#[async_trait]
impl Write for v1::SetAuditRetentionRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetAuditRetentionResponse, Rejection> {
        let known = || member.store.read(|state| state.audit.retention);
        if self.age_ms > 0 {
            member.admit(&by, [Concern::Role(Role::Admin)])?;
            if known().is_none() {
                let message = "the retention cannot be set while nodes run different versions: upgrade \
                               all nodes, then try again";
                return Err(Rejection::new(ErrorCode::Unavailable, message));
            }
            let command = AuditRetention::new(Millis(self.age_ms)).into();
            member.commit(by, &self.request_id, command).await?;
        }
        let age_ms = known().map_or(0, |retention| retention.age.0);
        let events_max = u64::try_from(KEPT_EVENTS).unwrap_or(u64::MAX);
        Ok(v1::SetAuditRetentionResponse { age_ms, events_max })
    }
}

//! How long audit events are kept.

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::Command;
use jaco_state::audit::KEPT_EVENTS;
use jaco_types::{Author, ErrorCode, Millis, Rejection};

use crate::member::{Member, Write, name_if_unnamed};

#[async_trait]
impl Write for v1::SetAuditRetentionRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/SetAuditRetention";
    type Answer = v1::SetAuditRetentionResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetAuditRetentionResponse, Rejection> {
        let known = || member.store.read(|state| state.audit.retention);
        if self.age_ms > 0 {
            if known().is_none() {
                let message = "an age cannot be set yet: the leader sets the first one once all \
                               nodes run its version";
                return Err(Rejection::new(ErrorCode::Unavailable, message));
            }
            let command = Command::AuditRetention { age: Millis(self.age_ms) };
            member.commit(by, &self.request_id, command).await?;
        }
        let age_ms = known().map_or(0, |retention| retention.age.0);
        let events_max = u64::try_from(KEPT_EVENTS).unwrap_or(u64::MAX);
        Ok(v1::SetAuditRetentionResponse { age_ms, events_max })
    }
}

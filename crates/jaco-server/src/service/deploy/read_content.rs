//! The content of a named config or secret, for a user who edits it (ADR 0145). It leaves the cluster in clear text, so an
//! audit event is written before.

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::audit::AuditKind;
use jaco_store::Store;
use jaco_types::{Author, Rejection};

use super::named;
use crate::auth::cluster_key::cluster_meta;
use crate::forward::Write;
use crate::member::Member;
use crate::opened::Opener;
use crate::service::audit_action::audit;
use crate::service::upgraded::reads_may_be_audited;

#[async_trait]
impl Write for v1::ReadContentRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::ReadContentResponse, Rejection> {
        let key = named::key(&self.kind, &self.name)?;
        member.store.read(reads_may_be_audited)?;
        let state = member.store.snapshot();
        let stored = state.named.get(&key).ok_or_else(|| named::not_found(&key))?;
        let opener =
            Opener { key: &member.cluster_key, state: &state, meta: cluster_meta(&state)? };
        let content = opener.named(&key, stored)?;
        let facts = [
            ("kind", key.kind.as_str().to_owned()),
            ("name", key.name.to_string()),
            ("version", stored.version.to_string()),
        ];
        let facts = facts.map(|(fact, value)| (fact.to_owned(), value)).into();
        audit(member, by, AuditKind::ContentRead, facts).await?;
        Ok(v1::ReadContentResponse { content: content.into(), version: stored.version })
    }
}

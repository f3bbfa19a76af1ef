//! The actions on named configs and secrets that need no content.

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    ContentInfo, ContentUsers, ListContentsRequest, RemoveContentRequest, StoreContentRequest,
};
use jaco_types::{ErrorCode, NamedKind};
use serde_json::json;

use crate::error::CliError;
use crate::format::yaml::to_yaml;
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, content};

/// Sets which deployments may use a secret.
pub(super) async fn allow(
    session: &mut Session,
    name: String,
    users: ContentUsers,
) -> CommandResult {
    let kind = NamedKind::Secret.as_str();
    let shown = content::users_text(&users);
    let request = StoreContentRequest {
        kind: kind.to_owned(),
        name: name.clone(),
        request_id: fresh_request_id(),
        users: Some(users.clone()),
        ..StoreContentRequest::default()
    };
    session.client()?.store_content(request).await?;
    let json = json!({ "kind": kind, "name": name, "for": content::users_json(&users) });
    session.done(&Summary { json, text: format!("secret {name} is for {shown}\n") })
}

pub(super) async fn list(session: &mut Session, kind: NamedKind) -> CommandResult {
    let request = ListContentsRequest { kind: kind.as_str().to_owned() };
    let listed = session.client()?.list_contents(request).await?;
    session.done(&List { items: &listed.contents, json: content::json, text: content::table })
}

pub(super) async fn get(session: &mut Session, kind: NamedKind, name: &str) -> CommandResult {
    let json = content::json(&find(session, kind, name).await?);
    let text = to_yaml(&json);
    session.done(&Summary { json, text })
}

/// A content as it is listed.
///
/// # Errors
/// `content_not_found` if there is none of this name.
pub(super) async fn find(
    session: &mut Session,
    kind: NamedKind,
    name: &str,
) -> Result<ContentInfo, CliError> {
    let request = ListContentsRequest { kind: kind.as_str().to_owned() };
    let listed = session.client()?.list_contents(request).await?;
    let found = listed.contents.into_iter().find(|content| content.name == name);
    found.ok_or_else(|| CliError::Refused {
        code: ErrorCode::ContentNotFound,
        message: format!("there is no {kind} {name}", kind = kind.as_str()),
        help: None,
    })
}

pub(super) async fn remove(session: &mut Session, kind: NamedKind, name: String) -> CommandResult {
    let kind = kind.as_str();
    let request_id = fresh_request_id();
    let request = RemoveContentRequest { kind: kind.to_owned(), name: name.clone(), request_id };
    session.client()?.remove_content(request).await?;
    let json = json!({ "kind": kind, "name": name, "outcome": "removed" });
    session.done(&Summary { json, text: format!("{kind} {name} removed\n") })
}

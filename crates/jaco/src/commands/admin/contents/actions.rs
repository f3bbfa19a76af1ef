//! The actions on named configs and secrets. A content is read from a file or stdin, never from the
//! command line, which other users of the machine can see; and it is never printed.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    ContentUsers, ListContentsRequest, RemoveContentRequest, StoreContentRequest,
};
use jaco_types::{ErrorCode, NamedKind};
use serde_json::json;

use crate::error::CliError;
use crate::format::yaml::to_yaml;
use crate::manifest::disk::STDIN;
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, content};

/// The maximum size of a content.
const CONTENT_BYTES_MAX: u64 = 1 << 20;

pub(super) async fn set(
    session: &mut Session,
    kind: NamedKind,
    name: String,
    file: Option<PathBuf>,
    users: Option<ContentUsers>,
) -> CommandResult {
    let content = read(kind, file.as_deref().filter(|path| *path != Path::new(STDIN)))?;
    let kind = kind.as_str();
    let request = StoreContentRequest {
        kind: kind.to_owned(),
        name: name.clone(),
        content: content.into(),
        request_id: fresh_request_id(),
        users,
    };
    let stored = session.client()?.store_content(request).await?;
    let version = stored.version;
    let json = json!({ "kind": kind, "name": name, "version": version });
    session.done(&Summary { json, text: format!("{kind} {name} stored as version {version}\n") })
}

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
    let request = ListContentsRequest { kind: kind.as_str().to_owned() };
    let listed = session.client()?.list_contents(request).await?;
    let found = listed.contents.iter().find(|content| content.name == name);
    let json = content::json(found.ok_or_else(|| CliError::Refused {
        code: ErrorCode::ContentNotFound,
        message: format!("there is no {kind} {name}", kind = kind.as_str()),
        help: None,
    })?);
    let text = to_yaml(&json);
    session.done(&Summary { json, text })
}

pub(super) async fn remove(session: &mut Session, kind: NamedKind, name: String) -> CommandResult {
    let kind = kind.as_str();
    let request_id = fresh_request_id();
    let request = RemoveContentRequest { kind: kind.to_owned(), name: name.clone(), request_id };
    session.client()?.remove_content(request).await?;
    let json = json!({ "kind": kind, "name": name, "outcome": "removed" });
    session.done(&Summary { json, text: format!("{kind} {name} removed\n") })
}

/// Reads a content. An empty one is taken for a mistake.
fn read(kind: NamedKind, file: Option<&Path>) -> Result<Vec<u8>, CliError> {
    let kind = kind.as_str();
    let mut content = Vec::new();
    let (source, read) = match file {
        Some(path) => {
            let read = File::open(path)
                .and_then(|file| file.take(CONTENT_BYTES_MAX + 1).read_to_end(&mut content));
            (path.display().to_string(), read)
        }
        None if io::stdin().is_terminal() => {
            let help = format!("give a file, or pipe it in: … | jaco {kind} set NAME");
            return Err(CliError::usage(format!("no content is given for the {kind}"), help));
        }
        None => {
            let read = io::stdin().take(CONTENT_BYTES_MAX + 1).read_to_end(&mut content);
            ("stdin".to_owned(), read)
        }
    };
    read.map_err(|error| CliError::local(format!("cannot read {source}"), error))?;
    if content.is_empty() {
        return Err(CliError::usage(
            format!("{source} is empty"),
            format!("a {kind} has at least one byte: give the file that holds it"),
        ));
    }
    if content.len() as u64 > CONTENT_BYTES_MAX {
        return Err(CliError::usage(
            format!("{source} has more than 1 MiB"),
            format!("a stored {kind} has at most 1 MiB"),
        ));
    }
    Ok(content)
}

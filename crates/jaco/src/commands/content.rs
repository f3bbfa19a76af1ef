//! What `jaco secret` and `jaco configs` do alike. A content is read from a file or stdin, never from
//! the command line, which other users of the machine can see; and it is never printed.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ListContentsRequest, RemoveContentRequest, StoreContentRequest};
use jaco_types::NamedKind;
use serde_json::json;

use super::{Context, Done};
use crate::disk::STDIN;
use crate::error::CliError;
use crate::view::{List, Said, content};

/// The most bytes of a content.
const CONTENT_BYTES_MAX: u64 = 1 << 20;

pub(super) async fn create(
    context: &mut Context,
    kind: NamedKind,
    name: String,
    file: Option<PathBuf>,
) -> Done {
    let content = read(kind, file.as_deref().filter(|path| *path != Path::new(STDIN)))?;
    let kind = kind.as_str();
    let request = StoreContentRequest {
        kind: kind.to_owned(),
        name: name.clone(),
        content: content.into(),
        request_id: fresh_request_id(),
    };
    let stored = context.client()?.store_content(request).await?;
    let version = stored.version;
    let json = json!({ "kind": kind, "name": name, "version": version });
    context.done(&Said { json, text: format!("{kind} {name} is version {version}\n") })
}

pub(super) async fn list(context: &mut Context, kind: NamedKind) -> Done {
    let request = ListContentsRequest { kind: kind.as_str().to_owned() };
    let listed = context.client()?.list_contents(request).await?;
    context.done(&List { items: &listed.contents, json: content::json, text: content::table })
}

pub(super) async fn remove(context: &mut Context, kind: NamedKind, name: String) -> Done {
    let kind = kind.as_str();
    let request_id = fresh_request_id();
    let request = RemoveContentRequest { kind: kind.to_owned(), name: name.clone(), request_id };
    context.client()?.remove_content(request).await?;
    let json = json!({ "kind": kind, "name": name, "outcome": "removed" });
    context.done(&Said { json, text: format!("{kind} {name} removed\n") })
}

/// Reads a content; nothing at all is taken for a mistake.
fn read(kind: NamedKind, file: Option<&Path>) -> Result<Vec<u8>, CliError> {
    let kind = kind.as_str();
    let mut content = Vec::new();
    let (from, read) = match file {
        Some(path) => {
            let read = File::open(path)
                .and_then(|file| file.take(CONTENT_BYTES_MAX + 1).read_to_end(&mut content));
            (path.display().to_string(), read)
        }
        None if io::stdin().is_terminal() => {
            let help = format!("name a file, or pipe it in: … | jaco {} create NAME", word(kind));
            return Err(CliError::usage(format!("the {kind} has no content yet"), help));
        }
        None => {
            let read = io::stdin().take(CONTENT_BYTES_MAX + 1).read_to_end(&mut content);
            ("stdin".to_owned(), read)
        }
    };
    read.map_err(|error| CliError::local(format!("cannot read {from}"), error))?;
    if content.is_empty() {
        return Err(CliError::usage(
            format!("nothing came from {from}"),
            format!("a {kind} has at least one byte: name the file that holds it"),
        ));
    }
    if content.len() as u64 > CONTENT_BYTES_MAX {
        return Err(CliError::usage(
            format!("{from} has more than 1 MiB"),
            format!("a {kind} that the cluster keeps has at most 1 MiB"),
        ));
    }
    Ok(content)
}

/// The command of a kind.
fn word(kind: &str) -> &str {
    if kind == "config" { "configs" } else { kind }
}

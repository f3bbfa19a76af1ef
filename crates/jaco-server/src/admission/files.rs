//! The uploaded files of a manifest: their versions, and the content chunks that they consist of. Only stored chunks
//! count, never what a client claims about its files.

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::tree::FileTree;
use jaco_compose::{Contents, Project, UploadKind, UploadSource};
use jaco_pki::sealed::OVERHEAD_BYTES;
use jaco_proto::v1;
use jaco_state::contents::{Form, NamedContent};
use jaco_state::{Content, Table};
use jaco_types::{ContentId, ContentName, ErrorCode, NamedKey, NamedKind, Rejection};

use crate::status::invalid;

/// Default maximum of the total size of a deployment's files.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A request with the contents of its external configs and secrets filled in.
pub(super) struct Named {
    pub(super) request: v1::ApplyRequest,
    /// The named contents that it refers to.
    pub(super) keys: BTreeSet<NamedKey>,
}

/// Resolves external configs and secrets to the newest named content. Contents that the request already has are
/// kept: they are those of an earlier apply.
///
/// # Errors
/// `content_not_found` with all that do not exist, or `invalid_manifest` for an invalid name.
pub(super) fn named(
    project: &Project,
    request: &v1::ApplyRequest,
    stored: &Table<NamedKey, NamedContent>,
) -> Result<Named, Rejection> {
    let mut found = Named { request: request.clone(), keys: BTreeSet::new() };
    let mut absent = Vec::new();
    for item in project.upload_items() {
        let UploadSource::External(name) = &item.source else { continue };
        let (kind, sent) = match item.kind {
            UploadKind::Bind(_) => continue,
            UploadKind::Config => (NamedKind::Config, &mut found.request.configs),
            UploadKind::Secret => (NamedKind::Secret, &mut found.request.secrets),
        };
        let name = ContentName::new(name).map_err(|error| {
            Rejection::new(ErrorCode::InvalidManifest, format!("{}: {error}", item.name))
        })?;
        let key = NamedKey { kind, name };
        if !sent.iter().any(|files| files.name == item.name) {
            match stored.get(&key) {
                Some(named) => sent.push(v1::FileUpload {
                    name: item.name.clone(),
                    tree: named.tree.0.to_vec().into(),
                }),
                None => absent.push(key.to_string()),
            }
        }
        found.keys.insert(key);
    }
    if absent.is_empty() {
        return Ok(found);
    }
    let message = format!(
        "there is no {}: create it with `jaco config set` or `jaco secret set`",
        absent.join(" and no ")
    );
    Err(Rejection::new(ErrorCode::ContentNotFound, message).with("absent", absent.join(", ")))
}

/// The versions of a project's files, by the ids that the client sent.
///
/// # Errors
/// When a config or secret has none.
pub(super) fn versions(
    project: &Project,
    request: &v1::ApplyRequest,
) -> Result<Contents, Rejection> {
    let contents = Contents {
        binds: by_name(&request.binds)?,
        configs: by_name(&request.configs)?,
        secrets: by_name(&request.secrets)?,
    };
    for item in project.upload_items() {
        let (what, sent) = match item.kind {
            // One that was not uploaded is a host path on the node.
            UploadKind::Bind(_) => continue,
            UploadKind::Config => ("config", &contents.configs),
            UploadKind::Secret => ("secret", &contents.secrets),
        };
        if sent.contains_key(&item.name) {
            continue;
        }
        let name = &item.name;
        let message = format!(
            "the content of {what} {name:?} was not uploaded: apply with the jaco command of this \
                     version"
        );
        return Err(Rejection::new(ErrorCode::InvalidManifest, message));
    }
    Ok(contents)
}

fn by_name(shipped: &[v1::FileUpload]) -> Result<BTreeMap<String, String>, Rejection> {
    let version = |files: &v1::FileUpload| Ok((files.name.clone(), id(&files.tree)?.to_string()));
    shipped.iter().map(version).collect()
}

/// Parses a content id.
///
/// # Errors
/// `invalid_request` if it is invalid.
pub(crate) fn id(bytes: &[u8]) -> Result<ContentId, Rejection> {
    let id = <[u8; 32]>::try_from(bytes).map(ContentId);
    id.map_err(|_| invalid(format!("a content id has 32 bytes, not {}", bytes.len())))
}

/// All content chunks of the files of a request, by the stored lists.
///
/// # Errors
/// `content_missing` with those that are not stored, `too_large`, or `invalid_request` for a malformed list.
pub(super) fn pieces(
    request: &v1::ApplyRequest,
    stored: &Table<ContentId, Content>,
) -> Result<BTreeSet<ContentId>, Rejection> {
    let mut found = Found::default();
    for (shipped, form) in [
        (&request.binds, Form::Plain),
        (&request.configs, Form::Plain),
        (&request.secrets, Form::Sealed),
    ] {
        for files in shipped {
            found.add(files, form, stored)?;
        }
    }
    let missing: Vec<String> = found.missing.iter().map(ToString::to_string).collect();
    if !missing.is_empty() {
        let message = format!(
            "{} content chunks of the deployment's files are not stored: apply again to upload them",
            missing.len()
        );
        return Err(Rejection::new(ErrorCode::ContentMissing, message)
            .with("missing", missing[..missing.len().min(100)].join(" ")));
    }
    let limit = if request.max_file_bytes == 0 { FILE_BYTES_MAX } else { request.max_file_bytes };
    if found.bytes > limit {
        let message = format!(
            "the deployment's files have {} bytes, more than the maximum of {limit}: raise it with \
                 --max-files",
            found.bytes
        );
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    Ok(found.pieces)
}

/// The chunks found so far.
#[derive(Default)]
struct Found {
    pieces: BTreeSet<ContentId>,
    missing: BTreeSet<ContentId>,
    bytes: u64,
}

impl Found {
    fn add(
        &mut self,
        files: &v1::FileUpload,
        form: Form,
        stored: &Table<ContentId, Content>,
    ) -> Result<(), Rejection> {
        let tree_id = id(&files.tree)?;
        let Some(text) = stored.get(&tree_id) else {
            self.missing.insert(tree_id);
            return Ok(());
        };
        let tree = FileTree::parse(&text.bytes.0).map_err(|error| {
            invalid(format!("the file list of {:?} is malformed: {error}", files.name))
        })?;
        self.pieces.insert(tree_id);
        for piece in tree.pieces() {
            match stored.get(&piece) {
                // As a plain file, the content of a secret could be read.
                Some(content) if content.form != form => {
                    let message = format!(
                        "the file list of {:?} refers to a content of another kind: a secret cannot be used \
                                 as a plain file, or the reverse",
                        files.name
                    );
                    return Err(Rejection::new(ErrorCode::PermissionDenied, message));
                }
                Some(content) => {
                    self.pieces.insert(piece);
                    self.bytes += plain_bytes(content);
                }
                None => drop(self.missing.insert(piece)),
            }
        }
        Ok(())
    }
}

/// The size of a chunk in clear text.
fn plain_bytes(content: &Content) -> u64 {
    let stored = content.bytes.0.len();
    let bytes = match content.form {
        Form::Plain => stored,
        Form::Sealed => stored.saturating_sub(OVERHEAD_BYTES),
    };
    bytes as u64
}

#[cfg(test)]
mod tests {
    use jaco_compose::from_model;
    use jaco_state::contents::{Hold, PieceBytes};

    use super::*;

    fn stored(rows: &[(u8, Form, &[u8])]) -> Table<ContentId, Content> {
        let row = |(number, form, bytes): &(u8, Form, &[u8])| {
            let bytes = PieceBytes((*bytes).into());
            (ContentId([*number; 32]), Content { bytes, form: *form, hold: Hold::Kept })
        };
        rows.iter().map(row).collect()
    }

    fn shipped(name: &str, tree: u8) -> v1::FileUpload {
        v1::FileUpload { name: name.to_owned(), tree: vec![tree; 32].into() }
    }

    fn tree(pieces: &[u8]) -> Vec<u8> {
        let pieces = pieces.iter().map(|number| ContentId([*number; 32])).collect();
        FileTree::of_file(0o644, 3, pieces).text().into_bytes()
    }

    /// R-IN-4: the revision refers to every chunk; missing ones are named in the refusal.
    #[test]
    fn chunks_are_read_from_the_stored_lists() {
        let tree = tree(&[1, 2]);
        let request = v1::ApplyRequest { binds: vec![shipped("a", 9)], ..Default::default() };
        let all =
            stored(&[(9, Form::Plain, &tree), (1, Form::Plain, b"x"), (2, Form::Plain, b"y")]);
        let ids = |numbers: &[u8]| numbers.iter().map(|number| ContentId([*number; 32])).collect();
        assert_eq!(pieces(&request, &all), Ok(ids(&[1, 2, 9])));
        let some = stored(&[(9, Form::Plain, &tree), (1, Form::Plain, b"x")]);
        let refused = pieces(&request, &some).unwrap_err();
        assert_eq!(refused.code, ErrorCode::ContentMissing);
        assert_eq!(refused.details["missing"], "02".repeat(32));
        let request = v1::ApplyRequest { max_file_bytes: 1, ..request };
        assert_eq!(pieces(&request, &all).unwrap_err().code, ErrorCode::TooLarge);
        let none = stored(&[(9, Form::Plain, b"{}")]);
        assert_eq!(pieces(&request, &none).unwrap_err().code, ErrorCode::InvalidRequest);
    }

    /// R-IN-5: a sealed chunk cannot be a plain file, nor a plain one a secret.
    #[test]
    fn a_secret_cannot_be_mounted_as_a_file() {
        let tree = tree(&[1]);
        let secret = stored(&[(9, Form::Plain, &tree), (1, Form::Sealed, b"sealed")]);
        let plain = stored(&[(9, Form::Plain, &tree), (1, Form::Plain, b"plain")]);
        let bind = v1::ApplyRequest { binds: vec![shipped("a", 9)], ..Default::default() };
        let hidden = v1::ApplyRequest { secrets: vec![shipped("s", 9)], ..Default::default() };
        assert_eq!(pieces(&bind, &secret).unwrap_err().code, ErrorCode::PermissionDenied);
        assert_eq!(pieces(&hidden, &plain).unwrap_err().code, ErrorCode::PermissionDenied);
        assert!(pieces(&hidden, &secret).is_ok() && pieces(&bind, &plain).is_ok());
    }

    /// R-IN-5: a secret that was not uploaded is refused by name before anything starts.
    #[test]
    fn a_secret_without_content_is_refused() {
        let check = |secret: &str, request: &v1::ApplyRequest| {
            let model = format!(
                r#"{{"name":"shop","services":{{"web":{{"image":"i","secrets":[{{"source":"s"}}]}}}},"secrets":{{"s":{secret}}}}}"#
            );
            versions(&from_model(model.as_bytes()).unwrap(), request).map(|sent| sent.secrets)
        };
        let nothing = v1::ApplyRequest::default();
        let said = |secret| check(secret, &nothing).unwrap_err().message;
        assert!(said(r#"{"file":"s.txt"}"#).contains("\"s\" was not uploaded"));
        let sent = v1::ApplyRequest { secrets: vec![shipped("s", 9)], ..Default::default() };
        let version = ("s".to_owned(), "09".repeat(32));
        assert_eq!(check(r#"{"file":"s.txt"}"#, &sent), Ok([version].into()));
    }

    /// R-IN-5: external configs and secrets resolve to the newest content; all missing ones are named.
    #[test]
    fn external_contents_resolve_to_the_newest() {
        let row = |kind, name: &str, tree: u8| {
            let key = NamedKey { kind, name: ContentName::new(name).unwrap() };
            let named = NamedContent {
                version: 1,
                tree: ContentId([tree; 32]),
                pieces: BTreeSet::new(),
                size: 1,
                stored_at: jaco_types::Timestamp(0),
                users: jaco_state::contents::ContentUsers::All,
                expires_at: None,
                former: BTreeMap::new(),
            };
            (key, named)
        };
        let all: Table<_, _> =
            [row(NamedKind::Config, "rates", 1), row(NamedKind::Secret, "db.key", 2)]
                .into_iter()
                .collect();
        let model = r#"{"name":"shop","services":{"web":{"image":"i",
            "configs":[{"source":"rates"}],"secrets":[{"source":"key"}]}},
            "configs":{"rates":{"external":true}},
            "secrets":{"key":{"external":true,"name":"db.key"}}}"#;
        let project = from_model(model.as_bytes()).unwrap();
        let found = |request: &v1::ApplyRequest, stored: &Table<_, _>| {
            named(&project, request, stored).map(|found| {
                let trees = |files: &[v1::FileUpload]| {
                    files.iter().map(|files| (files.name.clone(), files.tree[0])).collect()
                };
                let names: Vec<String> = found.keys.iter().map(ToString::to_string).collect();
                let configs: Vec<(String, u8)> = trees(&found.request.configs);
                let secrets: Vec<(String, u8)> = trees(&found.request.secrets);
                (names.join(", "), configs, secrets)
            })
        };
        let nothing = v1::ApplyRequest::default();
        let names = r#"config "rates", secret "db.key""#.to_owned();
        let rates = vec![("rates".to_owned(), 1)];
        let key = |tree| vec![("key".to_owned(), tree)];
        assert_eq!(found(&nothing, &all), Ok((names.clone(), rates.clone(), key(2))));
        let sent = v1::ApplyRequest { secrets: vec![shipped("key", 9)], ..Default::default() };
        assert_eq!(found(&sent, &all), Ok((names, rates, key(9))), "as it was applied before");
        let refused = found(&nothing, &Table::default()).unwrap_err();
        assert_eq!(refused.code, ErrorCode::ContentNotFound);
        assert_eq!(refused.details["absent"], r#"config "rates", secret "db.key""#);
    }
}

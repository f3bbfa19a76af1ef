//! Uploads the pieces that the cluster does not have. Secrets go first and one by one: only the cluster
//! can compute their ids.

use std::collections::BTreeMap;

use jaco_client::Client;
use jaco_compose::tree::FileTree;
use jaco_proto::v1::{ApplyRequest, FileUpload};
use jaco_types::ContentId;
use sha2::{Digest, Sha256};

use super::load::Upload;
use super::pieces::{PieceSender, UploadMode, missing, put_secret};
use crate::error::CliError;
use crate::format::quantity::{count, size};
use crate::output::Stream;
use crate::session::Session;

/// The ids of uploaded files, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UploadedFiles {
    binds: Vec<FileUpload>,
    configs: Vec<FileUpload>,
    secrets: Vec<FileUpload>,
}

impl UploadedFiles {
    /// Puts the ids into a request.
    pub(crate) fn fill(self, request: &mut ApplyRequest) {
        request.binds = self.binds;
        request.configs = self.configs;
        request.secrets = self.secrets;
    }
}

/// Uploads the missing pieces.
///
/// # Errors
/// The refusal of the cluster, or a lost connection.
pub(crate) async fn send(
    session: &mut Session,
    upload: &Upload,
    mode: UploadMode,
) -> Result<UploadedFiles, CliError> {
    let mut uploaded = UploadedFiles {
        binds: with_ids(&upload.binds),
        configs: with_ids(&upload.configs),
        ..UploadedFiles::default()
    };
    if upload.pieces.is_empty() && upload.secrets.is_empty() {
        return Ok(uploaded);
    }
    let client = session.client()?;
    let (secrets, lists) = send_secrets(&client, upload, mode).await?;
    uploaded.secrets = with_ids(&secrets);
    if mode == UploadMode::DryRun {
        return Ok(uploaded);
    }
    let all = || upload.pieces.iter().chain(&lists);
    let missing = missing(&client, all().map(|(id, _)| *id)).await?;
    let pieces: Vec<&Vec<u8>> =
        all().filter(|(id, _)| missing.contains(id)).map(|(_, bytes)| bytes).collect();
    send_pieces(session, &client, &pieces).await?;
    Ok(uploaded)
}

fn with_ids(ids: &BTreeMap<String, ContentId>) -> Vec<FileUpload> {
    let files = |(name, id): (&String, &ContentId)| FileUpload {
        name: name.clone(),
        tree: id.0.to_vec().into(),
    };
    ids.iter().map(files).collect()
}

type Lists = BTreeMap<ContentId, Vec<u8>>;

/// Uploads the secrets. Returns the ids of their lists of files by name, and the texts of these lists.
async fn send_secrets(
    client: &Client,
    upload: &Upload,
    mode: UploadMode,
) -> Result<(BTreeMap<String, ContentId>, Lists), CliError> {
    let (mut secrets, mut lists) = (BTreeMap::new(), Lists::new());
    for (name, content) in &upload.secrets {
        let piece = put_secret(client, content.clone().into(), mode).await?;
        let piece = piece.ok_or_else(|| {
            let source = std::io::Error::from(std::io::ErrorKind::InvalidData);
            CliError::local("the cluster returned no id for a secret", source)
        })?;
        // An empty secret has one piece too: its list must not reveal that it is empty.
        let tree = FileTree::of_file(0o444, content.len() as u64, vec![piece]);
        let text = tree.text().into_bytes();
        let id = ContentId(Sha256::digest(&text).into());
        secrets.insert(name.clone(), id);
        lists.insert(id, text);
    }
    Ok((secrets, lists))
}

async fn send_pieces(
    session: &mut Session,
    client: &Client,
    pieces: &[&Vec<u8>],
) -> Result<(), CliError> {
    if pieces.is_empty() {
        return Ok(());
    }
    let total: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    let what = count(pieces.len(), "piece");
    session.ui.note(&format!("uploading {what} of files, {}", size(total)));
    let mut sender = PieceSender::new(client);
    for piece in pieces {
        let before = sender.sent_bytes();
        sender.put((*piece).clone().into()).await?;
        if sender.sent_bytes() > before {
            draw(session, &[format!("uploaded {} of {}", size(sender.sent_bytes()), size(total))])?;
        }
    }
    sender.finish().await?;
    draw(session, &[])
}

/// Shows the progress on a terminal.
fn draw(session: &mut Session, lines: &[String]) -> Result<(), CliError> {
    if session.ui.is_terminal(Stream::Err) {
        session.ui.draw(Stream::Err, lines).map_err(CliError::Output)?;
    }
    Ok(())
}

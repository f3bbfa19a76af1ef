//! Sends what the cluster does not have yet. Secrets go first and by themselves: only the cluster can
//! say what they are called.

use std::collections::{BTreeMap, BTreeSet};

use jaco_client::Client;
use jaco_compose::tree::FileTree;
use jaco_proto::v1::{ApplyRequest, MissingContentsRequest, PutContentsRequest, ShippedFiles};
use jaco_types::ContentId;
use sha2::{Digest, Sha256};

use super::load::{Freight, amount};
use crate::commands::Context;
use crate::error::{CliError, count};
use crate::ui::Stream;

/// The most bytes of one request, a little below what the cluster takes.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// The most pieces of one request.
pub(crate) const REQUEST_PIECES_MAX: usize = 1024;

/// Whether anything is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// It is.
    Store,
    /// Nothing is: the cluster only says what secrets would be called.
    Nothing,
}

/// What stands for the files in the request that needs them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sent {
    binds: Vec<ShippedFiles>,
    configs: Vec<ShippedFiles>,
    secrets: Vec<ShippedFiles>,
}

impl Sent {
    /// Puts it into a request.
    pub(crate) fn fill(self, request: &mut ApplyRequest) {
        request.binds = self.binds;
        request.configs = self.configs;
        request.secrets = self.secrets;
    }
}

/// Sends what is missing.
///
/// # Errors
/// The cluster's refusal, or why nobody answered.
pub(crate) async fn send(
    context: &mut Context,
    freight: &Freight,
    sending: Sending,
) -> Result<Sent, CliError> {
    let mut sent =
        Sent { binds: named(&freight.binds), configs: named(&freight.configs), ..Sent::default() };
    if freight.pieces.is_empty() && freight.secrets.is_empty() {
        return Ok(sent);
    }
    let client = context.client()?;
    let (secrets, lists) = send_secrets(&client, freight, sending).await?;
    sent.secrets = named(&secrets);
    if sending == Sending::Nothing {
        return Ok(sent);
    }
    let all = || freight.pieces.iter().chain(&lists);
    let missing = missing(&client, all().map(|(id, _)| *id)).await?;
    let wanted: Vec<&Vec<u8>> =
        all().filter(|(id, _)| missing.contains(id)).map(|(_, bytes)| bytes).collect();
    send_pieces(context, &client, &wanted).await?;
    Ok(sent)
}

fn named(ids: &BTreeMap<String, ContentId>) -> Vec<ShippedFiles> {
    let files = |(name, id): (&String, &ContentId)| ShippedFiles {
        name: name.clone(),
        tree: id.0.to_vec().into(),
    };
    ids.iter().map(files).collect()
}

type Lists = BTreeMap<ContentId, Vec<u8>>;

/// The lists of files of secrets by their keys, and their texts.
async fn send_secrets(
    client: &Client,
    freight: &Freight,
    sending: Sending,
) -> Result<(BTreeMap<String, ContentId>, Lists), CliError> {
    let (mut secrets, mut lists) = (BTreeMap::new(), Lists::new());
    for (name, content) in &freight.secrets {
        let request = PutContentsRequest {
            secret: vec![content.clone().into()],
            dry_run: sending == Sending::Nothing,
            ..PutContentsRequest::default()
        };
        let answer = client.put_contents(request).await?;
        let piece = answer.secret.first().and_then(|id| read_id(id));
        let piece = piece.ok_or_else(|| {
            let what = "the cluster did not say what a secret is called".to_owned();
            CliError::local(what, std::io::Error::from(std::io::ErrorKind::InvalidData))
        })?;
        // An empty secret is still a piece: its name must not tell that there is nothing in it.
        let tree = FileTree::of_file(0o444, content.len() as u64, vec![piece]);
        let text = tree.text().into_bytes();
        let id = ContentId(Sha256::digest(&text).into());
        secrets.insert(name.clone(), id);
        lists.insert(id, text);
    }
    Ok((secrets, lists))
}

fn read_id(bytes: &[u8]) -> Option<ContentId> {
    <[u8; 32]>::try_from(bytes).ok().map(ContentId)
}

async fn missing(
    client: &Client,
    ids: impl Iterator<Item = ContentId>,
) -> Result<BTreeSet<ContentId>, CliError> {
    let ids = ids.map(|id| id.0.to_vec().into()).collect();
    let answer = client.missing_contents(MissingContentsRequest { ids }).await?;
    Ok(answer.ids.iter().filter_map(|id| read_id(id)).collect())
}

async fn send_pieces(
    context: &mut Context,
    client: &Client,
    pieces: &[&Vec<u8>],
) -> Result<(), CliError> {
    if pieces.is_empty() {
        return Ok(());
    }
    let total: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    context.ui.note(&format!(
        "sending {} of files, {}",
        count(pieces.len(), "piece"),
        amount(total)
    ));
    let draws = context.ui.is_terminal(Stream::Err);
    let mut done = 0;
    for part in parts(pieces) {
        let plain = part.iter().map(|piece| (*piece).clone().into()).collect();
        let request = PutContentsRequest { plain, ..PutContentsRequest::default() };
        client.put_contents(request).await?;
        done += part.iter().map(|piece| piece.len() as u64).sum::<u64>();
        if draws {
            let line = format!("sent {} of {}", amount(done), amount(total));
            context.ui.draw(Stream::Err, &[line]).map_err(CliError::Output)?;
        }
    }
    if draws {
        context.ui.draw(Stream::Err, &[]).map_err(CliError::Output)?;
    }
    Ok(())
}

/// As many pieces together as one request may have.
fn parts<'a>(pieces: &'a [&'a Vec<u8>]) -> impl Iterator<Item = &'a [&'a Vec<u8>]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(REQUEST_PIECES_MAX).take_while(|piece| {
            bytes += piece.len();
            bytes <= REQUEST_BYTES_MAX
        });
        let many = fits.count().max(1).min(rest.len());
        let (part, left) = rest.split_at(many);
        rest = left;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_no_larger_than_they_may_be() {
        let check = |sizes: &[usize], expected: &[usize]| {
            let pieces: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
            let pieces: Vec<&Vec<u8>> = pieces.iter().collect();
            let found: Vec<usize> = parts(&pieces).map(<[_]>::len).collect();
            assert_eq!(found, expected, "{sizes:?}");
        };
        let most = REQUEST_BYTES_MAX;
        check(&[], &[]);
        check(&[1, 2, 3], &[3]);
        check(&[most, 1, most - 1, 1], &[1, 2, 1]);
        check(&vec![0; REQUEST_PIECES_MAX + 1], &[REQUEST_PIECES_MAX, 1]);
    }
}

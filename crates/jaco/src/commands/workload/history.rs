//! `jaco history`

use jaco_client::fresh_request_id;
use jaco_proto::v1::{HistoryRequest, HistoryResponse, PinRevisionRequest, RevisionInfo};
use serde_json::Value;

use crate::error::CliError;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Detail, Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::json::image_with_digest;

/// The width of the images in a short table, in characters.
const IMAGES_WIDTH: usize = 60;

/// List the revisions of a deployment
///
/// The ten newest revisions are kept, and besides them pinned ones and those that a replica still runs.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco history shop
  jaco history shop --pin 4         keep revision 4
  jaco diff --of shop --from 4      what has changed since")]
pub(crate) struct Args {
    /// The deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    /// Keep this revision until it is unpinned
    #[arg(long, value_name = "NUMBER", conflicts_with = "unpin")]
    pin: Option<u64>,
    /// Unpin this revision
    #[arg(long, value_name = "NUMBER")]
    unpin: Option<u64>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let client = session.client()?;
    if let Some(revision) = args.pin.or(args.unpin) {
        let request = PinRevisionRequest {
            deployment: args.deployment.clone(),
            revision,
            pinned: args.pin.is_some(),
            request_id: fresh_request_id(),
        };
        client.pin_revision(request).await?;
    }
    let request = HistoryRequest { deployment: args.deployment };
    let history = client.history(request).await.map_err(CliError::from)?;
    session.done(&History(&history))
}

/// The revisions, oldest first.
struct History<'a>(&'a HistoryResponse);

impl Show for History<'_> {
    fn json(&self) -> Value {
        jaco_json::deployment::history_json(self.0)
    }

    fn text(&self, frame: &Frame) -> String {
        let mut table =
            Table::new(&["REVISION", "APPLIED", "BY", "REPLICAS", "PINNED", "IMAGES", "NOTE"]);
        for info in &self.0.revisions {
            let image = |(service, image): (&String, &String)| {
                let digest = info.digests.get(service).map_or("", String::as_str);
                format!("{service}={}", image_with_digest(image, digest))
            };
            let mut images: Vec<_> = info.images.iter().map(image).collect();
            images.sort();
            table.row([
                info.revision.to_string(),
                time::ago(info.applied_at_ms, frame.now_ms),
                info.applied_by.clone(),
                info.replicas.to_string(),
                if info.pinned { "yes" } else { "" }.to_owned(),
                shortened(&images, frame.detail),
                note(info, self.0.revision),
            ]);
        }
        table.render()
    }
}

/// The images of a revision; in a short table only as many as fit.
fn shortened(images: &[String], detail: Detail) -> String {
    let mut text = String::new();
    for (index, image) in images.iter().enumerate() {
        let fits = index == 0 || text.chars().count() + image.chars().count() < IMAGES_WIDTH;
        if detail == Detail::Short && !fits {
            return format!("{text} and {} more", images.len() - index);
        }
        if index > 0 {
            text.push(' ');
        }
        text.push_str(image);
    }
    text
}

fn note(info: &RevisionInfo, current: u64) -> String {
    let mut notes = Vec::new();
    if info.revision == current {
        notes.push("current".to_owned());
    }
    if info.restores > 0 {
        notes.push(format!("restores {}", info.restores));
    }
    if !info.failure.is_empty() {
        notes.push(format!("aborted: {}", info.failure));
    }
    notes.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_fit_a_short_table() {
        let images: Vec<String> = (0..9).map(|n| format!("service-{n}=image:{n}")).collect();
        let short = shortened(&images, Detail::Short);
        assert_eq!(short, "service-0=image:0 service-1=image:1 service-2=image:2 and 6 more");
        assert_eq!(shortened(&images, Detail::Wide), images.join(" "));
        assert_eq!(shortened(&images[..1], Detail::Short), images[0]);
    }

    #[test]
    fn note_names_current_restored_and_aborted_revisions() {
        let info = |revision, restores, failure: &str| RevisionInfo {
            revision,
            restores,
            failure: failure.to_owned(),
            ..RevisionInfo::default()
        };
        assert_eq!(
            note(&info(3, 0, "step_timeout: shop-web-0"), 4),
            "aborted: step_timeout: shop-web-0"
        );
        assert_eq!(note(&info(4, 2, ""), 4), "current; restores 2");
        assert_eq!(note(&info(1, 0, ""), 4), "");
    }
}

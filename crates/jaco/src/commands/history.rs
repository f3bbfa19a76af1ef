//! `jaco history`

use jaco_client::fresh_request_id;
use jaco_proto::v1::{HistoryRequest, HistoryResponse, PinRevisionRequest, RevisionInfo};
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::CliError;
use crate::table::Table;
use crate::ui::{Frame, Show};
use crate::view::{facts, named, non_empty, without_null};
use crate::when;

/// Show the revisions of a deployment
///
/// The ten newest are kept, those that are pinned, and those that a replica still runs.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco history shop
  jaco history shop --pin 4         keep revision 4 for good
  jaco diff shop --from 4           what has changed since")]
pub(crate) struct Args {
    /// The deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    /// Keep this revision however many follow
    #[arg(long, value_name = "NUMBER", conflicts_with = "unpin")]
    pin: Option<u64>,
    /// Keep this revision no longer than any other
    #[arg(long, value_name = "NUMBER")]
    unpin: Option<u64>,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let client = context.client()?;
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
    context.done(&History(&history))
}

/// The revisions, oldest first.
struct History<'a>(&'a HistoryResponse);

impl Show for History<'_> {
    fn json(&self) -> Value {
        let wanted = self.0.revision;
        let revision = |info: &RevisionInfo| {
            without_null(json!({
                "revision": info.revision,
                "wanted": info.revision == wanted,
                "applied_at": when::rfc3339(info.applied_at_ms),
                "applied_by": info.applied_by,
                "restores": (info.restores > 0).then_some(info.restores),
                "pinned": info.pinned,
                "failure": non_empty(&info.failure),
                "replicas": info.replicas,
                "images": facts(&info.images),
                "digests": (!info.digests.is_empty()).then(|| facts(&info.digests)),
            }))
        };
        json!({
            "deployment": self.0.deployment,
            "revisions": self.0.revisions.iter().map(revision).collect::<Value>(),
        })
    }

    fn text(&self, frame: &Frame) -> String {
        let mut table =
            Table::new(&["REVISION", "APPLIED", "BY", "REPLICAS", "PINNED", "IMAGES", "NOTE"]);
        for info in &self.0.revisions {
            let image = |(service, image): (&String, &String)| {
                let digest = info.digests.get(service).map_or("", String::as_str);
                format!("{service}={}", named(image, digest))
            };
            let mut images: Vec<_> = info.images.iter().map(image).collect();
            images.sort();
            table.row([
                info.revision.to_string(),
                when::ago(info.applied_at_ms, frame.now_ms),
                info.applied_by.clone(),
                info.replicas.to_string(),
                if info.pinned { "yes" } else { "" }.to_owned(),
                images.join(" "),
                note(info, self.0.revision),
            ]);
        }
        table.render()
    }
}

fn note(info: &RevisionInfo, wanted: u64) -> String {
    let mut notes = Vec::new();
    if info.revision == wanted {
        notes.push("wanted".to_owned());
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
    fn a_revision_says_what_became_of_it() {
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
        assert_eq!(note(&info(4, 2, ""), 4), "wanted; restores 2");
        assert_eq!(note(&info(1, 0, ""), 4), "");
    }
}

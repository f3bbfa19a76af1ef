//! `jaco image`

use std::path::PathBuf;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ListImagesRequest, RemoveImageRequest};
use jaco_types::ImageTag;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::format::quantity::{count, size};
use crate::image::{Push, Pushed, Source, push};
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, image};

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Manage images that are pushed into the cluster, without a registry
///
/// A pushed image is kept in the image stores of several nodes. A node that is to run it gets it from
/// there, layer by layer; no registry is asked for its name. Pushing needs role operator.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco image push shop/web:1.4
  jaco image ls
  jaco image rm shop/web:1.3")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Push an image of this machine's container engine, or of an archive
    ///
    /// Only layers that the cluster lacks are sent; a push that broke goes on where it stopped. The image
    /// gets its name once as many nodes hold it as are to keep it. Deployments that are applied from then
    /// on run it under this name; those that run an earlier image of the name keep that until their image
    /// changes. So name a new tag for each version.
    #[command(after_long_help = "Examples:
  jaco image push shop/web:1.4                                an image that `docker images` lists
  jaco image push shop/web:1.4 --from web:dev                 under another name
  jaco image push shop/web:1.4 --file image.tar               an archive of `docker save`
  jaco image push shop/web:1.4 --copies 3 --keep-unused 30")]
    Push {
        /// The name in the cluster: REPOSITORY[:TAG]
        #[arg(value_name = "IMAGE")]
        name: String,
        /// The name in the container engine of this machine, if it is another one
        #[arg(long, value_name = "IMAGE", conflicts_with = "file")]
        from: Option<String>,
        /// An archive: as `docker save` writes it, or in the layout of OCI
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// On how many nodes it is kept, as far as there are so many; 2 by default
        #[arg(long, value_name = "NODES", value_parser = clap::value_parser!(u32).range(1..=16))]
        copies: Option<u32>,
        /// For how many days it is kept while no kept revision of a deployment runs it; 7 by default
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=366))]
        keep_unused: Option<u64>,
    },
    /// List pushed images, the nodes that hold them, and what uses them
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco image ls
  jaco image ls -o json"
    )]
    Ls,
    /// Remove the name of a pushed image, and with its last name the image
    ///
    /// Refused while a deployment names it. An image that a kept revision runs stays for a rollback,
    /// whatever its names.
    #[command(
        aliases = ["remove", "delete"],
        after_long_help = "Examples:
  jaco image rm shop/web:1.3
  jaco image rm shop/web:1.4 --in-use     a deployment names it"
    )]
    Rm {
        /// The name
        #[arg(value_name = "IMAGE")]
        name: String,
        /// Also if a deployment names it: what runs goes on, a new revision does not find it
        #[arg(long)]
        in_use: bool,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Push { name, from, file, copies, keep_unused } => {
            let source = match file {
                Some(file) => Source::File(file),
                None => Source::Engine(from.unwrap_or_else(|| name.clone())),
            };
            let wanted = Push {
                name: parse(&name)?,
                source,
                copies: copies.unwrap_or_default(),
                keep_unused_ms: keep_unused.unwrap_or_default() * DAY_MS,
            };
            let pushed = Box::pin(push(session, &wanted)).await?;
            session.done(&Done(pushed))
        }
        Action::Ls => {
            let request = ListImagesRequest::default();
            let listed = session.client()?.list_images(request).await?;
            let items = &listed.images;
            session.done(&List { items, json: image::json, text: image::table })
        }
        Action::Rm { name, in_use } => remove(session, &parse(&name)?, in_use).await,
    }
}

async fn remove(session: &mut Session, name: &ImageTag, in_use: bool) -> CommandResult {
    let request =
        RemoveImageRequest { name: name.to_string(), in_use, request_id: fresh_request_id() };
    let removed = session.client()?.remove_image(request).await?;
    let outcome = if removed.image_stays { "untagged" } else { "removed" };
    let text = match removed.image_stays {
        true => format!(
            "{} is no name of {} any more; the image stays, as another name or a kept revision needs it\n",
            removed.name, removed.id
        ),
        false => format!("{} removed\n", removed.name),
    };
    let json = json!({ "name": removed.name, "id": removed.id, "outcome": outcome });
    session.done(&Summary { json, text })
}

fn parse(name: &str) -> Result<ImageTag, CliError> {
    ImageTag::parse(name)
        .map_err(|invalid| CliError::usage(format!("{name:?} cannot be pushed to"), invalid.rule))
}

/// A push that is done.
#[derive(Debug)]
struct Done(Pushed);

impl Show for Done {
    fn json(&self) -> Value {
        let Pushed { name, image: pushed, sent_layers, sent_bytes } = &self.0;
        let mut json = image::json(pushed);
        json["name"] = name.as_str().into();
        json["sent_layers"] = (*sent_layers).into();
        json["sent_bytes"] = (*sent_bytes).into();
        json
    }

    fn text(&self, _: &Frame) -> String {
        let Pushed { name, image, sent_layers, sent_bytes } = &self.0;
        format!(
            "{name} pushed: {} of {} sent ({} of {}), held by {}\n",
            sent_layers,
            count(image.layers as usize, "layer"),
            size(*sent_bytes),
            size(image.bytes),
            image.nodes.join(", ")
        )
    }
}

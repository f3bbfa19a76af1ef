//! `jaco config`

use serde_json::Value;

use super::{Context, Done};
use crate::manifest::{Manifest, ManifestArgs};
use crate::ui::{Frame, Show};

/// Print compose files as one, with everything filled in
///
/// Variables, includes, extends and several files are resolved. What is printed can be applied again
/// and means the same.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco config -f compose.yaml -f compose.prod.yaml
  jaco config -o json | jq .services.web")]
pub(crate) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> Done {
    let project = Manifest::load(&args.manifest)?.project;
    context.done(&Model { json: project.canonical_json(), yaml: project.canonical_yaml() })
}

struct Model {
    json: Value,
    yaml: String,
}

impl Show for Model {
    fn json(&self) -> Value {
        self.json.clone()
    }

    fn text(&self, _: &Frame) -> String {
        self.yaml.clone()
    }
}

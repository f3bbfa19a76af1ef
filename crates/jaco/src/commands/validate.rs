//! `jaco validate`

use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::count;
use crate::manifest::{Manifest, ManifestArgs};
use crate::ui::{Frame, Show};

/// Check compose files without asking a cluster
///
/// Lists all problems at once, with their places. What only the cluster can know, such as the names of
/// its nodes, is checked by `jaco apply --dry-run`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco validate
  jaco validate compose.yaml -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> Done {
    let mut manifest = Manifest::checked(&args.manifest)?;
    // Read, so that what cannot be read is told; nothing is sent.
    drop(manifest.freight()?);
    if !manifest.warnings.is_empty() {
        context.ui.note(&format!("{}\n", manifest.warnings));
    }
    context.done(&Valid(&manifest))
}

struct Valid<'a>(&'a Manifest);

impl Valid<'_> {
    fn services(&self) -> Vec<&str> {
        self.0.project.service_names().collect()
    }
}

impl Show for Valid<'_> {
    fn json(&self) -> Value {
        json!({
            "valid": true,
            "name": self.0.project.name(),
            "services": self.services(),
            "warnings": self.0.warnings.to_json(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        let services = count(self.services().len(), "service");
        let warnings = match self.0.warnings.list.len() {
            0 => String::new(),
            number => format!(", {}", count(number, "warning")),
        };
        format!("{} is valid: {services}{warnings}\n", self.0.project.name())
    }
}

//! `jaco validate`

use serde_json::{Value, json};

use crate::format::quantity::count;
use crate::manifest::{Manifest, ManifestArgs};
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};

/// Validate compose files without a cluster
///
/// Lists all problems at once, with their positions. What depends on the cluster, such as the names of
/// its nodes, is checked by `jaco apply --dry-run`. Files that end in `.age` are left closed, and named.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco validate
  jaco validate compose.yaml -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
}

pub(crate) fn run(session: &mut Session, args: &Args) -> CommandResult {
    let mut manifest = Manifest::checked_closed(&args.manifest)?;
    // Files are read to report unreadable ones; nothing is sent.
    drop(manifest.upload()?);
    if !manifest.warnings.is_empty() {
        session.ui.note(&format!("{}\n", manifest.warnings));
    }
    for path in &manifest.closed {
        session.ui.note(&format!(
            "{path} was not opened: it is encrypted, and what depends on its variables was not checked"
        ));
    }
    session.done(&Valid(&manifest))
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
            "closed": self.0.closed,
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

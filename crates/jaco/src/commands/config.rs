//! `jaco config`

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::SpecHash;
use serde_json::Value;

use super::{Context, Done};
use crate::error::CliError;
use crate::manifest::{Manifest, ManifestArgs};
use crate::ui::{Frame, Show};

/// Print compose files as one, with everything filled in
///
/// Variables, includes, extends and several files are resolved. What is printed can be applied again
/// and means the same.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco config -f compose.yaml -f compose.prod.yaml
  jaco config -o json | jq .services.web
  jaco config --images | xargs -n1 docker pull
  jaco config --hash                            one line per service: its name and its hash
  jaco config --hash web")]
pub(crate) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Print the names of the services only, one a line
    #[arg(long, conflicts_with = "images")]
    services: bool,
    /// Print the names of the images only, one a line
    #[arg(long)]
    images: bool,
    /// Print the hash of each service, or of those that are named, separated by commas
    ///
    /// A replica is replaced when its service's hash is another one. The contents of files beside the
    /// compose file count; those of secrets do not here, because only the cluster can name them.
    #[arg(long, value_name = "SERVICE", num_args = 0..=1, default_missing_value = "*",
        conflicts_with_all = ["images", "services"])]
    hash: Option<String>,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> Done {
    if let Some(which) = &args.hash {
        return context.done(&Hashes(hashes(&args.manifest, which)?));
    }
    let project = Manifest::load(&args.manifest)?.project;
    if args.services {
        return context.done(&Names(project.service_names().collect()));
    }
    let json = project.canonical_json();
    if args.images {
        return context.done(&Names(images(&json)));
    }
    context.done(&Model { json, yaml: project.canonical_yaml() })
}

/// The hashes of the services that are named; `*` names all.
fn hashes(args: &ManifestArgs, which: &str) -> Result<BTreeMap<String, SpecHash>, CliError> {
    let mut manifest = Manifest::checked(args)?;
    let contents = manifest.freight()?.versions();
    let services = manifest.as_admitted(contents)?.services;
    let mut hashes: BTreeMap<String, SpecHash> =
        services.into_iter().map(|(name, service)| (name, service.container.hash)).collect();
    if which == "*" {
        return Ok(hashes);
    }
    let mut chosen = BTreeMap::new();
    for name in which.split(',') {
        let Some((name, hash)) = hashes.remove_entry(name) else {
            let known: Vec<&str> = manifest.project.service_names().collect();
            return Err(CliError::usage(
                format!("the compose file has no service {name}"),
                format!("its services are {}", known.join(", ")),
            ));
        };
        chosen.insert(name, hash);
    }
    Ok(chosen)
}

/// The images that the services name, each once.
fn images(model: &Value) -> BTreeSet<&str> {
    let services = model["services"].as_object().into_iter().flat_map(|services| services.values());
    services.filter_map(|service| service["image"].as_str()).collect()
}

struct Names<'a>(BTreeSet<&'a str>);

impl Show for Names<'_> {
    fn json(&self) -> Value {
        self.0.iter().copied().collect()
    }

    fn text(&self, _: &Frame) -> String {
        self.0.iter().map(|name| format!("{name}\n")).collect()
    }
}

struct Hashes(BTreeMap<String, SpecHash>);

impl Show for Hashes {
    fn json(&self) -> Value {
        self.0.iter().map(|(name, hash)| (name.clone(), Value::from(hash.to_string()))).collect()
    }

    fn text(&self, _: &Frame) -> String {
        self.0.iter().map(|(name, hash)| format!("{name} {hash}\n")).collect()
    }
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

//! `jaco compose config`, also `jaco config` without a subcommand

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::SpecHash;
use serde_json::Value;

use crate::error::CliError;
use crate::manifest::{Manifest, ManifestArgs};
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};

/// Print the resolved compose model
///
/// Merges several files and resolves variables, includes and extends. The output can be applied and has
/// the same meaning. Variables of env files that end in `.age` are left out. `jaco config` without a subcommand does the same.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco compose config -f compose.yaml -f compose.prod.yaml
  jaco compose config -o json | jq .services.web
  jaco compose config --images | xargs -n1 docker pull
  jaco compose config --hash                    one line per service: its name and its hash
  jaco compose config --hash web")]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Print the names of the services, one per line
    #[arg(long, conflicts_with = "images")]
    services: bool,
    /// Print the names of the images, one per line
    #[arg(long)]
    images: bool,
    /// Print the hash of each service, or of the given ones, separated by commas
    ///
    /// A replica is replaced when the hash of its service changes. The hash includes the contents of files
    /// beside the compose file, but here not those of secrets, because only the cluster can compute their
    /// ids.
    #[arg(long, value_name = "SERVICE", num_args = 0..=1, default_missing_value = "*",
        conflicts_with_all = ["images", "services"])]
    hash: Option<String>,
}

pub(crate) fn run(session: &mut Session, args: &Args) -> CommandResult {
    if let Some(which) = &args.hash {
        return session.done(&Hashes(hashes(&args.manifest, which)?));
    }
    let manifest = Manifest::load_closed(&args.manifest)?;
    for path in &manifest.closed {
        session.ui.note(&format!("{path} is encrypted: its variables are left out"));
    }
    let project = manifest.project;
    if args.services {
        return session.done(&Names(project.service_names().collect()));
    }
    let json = project.canonical_json();
    if args.images {
        return session.done(&Names(images(&json)));
    }
    session.done(&Model { json, yaml: project.canonical_yaml() })
}

/// The hashes of the given services; `*` means all.
fn hashes(args: &ManifestArgs, which: &str) -> Result<BTreeMap<String, SpecHash>, CliError> {
    let mut manifest = Manifest::checked(args)?;
    let contents = manifest.upload()?.versions();
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

/// The distinct images of the services.
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

//! `jaco diff`

use std::collections::BTreeMap;

use jaco_compose::restart;
use jaco_proto::v1::{GetDeploymentRequest, GetDeploymentResponse, HistoryRequest};
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::CliError;
use crate::manifest::{Manifest, ManifestArgs};
use crate::ui::{Frame, Show};

/// Show what differs between two revisions, or between files and what is wanted
///
/// Compares the resolved compose models, key by key, and jaco.yaml as it was written. Without a
/// deployment: the files of this folder with the revision that is wanted.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco diff                         the files of this folder against the cluster
  jaco diff -f compose.yaml         that file
  jaco diff --of shop               the wanted revision against the one before it
  jaco diff --of shop --from 2 --to 4")]
pub(crate) struct Args {
    /// Compare revisions of this deployment instead of files
    #[arg(long, value_name = "DEPLOYMENT", conflicts_with_all = ["file", "files"])]
    of: Option<String>,
    /// The earlier revision; the one before the later one by default
    #[arg(long, value_name = "NUMBER", requires = "of")]
    from: Option<u64>,
    /// The later revision; the wanted one by default
    #[arg(long, value_name = "NUMBER", requires = "of")]
    to: Option<u64>,
    #[command(flatten)]
    manifest: ManifestArgs,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let difference = match &args.of {
        Some(name) => between_revisions(context, name, args.from, args.to).await?,
        None => with_files(context, &args.manifest).await?,
    };
    context.done(&difference)
}

/// Two revisions of one deployment.
async fn between_revisions(
    context: &mut Context,
    name: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<Difference, CliError> {
    let client = context.client()?;
    let later = get(context, name, to.unwrap_or(0)).await?;
    let earlier = match from {
        Some(from) => from,
        None => {
            let request = HistoryRequest { deployment: name.to_owned() };
            let kept = client.history(request).await?.revisions;
            let before = kept.iter().rev().find(|info| info.revision < later.revision);
            let missing = || {
                let message = format!("{name} has no revision before {}", later.revision);
                CliError::usage(message, "name one with --from")
            };
            before.ok_or_else(missing)?.revision
        }
    };
    let earlier = get(context, name, earlier).await?;
    Ok(Difference {
        deployment: name.to_owned(),
        from: format!("revision {}", earlier.revision),
        to: format!("revision {}", later.revision),
        changes: changes(&model(&earlier)?, &model(&later)?),
    })
}

/// The files that the user names, and what the cluster wants of the same deployment.
async fn with_files(context: &mut Context, args: &ManifestArgs) -> Result<Difference, CliError> {
    let manifest = Manifest::checked(args)?;
    let name = manifest.project.name().to_owned();
    let wanted = get(context, &name, 0).await?;
    // How often people restarted its services is the cluster's to know, and no difference.
    let mut running = model(&wanted)?;
    restart::forget(&mut running);
    let files = GetDeploymentResponse {
        compose_json: manifest.project.model().to_string(),
        overlay_yaml: manifest.overlay_text,
        ..GetDeploymentResponse::default()
    };
    Ok(Difference {
        from: format!("revision {}", wanted.revision),
        to: "files".to_owned(),
        changes: changes(&running, &model(&files)?),
        deployment: name,
    })
}

async fn get(
    context: &mut Context,
    name: &str,
    revision: u64,
) -> Result<GetDeploymentResponse, CliError> {
    let request = GetDeploymentRequest { name: name.to_owned(), revision };
    Ok(context.client()?.get_deployment(request).await?)
}

/// Everything that was applied, as one value.
fn model(stored: &GetDeploymentResponse) -> Result<Value, CliError> {
    let mut model: Value = serde_json::from_str(&stored.compose_json)
        .map_err(|error| CliError::local("the compose model is not understood", error))?;
    if !stored.overlay_yaml.is_empty() {
        let lines = stored.overlay_yaml.lines().map(str::to_owned);
        model["jaco.yaml"] = lines.collect::<Vec<_>>().join("\n").into();
    }
    Ok(model)
}

/// One key that differs; absent on the side that does not have it.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    key: String,
    from: Option<Value>,
    to: Option<Value>,
}

/// Every key whose value differs, in the order of the keys.
fn changes(from: &Value, to: &Value) -> Vec<Change> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    flatten(String::new(), from, &mut before);
    flatten(String::new(), to, &mut after);
    let mut keys: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    keys.sort_unstable();
    keys.dedup();
    let change = |key: String| {
        let (from, to) = (before.remove(&key), after.remove(&key));
        (from != to).then_some(Change { key, from, to })
    };
    keys.into_iter().filter_map(change).collect()
}

/// The leaves of a value by their paths. A list is one leaf: what moved within it is easier to see
/// whole.
fn flatten(path: String, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    let Some(members) = value.as_object().filter(|members| !members.is_empty()) else {
        leaves.insert(path, value.clone());
        return;
    };
    for (key, member) in members {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        flatten(path, member, leaves);
    }
}

struct Difference {
    deployment: String,
    from: String,
    to: String,
    changes: Vec<Change>,
}

impl Show for Difference {
    fn json(&self) -> Value {
        let change =
            |change: &Change| json!({ "key": change.key, "from": change.from, "to": change.to });
        json!({
            "deployment": self.deployment,
            "from": self.from,
            "to": self.to,
            "changes": self.changes.iter().map(change).collect::<Value>(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        let Self { deployment, from, to, changes } = self;
        if changes.is_empty() {
            return format!("{deployment}: {from} and {to} say the same\n");
        }
        let mut text = format!("{deployment}: {from} → {to}\n");
        for Change { key, from, to } in changes {
            for (sign, side) in [('-', from), ('+', to)] {
                if let Some(value) = side {
                    text.push_str(&format!("{sign} {key}: {value}\n"));
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        let from = json!({ "services": {
            "web": { "image": "web:1", "command": ["a"], "environment": { "A": "1", "B": "2" } },
            "old": { "image": "old:1" },
        }});
        let to = json!({ "services": {
            "web": { "image": "web:2", "command": ["a", "b"], "environment": { "A": "1" } },
        }, "jaco.yaml": "deployment: shop" });
        let changes = changes(&from, &to);
        let difference =
            Difference { deployment: "shop".into(), from: "1".into(), to: "2".into(), changes };
        expect![[r#"
            shop: 1 → 2
            + jaco.yaml: "deployment: shop"
            - services.old.image: "old:1"
            - services.web.command: ["a"]
            + services.web.command: ["a","b"]
            - services.web.environment.B: "2"
            - services.web.image: "web:1"
            + services.web.image: "web:2"
        "#]]
        .assert_eq(&difference.text(&Frame { now_ms: 0, detail: crate::ui::Detail::Short }));
    }

    #[test]
    fn the_same_is_said_to_be_the_same() {
        assert_eq!(changes(&json!({"a": {"b": 1}}), &json!({"a": {"b": 1}})), vec![]);
    }
}

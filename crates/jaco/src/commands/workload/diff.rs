//! `jaco diff`

use std::collections::BTreeMap;

use jaco_compose::restart;
use jaco_proto::v1::{GetDeploymentRequest, GetDeploymentResponse, HistoryRequest};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::manifest::{Manifest, ManifestArgs};
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};

/// Compare two revisions, or files with the current revision
///
/// Compares the resolved compose models key by key, and jaco.yaml line by line. Without --of, the files
/// of this folder are compared with the current revision.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco diff                         the files of this folder against the cluster
  jaco diff -f compose.yaml         this file
  jaco diff --of shop               the current revision against the previous one
  jaco diff --of shop --from 2 --to 4")]
pub(crate) struct Args {
    /// Compare revisions of this deployment instead of files
    #[arg(long, value_name = "DEPLOYMENT", conflicts_with_all = ["file", "files"])]
    of: Option<String>,
    /// The earlier revision [default: the one before --to]
    #[arg(long, value_name = "NUMBER", requires = "of")]
    from: Option<u64>,
    /// The later revision [default: the current one]
    #[arg(long, value_name = "NUMBER", requires = "of")]
    to: Option<u64>,
    #[command(flatten)]
    manifest: ManifestArgs,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let difference = match &args.of {
        Some(name) => between_revisions(session, name, args.from, args.to).await?,
        None => with_files(session, &args.manifest).await?,
    };
    session.done(&difference)
}

/// Compares two revisions of one deployment.
async fn between_revisions(
    session: &mut Session,
    name: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<Difference, CliError> {
    let client = session.client()?;
    let later = get(session, name, to.unwrap_or(0)).await?;
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
    let earlier = get(session, name, earlier).await?;
    Ok(Difference {
        deployment: name.to_owned(),
        from: format!("revision {}", earlier.revision),
        to: format!("revision {}", later.revision),
        changes: changes(&model(&earlier)?, &model(&later)?),
    })
}

/// Compares the user's files with the current revision of the same deployment.
async fn with_files(session: &mut Session, args: &ManifestArgs) -> Result<Difference, CliError> {
    let manifest = Manifest::checked(args)?;
    let name = manifest.project.name().to_owned();
    let current = get(session, &name, 0).await?;
    // The restart counters exist in the cluster only, and are no difference.
    let mut stored = model(&current)?;
    restart::forget(&mut stored);
    let files = GetDeploymentResponse {
        // As it would be sent: the paths of the stored model are relative to the project's folder.
        compose_json: manifest.project.sent_model().to_string(),
        overlay_yaml: manifest.overlay_text,
        ..GetDeploymentResponse::default()
    };
    Ok(Difference {
        from: format!("revision {}", current.revision),
        to: "files".to_owned(),
        changes: changes(&stored, &model(&files)?),
        deployment: name,
    })
}

async fn get(
    session: &mut Session,
    name: &str,
    revision: u64,
) -> Result<GetDeploymentResponse, CliError> {
    let request = GetDeploymentRequest { name: name.to_owned(), revision };
    Ok(session.client()?.get_deployment(request).await?)
}

/// The compose model and jaco.yaml as one value.
fn model(stored: &GetDeploymentResponse) -> Result<Value, CliError> {
    let mut model: Value = serde_json::from_str(&stored.compose_json)
        .map_err(|error| CliError::local("cannot parse the stored compose model", error))?;
    if !stored.overlay_yaml.is_empty() {
        let lines = stored.overlay_yaml.lines().map(str::to_owned);
        model["jaco.yaml"] = lines.collect::<Vec<_>>().join("\n").into();
    }
    Ok(model)
}

/// One key with different values; `None` where it is absent.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    key: String,
    from: Option<Value>,
    to: Option<Value>,
}

/// All keys with different values, sorted.
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

/// The leaves of a value by their paths. A list is one leaf, because its changes are easier to see as a
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
            return format!("{deployment}: {from} and {to} are equal\n");
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
    fn only_differences_are_shown() {
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
        .assert_eq(&difference.text(&Frame { now_ms: 0, detail: crate::output::Detail::Short }));
    }

    #[test]
    fn equal_models_have_no_differences() {
        assert_eq!(changes(&json!({"a": {"b": 1}}), &json!({"a": {"b": 1}})), vec![]);
    }
}

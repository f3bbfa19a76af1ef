//! A plan that is kept in a file: what was asked for, and the digest of what it would have done. It
//! can hold whatever the manifest holds, so only its owner can read it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ApplyRequest, ApplyResponse, ShippedFiles};
use jaco_types::ContentId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::CliError;
use crate::ui::Show;
use crate::view::plan::Planned;

/// The format that is written, and the only one that is read.
const FORMAT: u32 = 1;

/// No plan is larger: the cluster takes manifests of 2 MiB.
const BYTES_MAX: u64 = 16 << 20;

/// A plan as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedPlan {
    /// Marks the file as a plan; its format.
    jaco_plan: u32,
    deployment: String,
    /// What the outcome is recognised by.
    digest: String,
    compose_json: String,
    #[serde(default)]
    overlay_yaml: String,
    #[serde(default)]
    environment_toml: String,
    /// What the files are called in the cluster that go with it.
    #[serde(default)]
    binds: BTreeMap<String, String>,
    #[serde(default)]
    configs: BTreeMap<String, String>,
    #[serde(default)]
    secrets: BTreeMap<String, String>,
    #[serde(default)]
    max_file_bytes: u64,
    /// What would happen, for people; not read back.
    #[serde(default)]
    plan: Value,
}

impl SavedPlan {
    /// The request that carries it out, if it still holds.
    pub(crate) fn request(self) -> ApplyRequest {
        ApplyRequest {
            compose_json: self.compose_json,
            overlay_yaml: self.overlay_yaml,
            environment_toml: self.environment_toml,
            deployment: self.deployment,
            expected_digest: self.digest,
            binds: shipped(self.binds),
            configs: shipped(self.configs),
            secrets: shipped(self.secrets),
            max_file_bytes: self.max_file_bytes,
            request_id: fresh_request_id(),
            ..ApplyRequest::default()
        }
    }
}

fn ids(files: &[ShippedFiles]) -> BTreeMap<String, String> {
    let id = |files: &ShippedFiles| {
        let id = <[u8; 32]>::try_from(&files.tree[..]).ok()?;
        Some((files.name.clone(), ContentId(id).to_string()))
    };
    files.iter().filter_map(id).collect()
}

/// What is no id is left out; the cluster then says that the file was not sent.
fn shipped(ids: BTreeMap<String, String>) -> Vec<ShippedFiles> {
    let files = |(name, id): (String, String)| {
        let tree = ContentId::from_hex(&id)?.0.to_vec().into();
        Some(ShippedFiles { name, tree })
    };
    ids.into_iter().filter_map(files).collect()
}

/// Keeps a plan. What is there is replaced at once or not at all.
///
/// # Errors
/// When the file cannot be written, or the daemon is too old to have answered with a plan.
pub(crate) fn write(
    path: &Path,
    request: &ApplyRequest,
    told: &ApplyResponse,
) -> Result<(), CliError> {
    let planned = Planned { told, required: None };
    let saved = SavedPlan {
        jaco_plan: FORMAT,
        deployment: request.deployment.clone(),
        digest: planned.digest().to_owned(),
        compose_json: request.compose_json.clone(),
        overlay_yaml: request.overlay_yaml.clone(),
        environment_toml: request.environment_toml.clone(),
        binds: ids(&request.binds),
        configs: ids(&request.configs),
        secrets: ids(&request.secrets),
        max_file_bytes: request.max_file_bytes,
        plan: planned.json(),
    };
    let text = serde_json::to_string_pretty(&saved).expect("texts and numbers can be written");
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let write = || -> std::io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        fs::rename(&beside, path)
    };
    write().map_err(|error| CliError::local(format!("cannot write {}", path.display()), error))
}

/// Reads a plan; `None` if the file is something else, for example a compose file.
///
/// # Errors
/// When it is a plan of another format, or damaged.
pub(crate) fn read(path: &Path) -> Result<Option<SavedPlan>, CliError> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(None);
    }
    let failed = |error| CliError::local(format!("cannot read {}", path.display()), error);
    let mut text = String::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    let Ok(json) = serde_json::from_str::<Value>(&text) else { return Ok(None) };
    match json["jaco_plan"].as_u64() {
        None => Ok(None),
        Some(format) if format == u64::from(FORMAT) => {
            let damaged = |error: serde_json::Error| {
                CliError::local(format!("{} is a damaged plan", path.display()), error)
            };
            serde_json::from_value(json).map(Some).map_err(damaged)
        }
        Some(format) => {
            let message = format!("{} is a plan of format {format}", path.display());
            Err(CliError::usage(message, "make it again with this version: jaco plan --out"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jaco_proto::v1::Preview;
    use std::os::unix::fs::PermissionsExt;

    /// R-CLI-2: a plan is read back as what it was, and by its owner alone.
    #[test]
    fn a_plan_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        let files = |name: &str, number: u8| {
            vec![ShippedFiles { name: name.to_owned(), tree: vec![number; 32].into() }]
        };
        let preview = Preview { digest: "abc".to_owned(), ..Preview::default() };
        let told = ApplyResponse { preview: Some(preview), ..ApplyResponse::default() };
        let request = ApplyRequest {
            compose_json: "{}".to_owned(),
            environment_toml: "[web]".to_owned(),
            deployment: "shop".to_owned(),
            binds: files("conf", 1),
            configs: files("c", 2),
            secrets: files("s", 3),
            max_file_bytes: 9,
            ..ApplyRequest::default()
        };
        write(&path, &request, &told).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = read(&path).unwrap().unwrap().request();
        let expected = ApplyRequest {
            expected_digest: "abc".to_owned(),
            request_id: read.request_id.clone(),
            ..request
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn other_files_are_no_plans() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            read(&path).map(|plan| plan.is_some()).map_err(|error| error.to_string())
        };
        assert_eq!(check("compose.json", r#"{"services":{}}"#), Ok(false));
        assert_eq!(check("compose.yaml", r#"{"jaco_plan":1}"#), Ok(false));
        assert!(check("plan.json", r#"{"jaco_plan":9}"#).unwrap_err().contains("format 9"));
        assert!(check("plan.json", r#"{"jaco_plan":1}"#).unwrap_err().contains("damaged"));
    }
}

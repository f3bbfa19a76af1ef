//! Saved plans: the request, and the digest of the changes it would make. A plan holds the whole manifest,
//! so only its owner can read it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ApplyRequest, ApplyResponse, FileUpload};
use jaco_types::ContentId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::CliError;
use crate::output::Show;
use crate::view::plan::Plan;

/// The format that is written and read.
const FORMAT: u32 = 1;

/// The maximum size of a plan: the cluster accepts manifests of 2 MiB.
const BYTES_MAX: u64 = 16 << 20;

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedPlan {
    /// The format. The key identifies the file as a plan.
    jaco_plan: u32,
    deployment: String,
    /// Identifies the planned changes.
    digest: String,
    compose_json: String,
    #[serde(default)]
    overlay_yaml: String,
    #[serde(default)]
    environment_toml: String,
    /// The ids of the uploaded files, by name.
    #[serde(default)]
    binds: BTreeMap<String, String>,
    #[serde(default)]
    configs: BTreeMap<String, String>,
    #[serde(default)]
    secrets: BTreeMap<String, String>,
    #[serde(default)]
    max_file_bytes: u64,
    /// The planned changes, for readers of the file; ignored when it is read.
    #[serde(default)]
    plan: Value,
}

impl SavedPlan {
    /// The request that applies the plan if it still holds.
    pub(crate) fn request(self) -> ApplyRequest {
        ApplyRequest {
            compose_json: self.compose_json,
            overlay_yaml: self.overlay_yaml,
            environment_toml: self.environment_toml,
            deployment: self.deployment,
            expected_digest: self.digest,
            binds: uploaded(self.binds),
            configs: uploaded(self.configs),
            secrets: uploaded(self.secrets),
            max_file_bytes: self.max_file_bytes,
            request_id: fresh_request_id(),
            ..ApplyRequest::default()
        }
    }
}

fn ids(files: &[FileUpload]) -> BTreeMap<String, String> {
    let id = |files: &FileUpload| {
        let id = <[u8; 32]>::try_from(&files.tree[..]).ok()?;
        Some((files.name.clone(), ContentId(id).to_string()))
    };
    files.iter().filter_map(id).collect()
}

/// An invalid id is left out: the cluster then reports that the file is missing.
fn uploaded(ids: BTreeMap<String, String>) -> Vec<FileUpload> {
    let files = |(name, id): (String, String)| {
        let tree = ContentId::from_hex(&id)?.0.to_vec().into();
        Some(FileUpload { name, tree })
    };
    ids.into_iter().filter_map(files).collect()
}

/// Writes a plan, replacing the file atomically.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(
    path: &Path,
    request: &ApplyRequest,
    response: &ApplyResponse,
) -> Result<(), CliError> {
    let plan = Plan { response, required: None };
    let saved = SavedPlan {
        jaco_plan: FORMAT,
        deployment: request.deployment.clone(),
        digest: plan.digest().to_owned(),
        compose_json: request.compose_json.clone(),
        overlay_yaml: request.overlay_yaml.clone(),
        environment_toml: request.environment_toml.clone(),
        binds: ids(&request.binds),
        configs: ids(&request.configs),
        secrets: ids(&request.secrets),
        max_file_bytes: request.max_file_bytes,
        plan: plan.json(),
    };
    let text = serde_json::to_string_pretty(&saved).expect("all fields have a JSON form");
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

/// Reads a plan; `None` if the file is not one, for example a compose file.
///
/// # Errors
/// If it is a plan of another format, or damaged.
pub(crate) fn read(path: &Path) -> Result<Option<SavedPlan>, CliError> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(None);
    }
    let failed = |error| CliError::local(format!("cannot read {}", path.display()), error);
    let mut text = String::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    parse(path, &text)
}

/// The plan that a text is; `path` is for messages.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Option<SavedPlan>, CliError> {
    let Ok(json) = serde_json::from_str::<Value>(text) else { return Ok(None) };
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
            Err(CliError::usage(message, "create it again with this version: jaco plan --out"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jaco_proto::v1::Preview;
    use std::os::unix::fs::PermissionsExt;

    /// R-CLI-2: a saved plan yields the same request, and only its owner can read it.
    #[test]
    fn saved_plan_yields_the_same_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        let files = |name: &str, number: u8| {
            vec![FileUpload { name: name.to_owned(), tree: vec![number; 32].into() }]
        };
        let preview = Preview { digest: "abc".to_owned(), ..Preview::default() };
        let response = ApplyResponse { preview: Some(preview), ..ApplyResponse::default() };
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
        write(&path, &request, &response).unwrap();
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
    fn other_files_are_not_plans() {
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

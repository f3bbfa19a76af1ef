//! Whether the manifest of a deployment in a backup would be admitted, as far as that can be told without a cluster: by
//! the functions that its admission calls. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::{
    Contents, Environment, Images, JacoYaml, Networks, Options, Problems, Project, UploadKind,
    UploadSource, environment, from_model, resolve,
};
use jaco_proto::v1::{BackupDeployment, FileUpload};
use jaco_types::{DeploymentName, ErrorCode, NamedKind};

use super::examined::{Fault, Model};
use super::files::content_id;

/// What the manifests of a backup may refer to.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// The configs and secrets with names.
    pub(super) named: BTreeSet<(NamedKind, String)>,
    /// The shared networks.
    pub(super) networks: BTreeSet<String>,
}

/// What a deployment consists of.
///
/// # Errors
/// Why its manifest would be refused.
pub(super) fn check(deployment: &BackupDeployment, stored: &Stored) -> Result<Model, Fault> {
    DeploymentName::new(&deployment.name).map_err(|error| invalid(&error))?;
    let project = from_model(deployment.compose_json.as_bytes()).map_err(|all| refused(&all))?;
    let overlay = match deployment.overlay_yaml.as_str() {
        "" => None,
        text => Some(JacoYaml::parse("jaco.yaml", text.as_bytes()).map_err(|all| refused(&all))?),
    };
    let file = environment::file_name(None);
    let environment = Environment::parse(&file, deployment.environment_toml.as_bytes());
    let environment = environment.map_err(|all| refused(&all))?;
    environment.check(&project).map_err(|all| refused(&all))?;
    check_external(&project, deployment, stored)?;
    let options = Options {
        images: Images::AllowLocal,
        overrides: environment.overrides(),
        contents: contents(deployment)?,
        networks: networks(stored),
    };
    let resolved = resolve(&project, overlay.as_ref(), &options).map_err(|all| refused(&all))?;
    Ok(Model {
        revision: deployment.revision,
        services: resolved.services.into_keys().collect(),
        images: images(&project),
        volumes: volumes(&project),
    })
}

/// Refuses a config or secret that is neither among the files of the deployment nor stored under its name.
fn check_external(
    project: &Project,
    deployment: &BackupDeployment,
    stored: &Stored,
) -> Result<(), Fault> {
    for item in project.upload_items() {
        let (kind, sent) = match item.kind {
            // One that was not uploaded is a path of the node.
            UploadKind::Bind(_) => continue,
            UploadKind::Config => (NamedKind::Config, &deployment.configs),
            UploadKind::Secret => (NamedKind::Secret, &deployment.secrets),
        };
        let is_stored = match &item.source {
            UploadSource::External(name) => stored.named.contains(&(kind, name.clone())),
            UploadSource::Path(_) | UploadSource::Variable(..) => false,
        };
        if !is_stored && sent.iter().all(|files| files.name != item.name) {
            let (code, kind) = (ErrorCode::ContentNotFound, kind.as_str());
            let reason = format!("the backup has no content of its {kind} {:?}", item.name);
            return Err(Fault { code, reason });
        }
    }
    Ok(())
}

fn contents(deployment: &BackupDeployment) -> Result<Contents, Fault> {
    Ok(Contents {
        binds: by_name(&deployment.binds)?,
        configs: by_name(&deployment.configs)?,
        secrets: by_name(&deployment.secrets)?,
    })
}

fn by_name(files: &[FileUpload]) -> Result<BTreeMap<String, String>, Fault> {
    let version = |files: &FileUpload| {
        Ok((files.name.clone(), content_id(&files.tree).map_err(Fault::of)?.to_string()))
    };
    files.iter().map(version).collect()
}

/// A backup with shared networks is of a cluster that has networks of its own.
fn networks(stored: &Stored) -> Networks {
    match stored.networks.is_empty() {
        true => Networks::Node,
        false => Networks::Cluster { shared: stored.networks.clone() },
    }
}

/// The images of all services.
fn images(project: &Project) -> BTreeSet<String> {
    let model = project.model();
    let services = model["services"].as_object().into_iter().flat_map(|services| services.values());
    services.filter_map(|service| Some(service["image"].as_str()?.to_owned())).collect()
}

/// The keys of the volumes that the model declares.
fn volumes(project: &Project) -> BTreeSet<String> {
    let model = project.model();
    let volumes = model["volumes"].as_object().into_iter().flat_map(|volumes| volumes.keys());
    volumes.cloned().collect()
}

fn invalid(error: &dyn std::fmt::Display) -> Fault {
    Fault { code: ErrorCode::InvalidManifest, reason: error.to_string() }
}

/// The first problem, and how many more there are.
fn refused(problems: &Problems) -> Fault {
    let count = problems.errors().count() + problems.omitted;
    let first = problems.errors().next().map(|problem| problem.message.as_str());
    let first = first.unwrap_or("the manifest is invalid");
    match count {
        0 | 1 => invalid(&first),
        _ => invalid(&format!("{first} (and {} more problems)", count - 1)),
    }
}

//! From edited files to the request that applies them. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use jaco_compose::{
    EnvFiles, Environment, Images, Input, JacoYaml, Loaded, Options, Problems, Project, UploadItem,
    UploadKind, UploadProblem, UploadProblemKind, UploadSource,
};
use jaco_json::difference::{changes, with_texts};
use jaco_proto::v1::{ApplyRequest, FileUpload, GetDeploymentResponse};
use jaco_types::ErrorCode;

use super::texts::{COMPOSE, ENVIRONMENT, OVERLAY, Texts};
use crate::error::CliError;
use crate::view::difference::Difference;

/// What the user has changed.
pub(super) struct Changed {
    /// Applies it, if the revision is still the one that was edited.
    pub(super) request: ApplyRequest,
    pub(super) difference: Difference,
    pub(super) warnings: Problems,
}

/// Files that were read.
struct Read {
    project: Project,
    overlay: Option<JacoYaml>,
    environment: Environment,
    warnings: Problems,
}

/// Compares the edited files, which are in `folder`, with those of the stored revision.
///
/// # Errors
/// All problems of the edited files; a changed name; a file that is not in the cluster.
pub(super) fn changed(
    stored: &GetDeploymentResponse,
    original: &Texts,
    edited: &Texts,
    folder: &Path,
) -> Result<Changed, CliError> {
    let refused = |problems| CliError::Manifest { problems };
    let before = read(original, folder).map_err(refused)?;
    let mut after = read(edited, folder).map_err(refused)?;
    after.environment.check(&after.project).map_err(refused)?;
    check_name(stored, &after)?;
    let options = Options {
        images: Images::AllowLocal,
        overrides: after.environment.overrides(),
        ..Options::default()
    };
    let resolved = jaco_compose::resolve(&after.project, after.overlay.as_ref(), &options);
    let resolved = resolved.map_err(refused)?;
    let warnings = std::mem::take(&mut after.warnings).and(resolved.warnings);
    let kept = Kept::of(stored, &before.project, &after.project)?;
    let (from, to) = (before.project.sent_model(), after.project.sent_model());
    let compose_json = to.to_string();
    let difference = Difference {
        deployment: stored.name.clone(),
        from: format!("revision {}", stored.revision),
        to: "edited".to_owned(),
        changes: changes(
            &with_texts(from, &original.overlay, &original.environment),
            &with_texts(to, &edited.overlay, &edited.environment),
        ),
    };
    let request = ApplyRequest {
        compose_json,
        overlay_yaml: edited.overlay.clone(),
        environment_toml: edited.environment.clone(),
        deployment: stored.name.clone(),
        binds: kept.binds,
        configs: kept.configs,
        secrets: kept.secrets,
        // Their size was checked when they were first applied.
        max_file_bytes: u64::MAX,
        based_on: stored.revision,
        ..ApplyRequest::default()
    };
    Ok(Changed { request, difference, warnings })
}

/// Reads the files as those of a project in `folder`. No other file is read, and no variable: the model is resolved.
fn read(texts: &Texts, folder: &Path) -> Result<Read, Problems> {
    let path = |name: &str| folder.join(name).display().to_string();
    let compose = path(COMPOSE);
    let files = BTreeMap::from([(compose.clone(), texts.compose.clone().into_bytes())]);
    // Services of profiles that were not active are not stored: those that are stay.
    let profiles = vec!["*".to_owned()];
    let input = Input { env_files: EnvFiles::Nothing, profiles, ..Input::file(&compose) };
    let loaded = jaco_compose::load(&input, &files);
    let overlay = match texts.overlay.as_str() {
        "" => Ok(None),
        text => JacoYaml::parse(&path(OVERLAY), text.as_bytes()).map(Some),
    };
    let environment = Environment::parse(&path(ENVIRONMENT), texts.environment.as_bytes());
    match (loaded, overlay, environment) {
        (Ok(Loaded { project, warnings }), Ok(overlay), Ok(environment)) => {
            Ok(Read { project, overlay, environment, warnings })
        }
        (loaded, overlay, environment) => {
            let problems = [loaded.err(), overlay.err(), environment.err()];
            Err(problems.into_iter().flatten().reduce(Problems::and).unwrap_or_default())
        }
    }
}

/// Another name is another deployment.
fn check_name(stored: &GetDeploymentResponse, edited: &Read) -> Result<(), CliError> {
    let overlay = edited.overlay.as_ref().and_then(|overlay| overlay.deployment.as_deref());
    let names = [Some(edited.project.name()), overlay];
    let Some(other) = names.into_iter().flatten().find(|name| **name != stored.name) else {
        return Ok(());
    };
    Err(CliError::Refused {
        code: ErrorCode::InvalidRequest,
        message: format!("the files are of {}, and their name is {other} now", stored.name),
        help: Some("another name is another deployment: jaco apply creates it".to_owned()),
    })
}

/// The uploaded files that the edited project still uses.
struct Kept {
    binds: Vec<FileUpload>,
    configs: Vec<FileUpload>,
    secrets: Vec<FileUpload>,
}

impl Kept {
    fn of(
        stored: &GetDeploymentResponse,
        before: &Project,
        after: &Project,
    ) -> Result<Self, CliError> {
        let known = before.upload_items();
        let mut kept = Self { binds: Vec::new(), configs: Vec::new(), secrets: Vec::new() };
        let mut problems = Vec::new();
        for item in after.upload_items() {
            let (have, keep) = match item.kind {
                UploadKind::Bind(_) => (&stored.binds, &mut kept.binds),
                UploadKind::Config => (&stored.configs, &mut kept.configs),
                UploadKind::Secret => (&stored.secrets, &mut kept.secrets),
            };
            let found = have.iter().find(|have| have.name == item.name);
            match (&item.source, found.filter(|_| is_known(&known, &item))) {
                (_, Some(found)) => keep.push(found.clone()),
                // The cluster looks it up.
                (UploadSource::External(_), None) => {}
                (UploadSource::Path(_) | UploadSource::Variable(..), None) => {
                    let problem = UploadProblem {
                        kind: UploadProblemKind::Refused,
                        message: "the cluster does not have this file".to_owned(),
                        suggestion: "`jaco apply` uploads files; an edit keeps those that are \
                                     uploaded already"
                            .to_owned(),
                    };
                    problems.push((item, problem));
                }
            }
        }
        match problems.is_empty() {
            true => Ok(kept),
            false => Err(CliError::Manifest { problems: after.upload_problems(&problems) }),
        }
    }
}

/// Whether the project had the same item before: a config of the same name may be another file now.
fn is_known(known: &[UploadItem], item: &UploadItem) -> bool {
    let kind = |kind: UploadKind| match kind {
        UploadKind::Bind(_) => 0,
        UploadKind::Config => 1,
        UploadKind::Secret => 2,
    };
    known.iter().any(|known| {
        kind(known.kind) == kind(item.kind)
            && known.name == item.name
            && source(&known.source) == source(&item.source)
    })
}

/// Where content comes from; of a variable, its name.
fn source(source: &UploadSource) -> (u8, &str) {
    match source {
        UploadSource::Path(path) => (0, path),
        UploadSource::Variable(name, _) => (1, name),
        UploadSource::External(name) => (2, name),
    }
}

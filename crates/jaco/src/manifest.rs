//! From the files that a user names to what is sent: the compose files as one model, and jaco.yaml.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jaco_compose::{
    EnvFiles, Images, Input, JacoYaml, Loaded, Options, Problems, Project, ReferenceKind,
};
use jaco_types::ErrorCode;

use crate::disk::{Disk, STDIN};
use crate::error::{CliError, count};

/// Names that are looked for, in this order, when none is given.
const COMPOSE_NAMES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];
const OVERLAY_NAMES: [&str; 2] = ["jaco.yaml", "jaco.yml"];

/// Which files to read.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ManifestArgs {
    /// A compose file, a jaco.yaml, or a folder that holds them; the current folder if left out
    ///
    /// In a folder, compose.yaml (or compose.yml, docker-compose.yaml, docker-compose.yml) is read,
    /// and jaco.yaml where there is one. A compose file that is named is read alone.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A compose file, `-` for stdin; each further one is laid over those before it
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A file with variables for ${…}, instead of .env; later ones win
    #[arg(long = "env", value_name = "FILE")]
    pub(crate) env_files: Vec<PathBuf>,
    /// A profile whose services run as well
    #[arg(long = "profile", value_name = "NAME")]
    pub(crate) profiles: Vec<String>,
    /// The deployment's name, where jaco.yaml names none; else the name that compose would use
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Take services with `build`, if they also name an image: every node is said to have it
    #[arg(long)]
    pub(crate) local_images: bool,
}

/// The files that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The compose files, in order.
    pub(crate) compose: Vec<PathBuf>,
    /// jaco.yaml.
    pub(crate) overlay: Option<PathBuf>,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// The model.
    pub(crate) project: Project,
    /// jaco.yaml, understood.
    overlay: Option<JacoYaml>,
    /// jaco.yaml as it is written; empty if there is none.
    pub(crate) overlay_text: String,
    /// What is worth a warning.
    pub(crate) warnings: Problems,
}

impl Manifest {
    /// Finds and reads what the user names, and sees whether JACO can run it.
    ///
    /// # Errors
    /// When there is nothing to read, or what is read has problems: all of them.
    pub(crate) fn checked(args: &ManifestArgs) -> Result<Self, CliError> {
        let mut manifest = Self::load(args)?;
        let images = if args.local_images { Images::AllowLocal } else { Images::FromRegistry };
        let options = Options { images, ..Options::default() };
        let resolved =
            jaco_compose::resolve(&manifest.project, manifest.overlay.as_ref(), &options);
        let resolved = resolved.map_err(|problems| CliError::Manifest { problems })?;
        refuse_files_beside(&manifest.project)?;
        manifest.warnings = std::mem::take(&mut manifest.warnings).and(resolved.warnings);
        Ok(manifest)
    }

    /// Finds and reads what the user names.
    ///
    /// # Errors
    /// When there is nothing to read, or what is read has problems: all of them.
    pub(crate) fn load(args: &ManifestArgs) -> Result<Self, CliError> {
        let found = find(args)?;
        let overlay_text = found.overlay.as_deref().map(read_text).transpose()?;
        let overlay = overlay_text.as_ref().map(|text| {
            let name = found.overlay.as_deref().map(shown).unwrap_or_default();
            JacoYaml::parse(&name, text.as_bytes())
        });
        let (overlay, broken) = match overlay {
            None => (None, None),
            Some(Ok(overlay)) => (Some(overlay), None),
            Some(Err(problems)) => (None, Some(problems)),
        };
        let input = input(args, &found, overlay.as_ref())?;
        let disk = Disk::with_stdin_of(&input.files)
            .map_err(|error| CliError::local("cannot read stdin", error))?;
        // Both are read whatever the other one has: all problems are told at once.
        let loaded = match (jaco_compose::load(&input, &disk), broken) {
            (Ok(loaded), None) => loaded,
            (Ok(_), Some(problems)) | (Err(problems), None) => {
                return Err(CliError::Manifest { problems });
            }
            (Err(compose), Some(overlay)) => {
                return Err(CliError::Manifest { problems: overlay.and(compose) });
            }
        };
        let Loaded { project, warnings } = loaded;
        Ok(Self { project, overlay, overlay_text: overlay_text.unwrap_or_default(), warnings })
    }
}

/// Files that lie beside the compose file are on this machine only. Nodes do not get them yet, and a
/// container that starts without them is worse than one that does not start.
fn refuse_files_beside(project: &Project) -> Result<(), CliError> {
    let needed = project.references().iter().filter_map(|reference| {
        let what = match reference.kind {
            ReferenceKind::ProjectBind => "mounted into service",
            ReferenceKind::Config => "content of config",
            ReferenceKind::Secret => "content of secret",
            // Folded into the model already, or the node's own.
            ReferenceKind::EnvFile | ReferenceKind::LabelFile | ReferenceKind::HostBind => {
                return None;
            }
        };
        Some(format!("{} ({what} {})", reference.path, reference.owner))
    });
    let needed: Vec<String> = needed.collect();
    if needed.is_empty() {
        return Ok(());
    }
    Err(CliError::Outcome {
        label: ErrorCode::InvalidManifest.as_str(),
        exit: ErrorCode::InvalidManifest.exit_code(),
        message: format!(
            "{} beside the compose file would be needed on the nodes, and is not delivered to them yet",
            count(needed.len(), "file or folder")
        ),
        because: needed,
        help: vec![
            "put the files into the image, use a named volume, or an absolute path that each node \
             (or each host the service is pinned to) has"
                .to_owned(),
        ],
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn read_text(path: &Path) -> Result<String, CliError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| CliError::Local {
        what: format!("cannot read {}", path.display()),
        source: error,
    };
    let bytes = jaco_compose::Files::read(&Disk::default(), &shown(path));
    let bytes = bytes.map_err(|error| failed(error.into()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.into()))
}

/// Which files are meant.
fn find(args: &ManifestArgs) -> Result<Found, CliError> {
    let named = args.file.clone();
    if !args.files.is_empty() {
        return Ok(Found { compose: args.files.clone(), overlay: named });
    }
    let path = named.unwrap_or_else(|| PathBuf::from("."));
    if path.is_dir() {
        let overlay = first(&path, &OVERLAY_NAMES);
        return Ok(Found { compose: vec![compose_in(&path)?], overlay });
    }
    let is_overlay = path.file_name().is_some_and(|name| OVERLAY_NAMES.iter().any(|n| name == *n));
    if is_overlay {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let compose = compose_in(folder.unwrap_or(Path::new(".")))?;
        return Ok(Found { compose: vec![compose], overlay: Some(path) });
    }
    Ok(Found { compose: vec![path], overlay: None })
}

fn compose_in(folder: &Path) -> Result<PathBuf, CliError> {
    first(folder, &COMPOSE_NAMES).ok_or_else(|| {
        let message = format!("there is no compose file in {}", folder.display());
        let help = format!("name one, or call it {}", COMPOSE_NAMES[0]);
        CliError::usage(message, help)
    })
}

fn first(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    // `./compose.yaml` is read as a detour in messages.
    let join = |name: &&str| match folder == Path::new(".") {
        true => PathBuf::from(name),
        false => folder.join(name),
    };
    names.iter().map(join).find(|path| path.is_file())
}

fn input(
    args: &ManifestArgs,
    found: &Found,
    overlay: Option<&JacoYaml>,
) -> Result<Input, CliError> {
    let files: Vec<String> = found.compose.iter().map(|path| shown(path)).collect();
    let mut input = Input::file(files.first().map_or(STDIN, String::as_str));
    input.files = files;
    // Absolute, as the official tool has it: `.` gives no name, and a model must not depend on
    // where its user stood.
    if let Ok(folder) = std::path::absolute(&input.project_dir) {
        input.project_dir = jaco_compose::paths::clean(&shown(&folder));
    }
    input.name = name(args, overlay)?;
    input.env = variables();
    input.profiles.clone_from(&args.profiles);
    // Like every path on a command line, from where the user stands; jaco.yaml's from where it is.
    let here = std::env::current_dir().unwrap_or_default();
    let beside = found.overlay.as_deref().and_then(Path::parent).map(|folder| here.join(folder));
    let named = overlay.and_then(|overlay| overlay.environment.as_ref());
    if !args.env_files.is_empty() {
        let files = args.env_files.iter().map(|path| shown(&here.join(path)));
        input.env_files = EnvFiles::Listed(files.collect());
    } else if let Some(path) = named {
        let path = beside.unwrap_or(here).join(path);
        input.env_files = EnvFiles::Listed(vec![shown(&path)]);
    }
    Ok(input)
}

/// The deployment's name, if it is not compose's to find.
fn name(args: &ManifestArgs, overlay: Option<&JacoYaml>) -> Result<Option<String>, CliError> {
    let written = overlay.map(|overlay| overlay.deployment.clone());
    match (&args.name, written) {
        (Some(flag), Some(written)) if *flag != written => {
            let message = format!("--name says {flag} and jaco.yaml says {written}");
            Err(CliError::usage(message, "leave out one of them"))
        }
        (flag, written) => Ok(flag.clone().or(written)),
    }
}

/// The environment; variables that are no text cannot be meant by a text file.
fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        folder
    }

    fn check(names: &[&str], named: &str, compose: Option<&str>, overlay: Option<&str>) {
        let folder = folder(names);
        let path = |name: &str| folder.path().join(name);
        let args = ManifestArgs { file: Some(path(named)), ..ManifestArgs::default() };
        let expected = compose
            .map(|compose| Found { compose: vec![path(compose)], overlay: overlay.map(path) });
        assert_eq!(find(&args).ok(), expected, "{names:?} {named}");
    }

    /// R-IN-1: an unmodified compose file is enough; jaco.yaml is found beside it.
    #[test]
    fn files_are_found() {
        check(&["compose.yaml"], "", Some("compose.yaml"), None);
        check(
            &["docker-compose.yml", "jaco.yaml"],
            "",
            Some("docker-compose.yml"),
            Some("jaco.yaml"),
        );
        check(&["compose.yml", "docker-compose.yml"], "", Some("compose.yml"), None);
        check(&["compose.yaml", "jaco.yaml"], "jaco.yaml", Some("compose.yaml"), Some("jaco.yaml"));
        check(&["compose.yaml", "jaco.yaml", "b.yaml"], "b.yaml", Some("b.yaml"), None);
        check(&["jaco.yaml"], "", None, None);
        check(&["jaco.yaml"], "jaco.yaml", None, None);
    }
}

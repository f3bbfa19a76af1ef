//! From the files that a user names to what is sent: the compose files as one model, and jaco.yaml.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jaco_compose::{EnvFiles, Input, Loaded, Problems};

use crate::disk::{Disk, STDIN};
use crate::error::CliError;

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
    /// The deployment's name, unless jaco.yaml names it; else the name that compose would use
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
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
    /// The model and its warnings.
    pub(crate) loaded: Loaded,
    /// jaco.yaml as it is written; empty if there is none.
    pub(crate) overlay: String,
}

/// Finds and reads what the user names.
///
/// # Errors
/// When there is nothing to read, or what is read has problems: all of them.
pub(crate) fn load(args: &ManifestArgs) -> Result<Manifest, CliError> {
    let found = find(args)?;
    let input = input(args, &found);
    let disk = Disk::with_stdin_of(&input.files)
        .map_err(|error| CliError::local("cannot read stdin", error))?;
    let loaded = jaco_compose::load(&input, &disk).map_err(manifest_error)?;
    let overlay = match &found.overlay {
        Some(path) => read_overlay(path)?,
        None => String::new(),
    };
    Ok(Manifest { loaded, overlay })
}

/// Problems as an error.
pub(crate) fn manifest_error(problems: Problems) -> CliError {
    CliError::Manifest { problems }
}

fn read_overlay(path: &Path) -> Result<String, CliError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| CliError::Local {
        what: format!("cannot read {}", path.display()),
        source: error,
    };
    let bytes = jaco_compose::Files::read(&Disk::default(), &path.display().to_string());
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

fn input(args: &ManifestArgs, found: &Found) -> Input {
    let text = |path: &PathBuf| path.display().to_string();
    let files: Vec<String> = found.compose.iter().map(text).collect();
    let mut input = Input::file(files.first().map_or(STDIN, String::as_str));
    input.files = files;
    // Absolute, as the official tool has it: `.` gives no name, and a model must not depend on
    // where its user stood.
    if let Ok(folder) = std::path::absolute(&input.project_dir) {
        input.project_dir = jaco_compose::paths::clean(&text(&folder));
    }
    input.name.clone_from(&args.name);
    input.env = variables();
    input.profiles.clone_from(&args.profiles);
    if !args.env_files.is_empty() {
        // Like every path on a command line, from where the user stands.
        let here = std::env::current_dir().unwrap_or_default();
        input.env_files =
            EnvFiles::Listed(args.env_files.iter().map(|path| text(&here.join(path))).collect());
    }
    input
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

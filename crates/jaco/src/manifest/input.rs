//! The input of the compose loader: files, variables and the project's folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jaco_compose::{EnvFiles, Environment, Input, JacoYaml, environment};

use super::args::{ManifestArgs, environment_name};
use super::disk::{Disk, STDIN};
use super::find::Found;
use crate::error::CliError;
use crate::opening::Opening;

/// The input of the compose loader.
pub(super) fn input(
    args: &ManifestArgs,
    found: &Found,
    overlay: Option<&JacoYaml>,
    environment: &Environment,
) -> Result<Input, CliError> {
    let files: Vec<String> = found.compose.iter().map(|path| display(path)).collect();
    let mut input = Input::file(files.first().map_or(STDIN, String::as_str));
    input.files = files;
    // Absolute, as in `docker compose`: `.` yields no project name, and the model must not depend on the
    // current folder.
    if let Ok(folder) = std::path::absolute(&input.project_dir) {
        input.project_dir = jaco_compose::paths::clean(&display(&folder));
    }
    input.name = name(args, overlay)?;
    // Variables of the process override those of the environment's file.
    input.env = environment.variables();
    input.env.extend(variables());
    input.profiles.clone_from(&args.profiles);
    // Paths in arguments are relative to the current folder; paths in jaco.yaml to its folder.
    let here = std::env::current_dir().unwrap_or_default();
    let beside = found.overlay.as_deref().and_then(Path::parent).map(|folder| here.join(folder));
    let named = overlay.and_then(|overlay| overlay.environment.as_ref());
    if !args.env_files.is_empty() {
        let files = args.env_files.iter().map(|path| display(&here.join(path)));
        input.env_files = EnvFiles::Listed(files.collect());
    } else if let Some(path) = named {
        let path = beside.unwrap_or(here).join(path);
        input.env_files = EnvFiles::Listed(vec![display(&path)]);
    }
    Ok(input)
}

/// The name and the text of the environment's file. The text is empty if no environment is selected and
/// there is no default file.
pub(super) fn environment_text(
    args: &ManifestArgs,
    found: &Found,
    overlay: Option<&JacoYaml>,
) -> Result<(String, String), CliError> {
    let written = overlay.and_then(|overlay| overlay.config_selector.as_deref());
    let written = written.filter(|name| !name.is_empty()).map(environment_name).transpose();
    let written = written.map_err(|expected| {
        CliError::usage(
            "`config_selector` of jaco.yaml is not the name of an environment",
            expected,
        )
    })?;
    let chosen = args.environment.as_deref().or(written.as_deref());
    let beside = found.overlay.as_deref().or(found.compose.first().map(PathBuf::as_path));
    let folder = beside.and_then(Path::parent).unwrap_or(Path::new(""));
    let path = folder.join(environment::file_name(chosen));
    if path.is_file() {
        return Ok((display(&path), read_text(&path)?));
    }
    match chosen {
        None => Ok((display(&path), String::new())),
        Some(name) => {
            let message = format!("environment {name} has no file {}", path.display());
            Err(CliError::usage(message, "create it, or omit --env and `config_selector`"))
        }
    }
}

/// The deployment's name, unless the compose loader derives it.
fn name(args: &ManifestArgs, overlay: Option<&JacoYaml>) -> Result<Option<String>, CliError> {
    let written = overlay.and_then(|overlay| overlay.deployment.clone());
    match (&args.name, written) {
        (Some(flag), Some(written)) if *flag != written => {
            let message = format!("--name is {flag} and jaco.yaml has {written}");
            Err(CliError::usage(message, "omit one of them"))
        }
        (flag, written) => Ok(flag.clone().or(written)),
    }
}

/// The variables of the process that are UTF-8; a text file cannot refer to others.
fn variables() -> BTreeMap<String, String> {
    let utf8 = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let here = std::env::current_dir().ok().map(|folder| display(&folder));
    with_folder(utf8.collect(), here)
}

/// As Docker Compose does it: not every parent sets `PWD`, and without it `${PWD}/data` would be a path
/// of the host's root.
fn with_folder(
    mut variables: BTreeMap<String, String>,
    here: Option<String>,
) -> BTreeMap<String, String> {
    if let Some(here) = here {
        variables.entry("PWD".to_owned()).or_insert(here);
    }
    variables
}

/// A path in messages and in the model.
pub(super) fn display(path: &Path) -> String {
    path.display().to_string()
}

/// Reads a text file.
pub(super) fn read_text(path: &Path) -> Result<String, CliError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| CliError::Local {
        what: format!("cannot read {}", path.display()),
        source: error,
    };
    let bytes = jaco_compose::Files::read(&Disk::new(Opening::Open(None)), &display(path));
    let bytes = bytes.map_err(|error| failed(error.into()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-2
    #[test]
    fn the_current_folder_is_a_variable() {
        let filled = with_folder(BTreeMap::new(), Some("/work".to_owned()));
        assert_eq!(filled["PWD"], "/work");
        let set = BTreeMap::from([("PWD".to_owned(), "/link".to_owned())]);
        assert_eq!(with_folder(set.clone(), Some("/work".to_owned())), set);
        assert!(with_folder(BTreeMap::new(), None).is_empty());
    }
}

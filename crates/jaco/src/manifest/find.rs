//! Finds the files of a manifest.

use std::path::{Path, PathBuf};

use super::args::ManifestArgs;
use crate::error::CliError;

/// Default file names, in the order in which they are tried.
const COMPOSE_NAMES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];
const OVERLAY_NAMES: [&str; 2] = ["jaco.yaml", "jaco.yml"];

/// The files of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The compose files, in order.
    pub(super) compose: Vec<PathBuf>,
    /// jaco.yaml, if there is one.
    pub(super) overlay: Option<PathBuf>,
}

/// Finds the files that the arguments select.
pub(super) fn find(args: &ManifestArgs) -> Result<Found, CliError> {
    let found = selected(args)?;
    let overlay = found.overlay.filter(|_| !args.no_overlay);
    Ok(Found { overlay, ..found })
}

fn selected(args: &ManifestArgs) -> Result<Found, CliError> {
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
        let help = format!("give one, or name it {}", COMPOSE_NAMES[0]);
        CliError::usage(message, help)
    })
}

fn first(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    // Avoids `./compose.yaml` in messages.
    let join = |name: &&str| match folder == Path::new(".") {
        true => PathBuf::from(name),
        false => folder.join(name),
    };
    names.iter().map(join).find(|path| path.is_file())
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
        let both = folder(&["compose.yaml", "jaco.yaml"]);
        let file = Some(both.path().to_owned());
        let args = ManifestArgs { file, no_overlay: true, ..ManifestArgs::default() };
        assert_eq!(find(&args).unwrap().overlay, None);
        check(&["jaco.yaml"], "jaco.yaml", None, None);
    }
}

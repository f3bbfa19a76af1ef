//! Finds the files of a manifest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jaco_compose::dotenv;

use super::args::ManifestArgs;
use crate::error::CliError;

/// Default file names, in the order in which they are tried.
const COMPOSE_NAMES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];
const OVERLAY_NAMES: [&str; 2] = ["jaco.yaml", "jaco.yml"];
/// What is laid over the file that has a default name, as in `docker compose`.
const OVERRIDE_NAMES: [&str; 4] = [
    "compose.override.yml",
    "compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
];

/// The variable that lists the compose files of a folder, in its `.env` or that of the process.
const LIST: &str = "COMPOSE_FILE";
/// The variable with what is between two of them; a colon by default.
const SEPARATOR: &str = "COMPOSE_PATH_SEPARATOR";

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
    let found = selected(args, &|name| std::env::var(name).ok())?;
    let overlay = found.overlay.filter(|_| !args.no_overlay);
    Ok(Found { overlay, ..found })
}

fn selected(
    args: &ManifestArgs,
    of_process: &dyn Fn(&str) -> Option<String>,
) -> Result<Found, CliError> {
    let named = args.file.clone();
    if !args.files.is_empty() {
        return Ok(Found { compose: args.files.clone(), overlay: named });
    }
    let is_here = named.is_none();
    let path = named.unwrap_or_else(|| PathBuf::from("."));
    if path.is_dir() {
        let overlay = first(&path, &OVERLAY_NAMES);
        // The variables of the process are about the folder that it is in.
        let of_process = |name: &str| of_process(name).filter(|_| is_here);
        let compose = match listed(&path, &of_process) {
            Some(listed) => listed,
            None => compose_in(&path)?,
        };
        return Ok(Found { compose, overlay });
    }
    let is_overlay = path.file_name().is_some_and(|name| OVERLAY_NAMES.iter().any(|n| name == *n));
    if is_overlay {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let compose = compose_in(folder.unwrap_or(Path::new(".")))?;
        return Ok(Found { compose, overlay: Some(path) });
    }
    Ok(Found { compose: vec![path], overlay: None })
}

/// The files that variables list.
fn listed(folder: &Path, of_process: &dyn Fn(&str) -> Option<String>) -> Option<Vec<PathBuf>> {
    let text = std::fs::read_to_string(folder.join(".env")).unwrap_or_default();
    // What is wrong with it is told where the files are read.
    let of_folder = dotenv::parse(&text, dotenv::Format::Compose, &BTreeMap::new());
    let of_folder = of_folder.unwrap_or_default();
    let of = |name: &str| of_process(name).or_else(|| of_folder.get(name).cloned());
    let list = of(LIST).filter(|list| !list.is_empty())?;
    let separator = of(SEPARATOR).filter(|separator| !separator.is_empty());
    let paths = list.split(separator.as_deref().unwrap_or(":"));
    Some(paths.map(|path| in_folder(folder, path)).collect())
}

/// The compose file of a folder, and what is laid over it.
fn compose_in(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let compose = first(folder, &COMPOSE_NAMES).ok_or_else(|| {
        let message = format!("there is no compose file in {}", folder.display());
        let help = format!("give one, or name it {}", COMPOSE_NAMES[0]);
        CliError::usage(message, help)
    })?;
    Ok([Some(compose), first(folder, &OVERRIDE_NAMES)].into_iter().flatten().collect())
}

fn first(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().map(|name| in_folder(folder, name)).find(|path| path.is_file())
}

/// Avoids `./compose.yaml` in messages.
fn in_folder(folder: &Path, name: &str) -> PathBuf {
    match folder == Path::new(".") {
        true => PathBuf::from(name),
        false => folder.join(name),
    }
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

    /// R-IN-1: as in `docker compose`, an override file is laid over a file that has a default name, and a variable of the
    /// folder's `.env` or of the process lists others instead; a file that is named stands alone.
    #[test]
    fn overrides_and_lists_are_found() {
        let of = |names: &[&str], env: &str, named: &str, process: Option<&str>| {
            let folder = folder(names);
            if !env.is_empty() {
                std::fs::write(folder.path().join(".env"), env).unwrap();
            }
            let file = Some(folder.path().join(named));
            let args = ManifestArgs { file, ..ManifestArgs::default() };
            let of_process =
                |name: &str| (name == "COMPOSE_FILE").then(|| process.map(str::to_owned)).flatten();
            let found = selected(&args, &of_process).unwrap().compose;
            let name = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().to_owned();
            let found: Vec<_> = found.iter().map(name).collect();
            found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        let both = ["compose.yaml", "compose.override.yaml", "jaco.yaml", "b.yaml"];
        assert_eq!(of(&both, "", "", None), "compose.yaml compose.override.yaml");
        assert_eq!(of(&both, "", "jaco.yaml", None), "compose.yaml compose.override.yaml");
        assert_eq!(of(&both, "", "compose.yaml", None), "compose.yaml");
        let old = ["docker-compose.yml", "docker-compose.override.yml"];
        assert_eq!(of(&old, "", "", None), "docker-compose.yml docker-compose.override.yml");
        let listed = "COMPOSE_FILE=b.yaml:c/d.yaml\n";
        assert_eq!(of(&both, listed, "", None), "b.yaml c/d.yaml");
        assert_eq!(of(&both, listed, "compose.yaml", None), "compose.yaml");
        let other = "COMPOSE_PATH_SEPARATOR=;\nCOMPOSE_FILE=b.yaml;c.yaml\n";
        assert_eq!(of(&both, other, "", None), "b.yaml c.yaml");
        // The process is in another folder.
        assert_eq!(of(&both, "", "", Some("x.yaml")), "compose.yaml compose.override.yaml");
        let here = |list: &str| {
            selected(&ManifestArgs::default(), &|name| {
                (name == "COMPOSE_FILE").then(|| list.to_owned())
            })
        };
        assert_eq!(
            here("x.yaml:/y.yaml").unwrap().compose,
            ["x.yaml", "/y.yaml"].map(PathBuf::from)
        );
    }
}

//! From the files that a user names to what is sent: the compose files as one model, and jaco.yaml.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jaco_compose::{
    Contents, EnvFiles, Environment, Images, Input, JacoYaml, Loaded, Options, Problems, Project,
    Resolved, environment,
};

use crate::disk::{Disk, STDIN};
use crate::error::CliError;
use crate::ship::{FILE_BYTES_MAX, Freight};

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
    /// The environment: takes reservations and variables from jaco.services.<ENVIRONMENT>.toml
    ///
    /// The file lies beside jaco.yaml, or else beside the compose file, and has one table per service.
    /// Without an environment, jaco.services.toml is read where there is one; jaco.yaml's
    /// `config_selector` says the same in writing.
    #[arg(long = "env", value_name = "ENVIRONMENT", value_parser = environment_name)]
    pub(crate) environment: Option<String>,
    /// A file with variables for ${…}, instead of .env; later ones win
    #[arg(long = "env-file", value_name = "FILE")]
    pub(crate) env_files: Vec<PathBuf>,
    /// A profile whose services run as well
    #[arg(long = "profile", value_name = "NAME")]
    pub(crate) profiles: Vec<String>,
    /// The deployment's name, where jaco.yaml names none; else the name that compose would use
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What every service asks of its nodes, unless it says otherwise: "cpu=2 ram=3G zone=a"
    ///
    /// Wins key by key over `constraints` at the top of jaco.yaml; what a service says wins over both. It
    /// is kept with the revision.
    #[arg(long, value_name = "PAIRS")]
    pub(crate) constraints: Option<String>,
    /// Take services with `build`, if they also name an image: every node is said to have it
    #[arg(long = "allow-local-image")]
    pub(crate) local_images: bool,
    /// How much the files beside the compose file may be together: what jaco.yaml's `max_files` says,
    /// else 16 MiB
    ///
    /// Every node keeps them in memory, so that the loss of one loses no file.
    #[arg(long, value_name = "SIZE", value_parser = file_bytes)]
    pub(crate) max_files: Option<u64>,
}

fn file_bytes(text: &str) -> Result<u64, String> {
    let bytes = jaco_compose::units::parse_bytes(text);
    bytes.ok_or_else(|| "an amount such as 64MB or 500KB".to_owned())
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
    /// The environment's file, understood.
    environment: Environment,
    /// The environment's file as it is written; empty if there is none.
    pub(crate) environment_text: String,
    /// The folder that holds everything that can be sent.
    dir: PathBuf,
    /// How many bytes of files may be sent.
    pub(crate) max_file_bytes: u64,
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
        if let Some(constraints) = &args.constraints {
            manifest.project.constrain(constraints);
        }
        manifest
            .environment
            .check(&manifest.project)
            .map_err(|problems| CliError::Manifest { problems })?;
        let images = if args.local_images { Images::AllowLocal } else { Images::FromRegistry };
        let overrides = manifest.environment.overrides();
        let options = Options { images, overrides, ..Options::default() };
        let resolved =
            jaco_compose::resolve(&manifest.project, manifest.overlay.as_ref(), &options);
        let resolved = resolved.map_err(|problems| CliError::Manifest { problems })?;
        manifest.warnings = std::mem::take(&mut manifest.warnings).and(resolved.warnings);
        Ok(manifest)
    }

    /// What the cluster makes of it, given the versions of the files that go with it: from the model
    /// as it is sent, in which the project's folder counts for nothing.
    ///
    /// # Errors
    /// Every reason why the cluster cannot run it.
    pub(crate) fn as_admitted(&self, contents: Contents) -> Result<Resolved, CliError> {
        let refused = |problems| CliError::Manifest { problems };
        let model = self.project.sent_model().to_string();
        let project = jaco_compose::from_model(model.as_bytes()).map_err(refused)?;
        let overrides = self.environment.overrides();
        let options = Options { images: Images::AllowLocal, overrides, contents };
        jaco_compose::resolve(&project, self.overlay.as_ref(), &options).map_err(refused)
    }

    /// Reads what lies beside the compose files and goes with them, as much of it as may be sent.
    ///
    /// # Errors
    /// Every file that cannot be sent, at the place that asks for it.
    pub(crate) fn freight(&mut self) -> Result<Freight, CliError> {
        let (freight, warnings) = Freight::load(&self.project, &self.dir, self.max_file_bytes)?;
        self.warnings = std::mem::take(&mut self.warnings).and(warnings);
        Ok(freight)
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
        let environment_text = environment_text(args, &found, overlay.as_ref())?;
        let (file, text) = &environment_text;
        let environment = Environment::parse(file, text.as_bytes())
            .map_err(|problems| CliError::Manifest { problems })?;
        let input = input(args, &found, overlay.as_ref(), &environment)?;
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
        let written = overlay.as_ref().and_then(|overlay| overlay.max_file_bytes);
        Ok(Self {
            project,
            max_file_bytes: args.max_files.or(written).unwrap_or(FILE_BYTES_MAX),
            overlay,
            overlay_text: overlay_text.unwrap_or_default(),
            environment,
            environment_text: environment_text.1,
            dir: PathBuf::from(input.project_dir),
            warnings,
        })
    }
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
    environment: &Environment,
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
    // What the user's shell says wins, as it does over env files.
    input.env = environment.variables();
    input.env.extend(variables());
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

/// The environment's file: its name, and what it says. Nothing where none was chosen and none is
/// there.
fn environment_text(
    args: &ManifestArgs,
    found: &Found,
    overlay: Option<&JacoYaml>,
) -> Result<(String, String), CliError> {
    let written = overlay.and_then(|overlay| overlay.config_selector.as_deref());
    let written = written.filter(|name| !name.is_empty()).map(environment_name).transpose();
    let written = written.map_err(|expected| {
        CliError::usage("`config_selector` of jaco.yaml names no environment", expected)
    })?;
    let chosen = args.environment.as_deref().or(written.as_deref());
    let beside = found.overlay.as_deref().or(found.compose.first().map(PathBuf::as_path));
    let folder = beside.and_then(Path::parent).unwrap_or(Path::new(""));
    let path = folder.join(environment::file_name(chosen));
    if path.is_file() {
        return Ok((shown(&path), read_text(&path)?));
    }
    match chosen {
        None => Ok((shown(&path), String::new())),
        Some(name) => {
            let message = format!("environment {name} has no file {}", path.display());
            Err(CliError::usage(message, "write it, or leave out --env and `config_selector`"))
        }
    }
}

/// A name that is part of a file's name, and of no other path.
fn environment_name(text: &str) -> Result<String, String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && text.chars().all(letter) {
        return Ok(text.to_owned());
    }
    Err("letters, digits, `-`, `_` and `.` (a file with variables is named by --env-file)"
        .to_owned())
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

    const COMPOSE: &str =
        "services: {web: {image: i, environment: {M: '${JACO_WEB_MEMORY-none}'}}}";

    /// Memory that `web` has in its environment's file, as the container sees it; or the error.
    fn memory(files: &[(&str, &str)], environment: Option<&str>) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("compose.yaml"), COMPOSE).unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let args = ManifestArgs {
            file: Some(folder.path().to_owned()),
            environment: environment.map(str::to_owned),
            name: files.iter().all(|(name, _)| *name != "jaco.yaml").then(|| "shop".to_owned()),
            ..ManifestArgs::default()
        };
        let manifest = Manifest::checked(&args).map_err(|error| format!("{error:?}"))?;
        let model = manifest.project.model();
        Ok(model["services"]["web"]["environment"]["M"].as_str().unwrap().to_owned())
    }

    /// R-RES-2, R-RES-5: the environment's file is found by name, and its keys are variables.
    #[test]
    fn the_environment_chooses_its_file() {
        let default = ("jaco.services.toml", "[web]\nmemory = '64 MB'\n");
        let prod = ("jaco.services.prod.toml", "[web]\nmemory = '1 GB'\n");
        let selects = ("jaco.yaml", "deployment: shop\nconfig_selector: prod\n");
        assert_eq!(memory(&[], None).as_deref(), Ok("none"));
        assert_eq!(memory(&[default, prod], None).as_deref(), Ok("64 MB"));
        assert_eq!(memory(&[default, prod], Some("prod")).as_deref(), Ok("1 GB"));
        assert_eq!(memory(&[default, prod, selects], None).as_deref(), Ok("1 GB"));
        let missing = memory(&[default], Some("prod")).unwrap_err();
        assert!(missing.contains("jaco.services.prod.toml"), "{missing}");
    }

    /// R-RES-2: what would be overlooked is refused: a table of no service, a name that is a path.
    #[test]
    fn a_wrong_environment_is_refused() {
        let unknown = memory(&[("jaco.services.toml", "[wbe]\nmemory = 1\n")], None).unwrap_err();
        assert!(unknown.contains("no service `wbe`") && unknown.contains("`web`"), "{unknown}");
        let path = ("jaco.yaml", "deployment: shop\nconfig_selector: ../prod\n");
        assert!(memory(&[path], None).unwrap_err().contains("config_selector"));
        assert!(environment_name("a/b").is_err() && environment_name("eu-1.prod").is_ok());
    }
}

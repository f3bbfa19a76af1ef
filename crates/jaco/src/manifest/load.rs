//! A manifest: the compose files as one model, jaco.yaml, and the environment's file.

use std::path::{Path, PathBuf};

use jaco_compose::{
    Contents, Environment, Images, JacoYaml, Loaded, Options, Problems, Project, Resolved,
};

use super::args::ManifestArgs;
use super::disk::Disk;
use super::find::find;
use super::input::{display, environment_text, input, read_text};
use crate::error::CliError;
use crate::opening::Opening;
use crate::upload::{FILE_BYTES_MAX, Upload};

/// A manifest that was read.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// The compose model.
    pub(crate) project: Project,
    /// jaco.yaml, parsed.
    overlay: Option<JacoYaml>,
    /// The text of jaco.yaml; empty if there is none.
    pub(crate) overlay_text: String,
    /// The environment's file, parsed.
    environment: Environment,
    /// The text of the environment's file; empty if there is none.
    pub(crate) environment_text: String,
    /// The project's folder, which holds all files that can be uploaded.
    dir: PathBuf,
    /// The maximum number of bytes of uploaded files.
    pub(crate) max_file_bytes: u64,
    /// Problems that are warnings.
    pub(crate) warnings: Problems,
    /// Encrypted env files that were left closed.
    pub(crate) closed: Vec<String>,
    /// What is done with encrypted files.
    opening: Opening,
}

impl Manifest {
    /// Reads the manifest and checks that JACO supports it.
    ///
    /// # Errors
    /// If there are no files, or all problems that they have.
    pub(crate) fn checked(args: &ManifestArgs) -> Result<Self, CliError> {
        let mut manifest = Self::load(args)?;
        manifest.check(args)?;
        Ok(manifest)
    }

    /// As [`Manifest::checked`], with encrypted files left closed.
    ///
    /// # Errors
    /// Those of [`Manifest::checked`].
    pub(crate) fn checked_closed(args: &ManifestArgs) -> Result<Self, CliError> {
        let mut manifest = Self::load_closed(args)?;
        manifest.check(args)?;
        Ok(manifest)
    }

    /// Checks that JACO supports it.
    ///
    /// # Errors
    /// All problems that it has.
    pub(crate) fn check(&mut self, args: &ManifestArgs) -> Result<(), CliError> {
        if let Some(constraints) = &args.constraints {
            self.project.constrain(constraints);
        }
        self.environment
            .check(&self.project)
            .map_err(|problems| CliError::Manifest { problems })?;
        let images = if args.local_images { Images::AllowLocal } else { Images::FromRegistry };
        let overrides = self.environment.overrides();
        let options = Options { images, overrides, ..Options::default() };
        let resolved = jaco_compose::resolve(&self.project, self.overlay.as_ref(), &options);
        let resolved = resolved.map_err(|problems| CliError::Manifest { problems })?;
        self.warnings = std::mem::take(&mut self.warnings).and(resolved.warnings);
        Ok(())
    }

    /// The project's folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The services as the cluster resolves them, given the versions of the uploaded files. Computed from
    /// the model as it is sent, which does not depend on the project's folder.
    ///
    /// # Errors
    /// All problems that the cluster would report.
    pub(crate) fn as_admitted(&self, contents: Contents) -> Result<Resolved, CliError> {
        let refused = |problems| CliError::Manifest { problems };
        let model = self.project.sent_model().to_string();
        let project = jaco_compose::from_model(model.as_bytes()).map_err(refused)?;
        let overrides = self.environment.overrides();
        let options =
            Options { images: Images::AllowLocal, overrides, contents, ..Options::default() };
        jaco_compose::resolve(&project, self.overlay.as_ref(), &options).map_err(refused)
    }

    /// Reads the files to upload, up to the limit.
    ///
    /// # Errors
    /// Every file that cannot be uploaded, with the position that refers to it.
    pub(crate) fn upload(&mut self) -> Result<Upload, CliError> {
        let (upload, warnings) =
            Upload::load(&self.project, &self.dir, self.max_file_bytes, &self.opening)?;
        self.warnings = std::mem::take(&mut self.warnings).and(warnings);
        Ok(upload)
    }

    /// Reads the manifest without checking its support.
    ///
    /// # Errors
    /// If there are no files, or all problems that they have.
    pub(crate) fn load(args: &ManifestArgs) -> Result<Self, CliError> {
        Self::read(args, Opening::by(&args.identities)?)
    }

    /// As [`Manifest::load`], with encrypted files left closed: what is in them is missing.
    ///
    /// # Errors
    /// Those of [`Manifest::load`].
    pub(crate) fn load_closed(args: &ManifestArgs) -> Result<Self, CliError> {
        Self::read(args, Opening::Leave)
    }

    fn read(args: &ManifestArgs, opening: Opening) -> Result<Self, CliError> {
        let found = find(args)?;
        let overlay_text = found.overlay.as_deref().map(read_text).transpose()?;
        let overlay = overlay_text.as_ref().map(|text| {
            let name = found.overlay.as_deref().map(display).unwrap_or_default();
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
        let disk = Disk::with_stdin_of(&input.files, opening.clone())
            .map_err(|error| CliError::local("cannot read stdin", error))?;
        // Both are parsed even if the other one has problems, to report all problems at once.
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
            closed: disk.closed(),
            opening,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::environment_name;
    use super::*;

    const COMPOSE: &str =
        "services: {web: {image: i, environment: {M: '${JACO_WEB_MEMORY-none}'}}}";

    /// The memory of `web` in its environment's file, as the container sees it; or the error.
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
    fn environment_selects_its_file() {
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

    /// R-RES-2: a table without a service and an environment that is a path are refused.
    #[test]
    fn invalid_environment_is_refused() {
        let unknown = memory(&[("jaco.services.toml", "[wbe]\nmemory = 1\n")], None).unwrap_err();
        assert!(unknown.contains("no service `wbe`") && unknown.contains("`web`"), "{unknown}");
        let path = ("jaco.yaml", "deployment: shop\nconfig_selector: ../prod\n");
        assert!(memory(&[path], None).unwrap_err().contains("config_selector"));
        assert!(environment_name("a/b").is_err() && environment_name("eu-1.prod").is_ok());
    }
}

//! The arguments that select a manifest.

use std::path::PathBuf;

/// The arguments that select a manifest.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ManifestArgs {
    /// A compose file, a jaco.yaml, or their folder [default: the current folder]
    ///
    /// In a folder, compose.yaml (or compose.yml, docker-compose.yaml, docker-compose.yml) is read,
    /// compose.override.yaml (or with one of the other names) over it if there is one, or else the files
    /// that COMPOSE_FILE lists; and jaco.yaml if there is one. A compose file given by name is read alone.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A compose file, `-` for stdin; later files override earlier ones
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The environment: reads reservations and variables from jaco.services.<ENVIRONMENT>.toml
    ///
    /// The file is beside jaco.yaml, else beside the compose file, and has one table per service. Without
    /// an environment, jaco.services.toml is read if there is one. `config_selector` in jaco.yaml selects
    /// an environment too.
    #[arg(long = "env", value_name = "ENVIRONMENT", value_parser = environment_name)]
    pub(crate) environment: Option<String>,
    /// A file with variables for ${…}, instead of .env; later files override earlier ones
    #[arg(long = "env-file", value_name = "FILE")]
    pub(crate) env_files: Vec<PathBuf>,
    /// Open env files and files of secrets that end in `.age` with the keys of this file, as `age-keygen` writes it; can be
    /// repeated
    ///
    /// What is in them is opened in memory, by this command only.
    #[arg(
        long = "identity",
        value_name = "FILE",
        env = "JACO_AGE_IDENTITY",
        hide_env_values = true
    )]
    pub(crate) identities: Vec<PathBuf>,
    /// A profile to enable
    #[arg(long = "profile", value_name = "NAME")]
    pub(crate) profiles: Vec<String>,
    /// Leave jaco.yaml out, also if the folder or the applied revision has one
    #[arg(long)]
    pub(crate) no_overlay: bool,
    /// The deployment's name [default: that of jaco.yaml, else the compose project name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Default constraints of the services: "cpu=2 ram=3G zone=a"
    ///
    /// Each key overrides `constraints` at the top of jaco.yaml, and is overridden by the service. They are
    /// stored with the revision.
    #[arg(long, value_name = "PAIRS")]
    pub(crate) constraints: Option<String>,
    /// Services with `build` and `image` use an image that is on every node already
    #[arg(long = "allow-local-image")]
    pub(crate) local_images: bool,
    /// Maximum total size of uploaded files [default: `max_files` of jaco.yaml, else 16 MiB]
    ///
    /// Every node keeps all files in memory, so that the loss of a node loses no file.
    #[arg(long, value_name = "SIZE", value_parser = file_bytes)]
    pub(crate) max_files: Option<u64>,
}

fn file_bytes(text: &str) -> Result<u64, String> {
    let bytes = jaco_compose::units::parse_bytes(text);
    bytes.ok_or_else(|| "give a size such as 64MB or 500KB".to_owned())
}

/// Checks the name of an environment, which is a part of a file name.
pub(super) fn environment_name(text: &str) -> Result<String, String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && text.chars().all(letter) {
        return Ok(text.to_owned());
    }
    Err("give letters, digits, `-`, `_` and `.` (--env-file takes a file with variables)"
        .to_owned())
}

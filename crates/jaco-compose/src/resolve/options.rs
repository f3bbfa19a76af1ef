//! What a resolve is given beside the project and the overlay.

use std::collections::BTreeMap;

/// What a resolve is done with, besides the project and the overlay.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How services that have to be built are treated.
    pub images: Images,
    /// Versions of the contents of uploaded files.
    pub contents: Contents,
    /// Reservations of the chosen environment, by service.
    pub overrides: BTreeMap<String, Override>,
}

/// The reservation of one service in the chosen environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Override {
    /// Memory, as in jaco.yaml: megabytes without a unit.
    pub memory: Option<String>,
    /// Processor time, as in jaco.yaml: megahertz without a unit.
    pub cpu: Option<String>,
}

/// How services with a `build` section are treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Images {
    /// They are accepted if they also name an image, which is pulled as any other.
    #[default]
    FromRegistry,
    /// The same, and the image must already be on every node.
    AllowLocal,
}

/// Versions of contents of files, so that a changed file is a changed container. The texts are
/// opaque: a digest, or the version of a secret, whose digest should not be stored in clear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// By name of the config.
    pub configs: BTreeMap<String, String>,
    /// By name of the secret.
    pub secrets: BTreeMap<String, String>,
    /// By path of the uploaded file or folder, as in the model.
    pub binds: BTreeMap<String, String>,
}

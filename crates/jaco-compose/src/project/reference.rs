//! Files that a project refers to.

/// A file beside the compose file that a node will need, or that was read on the way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// What it is for.
    pub kind: ReferenceKind,
    /// The path, clean, as the project folder was given.
    pub path: String,
    /// Who needs it: a service, or the name of a config or secret.
    pub owner: String,
}

/// What a referenced file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// A file or folder below the project folder, mounted into a service.
    ProjectBind,
    /// A path of the node itself, which is not uploaded.
    HostBind,
    /// The content of a config.
    Config,
    /// The content of a secret.
    Secret,
    /// Variables of a service; folded into its environment already.
    EnvFile,
    /// Labels of a service; folded into its labels already.
    LabelFile,
}

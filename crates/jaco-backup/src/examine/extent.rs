//! The part of a backup to restore.

use std::collections::BTreeSet;

use jaco_compose::{UploadKind, UploadSource, from_model};
use jaco_types::NamedKind;

use crate::{Backup, Damage};

/// The part of a backup to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    All,
    /// These deployments, the configs and secrets they refer to, and their disabled allocations.
    Only(BTreeSet<String>),
}

impl Extent {
    /// Whether a deployment belongs to it.
    #[must_use]
    pub fn has(&self, deployment: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(deployment),
        }
    }
}

/// The configs and secrets that the selected deployments refer to; `None` if everything is selected.
///
/// # Errors
/// If the file can no longer be read.
pub fn referenced(
    backup: &Backup,
    extent: &Extent,
) -> Result<Option<BTreeSet<(&'static str, String)>>, Damage> {
    let Extent::Only(names) = extent else { return Ok(None) };
    let mut referenced = BTreeSet::new();
    for name in names {
        let Some(deployment) = backup.deployment(name)? else { continue };
        // A model that cannot be parsed is refused when it is applied.
        let Ok(project) = from_model(deployment.compose_json.as_bytes()) else { continue };
        for item in project.upload_items() {
            let UploadSource::External(name) = &item.source else { continue };
            let kind = match item.kind {
                UploadKind::Bind(_) => continue,
                UploadKind::Config => NamedKind::Config,
                UploadKind::Secret => NamedKind::Secret,
            };
            referenced.insert((kind.as_str(), name.clone()));
        }
    }
    Ok(Some(referenced))
}

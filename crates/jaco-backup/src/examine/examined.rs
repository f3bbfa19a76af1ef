//! The result of an examination of a backup. Pure.

use std::collections::BTreeSet;

use jaco_types::ErrorCode;

use super::kind::Kind;
use crate::Damage;

/// Why an object could not be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The code that a restore would get.
    pub code: ErrorCode,
    /// What is wrong.
    pub reason: String,
}

impl Fault {
    /// That of an object whose contents are missing or malformed.
    pub(super) fn of(damage: Damage) -> Self {
        Self { code: ErrorCode::BackupInvalid, reason: damage.to_string() }
    }
}

/// What a deployment consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// Its revision in the cluster that was backed up.
    pub revision: u64,
    /// Names of its services.
    pub services: BTreeSet<String>,
    /// Images of its services.
    pub images: BTreeSet<String>,
    /// Keys of its volumes, whose data is in no backup.
    pub volumes: BTreeSet<String>,
}

/// What is said of an object besides its name. Never a content or a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    None,
    /// A value.
    Text(String),
    /// A time.
    LengthMs(u64),
    /// How many files of a deployment were uploaded.
    Uploads(usize),
}

/// An object of the backup.
#[derive(Debug)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// What it is.
    pub detail: Detail,
    /// What it consists of, if it is a deployment that would be admitted.
    pub model: Option<Model>,
    /// Why it could not be restored.
    pub fault: Option<Fault>,
}

/// The objects of a backup, in the order of a restore.
#[derive(Debug, Default)]
pub struct Examined {
    /// One for each.
    pub objects: Vec<Object>,
}

impl Examined {
    /// A line for each object that could not be restored, with its code.
    #[must_use]
    pub fn faults(&self) -> Vec<(ErrorCode, String)> {
        let line = |object: &Object| {
            let Fault { code, reason } = object.fault.as_ref()?;
            let kind = object.kind.as_str();
            Some((*code, format!("{kind} {}: {reason} [{code}]", object.name)))
        };
        self.objects.iter().filter_map(line).collect()
    }

    /// What a restore of this backup does not bring back, one line each.
    #[must_use]
    pub fn absent(&self) -> Vec<String> {
        let mut absent = Vec::new();
        let volumes =
            self.listed(|model| &model.volumes, |name, volume| format!("{name}/{volume}"));
        if !volumes.is_empty() {
            absent.push(format!("data of volumes: {volumes}"));
        }
        let images = self.listed(|model| &model.images, |_, image| image.to_owned());
        if !images.is_empty() {
            absent.push(format!("images: {images}"));
        }
        absent.push(
            "placement, earlier revisions, tokens, certificates, keys, audit events".to_owned(),
        );
        absent
    }

    fn listed(
        &self,
        of: fn(&Model) -> &BTreeSet<String>,
        shown: fn(&str, &str) -> String,
    ) -> String {
        let mut all = BTreeSet::new();
        for object in &self.objects {
            let names = object.model.iter().flat_map(of);
            all.extend(names.map(|name| shown(&object.name, name)));
        }
        all.into_iter().collect::<Vec<String>>().join(", ")
    }
}

//! The result of an examination of a backup. Pure.

use std::collections::BTreeSet;

use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::outcome::Kind;
use crate::backup::Damage;
use crate::format::table::Table;
use crate::view::json::without_null;

/// Why an object could not be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: ErrorCode,
    pub(super) reason: String,
}

impl Fault {
    /// That of an object whose contents are missing or malformed.
    pub(super) fn of(damage: Damage) -> Self {
        Self { code: ErrorCode::BackupInvalid, reason: damage.to_string() }
    }
}

/// What a deployment consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) revision: u64,
    pub(super) services: BTreeSet<String>,
    pub(super) images: BTreeSet<String>,
    /// Keys of its volumes, whose data is in no backup.
    pub(super) volumes: BTreeSet<String>,
}

/// An object of the backup.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// What it is. Never a content or a password.
    pub(super) detail: String,
    pub(super) model: Option<Model>,
    pub(super) fault: Option<Fault>,
}

/// The objects of a backup, in the order of a restore.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    pub(super) objects: Vec<Object>,
}

impl Examined {
    /// A line for each object that could not be restored, with its code.
    pub(crate) fn faults(&self) -> Vec<(ErrorCode, String)> {
        let line = |object: &Object| {
            let Fault { code, reason } = object.fault.as_ref()?;
            let kind = object.kind.as_str();
            Some((*code, format!("{kind} {}: {reason} [{code}]", object.name)))
        };
        self.objects.iter().filter_map(line).collect()
    }

    /// The objects as JSON.
    pub(crate) fn json(&self) -> Value {
        self.objects.iter().map(object_json).collect()
    }

    /// What a restore of this backup does not bring back, one line each.
    pub(crate) fn absent(&self) -> Vec<String> {
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

    /// The objects as a table.
    pub(crate) fn text(&self) -> String {
        if self.objects.is_empty() {
            return "the backup is empty\n".to_owned();
        }
        let mut table = Table::new(&["KIND", "NAME", "DETAIL", "CANNOT BE RESTORED"]);
        for object in &self.objects {
            table.row([
                object.kind.as_str().to_owned(),
                object.name.clone(),
                object.detail.clone(),
                object.fault.as_ref().map(|fault| fault.reason.clone()).unwrap_or_default(),
            ]);
        }
        table.render()
    }
}

fn object_json(object: &Object) -> Value {
    let Object { kind, name, detail, model, fault } = object;
    let model = model.as_ref();
    without_null(json!({
        "kind": kind.as_str(),
        "name": name,
        "detail": Some(detail).filter(|detail| !detail.is_empty()),
        "revision": model.map(|model| model.revision),
        "services": model.map(|model| &model.services),
        "images": model.map(|model| &model.images),
        "volumes": model.map(|model| &model.volumes),
        "code": fault.as_ref().map(|fault| fault.code.as_str()),
        "reason": fault.as_ref().map(|fault| &fault.reason),
    }))
}

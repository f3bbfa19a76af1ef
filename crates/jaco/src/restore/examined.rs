//! Shows the result of an examination of a backup. Pure.

use jaco_backup::{Detail, Examined, Object};
use serde_json::{Value, json};

use crate::format::quantity::count;
use crate::format::table::Table;
use crate::format::time;
use crate::view::json::without_null;

/// The objects as JSON.
pub(crate) fn json(examined: &Examined) -> Value {
    examined.objects.iter().map(object_json).collect()
}

/// The objects as a table.
pub(crate) fn text(examined: &Examined) -> String {
    if examined.objects.is_empty() {
        return "the backup is empty\n".to_owned();
    }
    let mut table = Table::new(&["KIND", "NAME", "DETAIL", "CANNOT BE RESTORED"]);
    for object in &examined.objects {
        table.row([
            object.kind.as_str().to_owned(),
            object.name.clone(),
            detail(object),
            object.fault.as_ref().map(|fault| fault.reason.clone()).unwrap_or_default(),
        ]);
    }
    table.render()
}

fn detail(object: &Object) -> String {
    match &object.detail {
        Detail::None => String::new(),
        Detail::Text(text) => text.clone(),
        Detail::LengthMs(length_ms) => time::length(*length_ms),
        Detail::Uploads(uploads) => deployment(object, *uploads),
    }
}

fn deployment(object: &Object, uploads: usize) -> String {
    let Some(model) = &object.model else { return String::new() };
    let services: Vec<&str> = model.services.iter().map(String::as_str).collect();
    let files = match uploads {
        0 => String::new(),
        _ => format!("; {}", count(uploads, "upload")),
    };
    format!("revision {}: {}{files}", model.revision, services.join(", "))
}

fn object_json(object: &Object) -> Value {
    let Object { kind, name, model, fault, .. } = object;
    let model = model.as_ref();
    without_null(json!({
        "kind": kind.as_str(),
        "name": name,
        "detail": Some(detail(object)).filter(|detail| !detail.is_empty()),
        "revision": model.map(|model| model.revision),
        "services": model.map(|model| &model.services),
        "images": model.map(|model| &model.images),
        "volumes": model.map(|model| &model.volumes),
        "code": fault.as_ref().map(|fault| fault.code.as_str()),
        "reason": fault.as_ref().map(|fault| &fault.reason),
    }))
}

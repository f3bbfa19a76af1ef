//! Pushed images.

pub(crate) use jaco_json::image::json;
use jaco_proto::v1::PushedImageInfo;

use crate::format::quantity::size;
use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// Digits of an id in a table, as engines show them.
const ID_DIGITS: usize = 12;

/// Pushed images as a table.
pub(crate) fn table(images: &[PushedImageInfo], frame: &Frame) -> String {
    let mut table = Table::new(&["NAME", "ID", "SIZE", "NODES", "USED BY", "PUSHED", "BY"]);
    let mut rows: Vec<(String, &PushedImageInfo)> = Vec::new();
    for image in images {
        match image.names.as_slice() {
            [] => rows.push(("-".to_owned(), image)),
            names => rows.extend(names.iter().map(|name| (name.clone(), image))),
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, image) in rows {
        let id = image.id.strip_prefix("sha256:").unwrap_or(&image.id);
        let missing = match image.awaited.is_empty() {
            true => String::new(),
            false => format!(" (not yet {})", image.awaited.join(",")),
        };
        table.row([
            name,
            id.chars().take(ID_DIGITS).collect(),
            size(image.bytes),
            format!("{}{missing}", or_dash(&image.nodes)),
            used_by(image),
            time::ago(image.pushed_at_ms, frame.now_ms),
            image.by.clone(),
        ]);
    }
    table.render()
}

/// The services that run it, without their revisions.
fn used_by(image: &PushedImageInfo) -> String {
    let services = image.used_by.iter().map(|user| user.split('@').next().unwrap_or(user));
    let mut services: Vec<String> = services.map(str::to_owned).collect();
    services.dedup();
    or_dash(&services)
}

fn or_dash(names: &[String]) -> String {
    if names.is_empty() { "-".to_owned() } else { names.join(",") }
}

//! `jaco compose support`

use jaco_compose::support::{Class, Object, Shape, TOP_LEVEL};
use serde_json::{Value, json};

use crate::format::table::Table;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};

pub(super) fn run(session: &mut Session) -> CommandResult {
    session.done(&Support(rows()))
}

struct Row {
    /// The path of the key: `services.*.image`.
    path: String,
    class: Class,
    note: &'static str,
}

/// Every key with its path, in the order of the table.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    object(&TOP_LEVEL, "", &mut rows);
    rows
}

fn object(object: &'static Object, prefix: &str, rows: &mut Vec<Row>) {
    for key in object.keys {
        let path = format!("{prefix}{}", key.name);
        rows.push(Row { path: path.clone(), class: key.class, note: key.note });
        // Keys below a refused key are refused with it.
        if key.class != Class::Rejected {
            shape(&key.shape, &path, rows);
        }
    }
}

fn shape(of: &'static Shape, path: &str, rows: &mut Vec<Row>) {
    match of {
        Shape::Object(inner) | Shape::IntOr(inner) => object(inner, &format!("{path}."), rows),
        Shape::Map(inner, _) | Shape::MapOrNull(inner, _) => {
            shape(inner, &format!("{path}.*"), rows);
        }
        Shape::List(inner, _) | Shape::OneOrList(inner, _) => {
            shape(inner, &format!("{path}[]"), rows);
        }
        Shape::Short(_, inner) | Shape::OrNull(inner) => shape(inner, path, rows),
        Shape::Any
        | Shape::Str
        | Shape::Path
        | Shape::StrOrNum
        | Shape::Text
        | Shape::Label
        | Shape::Bool
        | Shape::Int
        | Shape::Number
        | Shape::Duration
        | Shape::Bytes
        | Shape::BytesText
        | Shape::Mode
        | Shape::OneOf(_)
        | Shape::Count
        | Shape::Command
        | Shape::Pairs(_) => {}
    }
}

struct Support(Vec<Row>);

impl Show for Support {
    fn json(&self) -> Value {
        let row =
            |row: &Row| json!({ "key": row.path, "class": row.class.as_str(), "note": row.note });
        self.0.iter().map(row).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["KEY", "CLASS", "NOTE"]);
        for Row { path, class, note } in &self.0 {
            table.row([path.clone(), class.as_str().to_owned(), (*note).to_owned()]);
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_listed_at_every_depth() {
        let rows = rows();
        let has = |path: &str| rows.iter().any(|row| row.path == path);
        assert!(has("services") && has("services.*.image"));
        assert!(has("services.*.deploy.resources.limits.memory"));
        assert!(has("services.*.build") && !has("services.*.build.context"));
        assert!(rows.iter().all(|row| !row.note.is_empty()));
    }
}

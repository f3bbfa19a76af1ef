//! Values that follow from reservations and tables.

use serde_json::{Value, json};

use super::without_null;
use crate::key_values::KeyValue;
use crate::table::Table;
use crate::ui::{Detail, Frame};

/// For programs.
pub(crate) fn json(row: &KeyValue) -> Value {
    without_null(json!({
        "service": row.service,
        "key": row.key,
        "value": row.value,
        "variable": row.variable,
    }))
}

/// For people.
pub(crate) fn table(rows: &[KeyValue], frame: &Frame) -> String {
    let mut head = vec!["SERVICE", "KEY", "VALUE"];
    if frame.detail == Detail::Wide {
        head.push("VARIABLE");
    }
    let mut table = Table::new(&head);
    for row in rows {
        let mut cells = vec![row.service.clone(), row.key.clone(), row.value.clone()];
        if frame.detail == Detail::Wide {
            cells.push(row.variable.clone().unwrap_or_default());
        }
        table.row(cells);
    }
    table.render()
}

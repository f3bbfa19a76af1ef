//! Tokens, without their secrets.

use jaco_proto::v1::TokenInfo;
use serde_json::{Value, json};

use super::{non_empty, without_null};
use crate::table::Table;
use crate::ui::Frame;
use crate::when;

/// For programs.
#[must_use]
pub fn json(token: &TokenInfo) -> Value {
    without_null(json!({
        "id": token.id,
        "role": token.role,
        "issued_at": when::rfc3339(token.issued_at_ms),
        "issued_by": non_empty(&token.issued_by),
        "expires_at": when::rfc3339(token.expires_at_ms),
        "revoked_at": when::rfc3339(token.revoked_at_ms),
        "uses_left": (token.role == "join").then_some(token.uses_left),
    }))
}

/// For people.
#[must_use]
pub fn table(tokens: &[TokenInfo], frame: &Frame) -> String {
    let mut table = Table::new(&["TOKEN", "ROLE", "ISSUED", "BY", "STATE"]);
    for token in tokens {
        table.row([
            token.id.clone(),
            token.role.clone(),
            when::ago(token.issued_at_ms, frame.now_ms),
            token.issued_by.clone(),
            state(token, frame.now_ms),
        ]);
    }
    table.render()
}

fn state(token: &TokenInfo, now_ms: i64) -> String {
    let is_past = |at_ms: i64| at_ms > 0 && at_ms <= now_ms;
    if token.revoked_at_ms > 0 {
        return "revoked".to_owned();
    }
    if is_past(token.expires_at_ms) {
        return "expired".to_owned();
    }
    match (token.role.as_str(), token.uses_left) {
        ("join", 0) => "used up".to_owned(),
        ("join", uses) => {
            let left = when::ago(2 * now_ms - token.expires_at_ms, now_ms);
            format!("{} left, expires in {left}", crate::error::count(uses as usize, "use"))
        }
        _ => "active".to_owned(),
    }
}

//! Tokens, without their secrets.

pub(crate) use jaco_json::token::json;
use jaco_json::token::kind;
use jaco_proto::v1::TokenInfo;

use crate::format::quantity::count;
use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// Tokens as a table.
pub(crate) fn table(tokens: &[TokenInfo], frame: &Frame) -> String {
    let columns =
        ["TOKEN", "KIND", "ROLE", "DEPLOYMENTS", "ISSUED", "BY", "EXPIRES", "LAST USED", "STATE"];
    let mut table = Table::new(&columns);
    for token in tokens {
        table.row([
            token.id.clone(),
            kind(token).to_owned(),
            token.role.clone(),
            token.deployments.join(","),
            time::ago(token.issued_at_ms, frame.now_ms),
            token.issued_by.clone(),
            time::left(token.expires_at_ms, frame.now_ms),
            time::ago(token.last_used_at_ms, frame.now_ms),
            state(token, frame.now_ms),
        ]);
    }
    table.render()
}

/// What its holder shows. Daemons of older versions know tokens only.
fn state(token: &TokenInfo, now_ms: i64) -> String {
    if token.revoked_at_ms > 0 {
        return "revoked".to_owned();
    }
    if token.expires_at_ms > 0 && token.expires_at_ms <= now_ms {
        return "expired".to_owned();
    }
    match (token.role.as_str(), token.uses_left) {
        ("join", 0) => "used up".to_owned(),
        ("join", uses) => format!("{} left", count(uses as usize, "use")),
        _ if token.former_until_ms > now_ms => {
            format!("active, former expires {}", time::left(token.former_until_ms, now_ms))
        }
        _ => "active".to_owned(),
    }
}

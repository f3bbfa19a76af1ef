//! What deployments may reach of the nodes.

use jaco_proto::v1::{PolicyInfo, UngrantedReaches};
use serde_json::{Value, json};

use crate::format::table::Table;

/// The policy as JSON.
pub(crate) fn json(policy: &PolicyInfo) -> Value {
    let grants = policy.grants.iter();
    let grants = grants.map(|one| json!({ "deployment": one.deployment, "reaches": one.reaches }));
    let ungranted = policy.ungranted.iter().map(|one| {
        json!({
            "deployment": one.deployment,
            "service": one.service,
            "reaches": one.reaches,
            "command": one.command,
        })
    });
    json!({
        "mode": policy.mode,
        "grants": grants.collect::<Vec<_>>(),
        "ungranted": ungranted.collect::<Vec<_>>(),
    })
}

/// The policy with its grants, and who has none.
pub(crate) fn text(policy: &PolicyInfo) -> String {
    let mut text = match policy.mode.as_str() {
        "refuse" => "policy refuse: a service is refused if it reaches its node without a grant\n",
        _ => "policy warn: a service that reaches its node is warned of\n",
    }
    .to_owned();
    let mut table = Table::new(&["DEPLOYMENT", "MAY REACH"]);
    for grant in &policy.grants {
        for reach in &grant.reaches {
            table.row([grant.deployment.clone(), reach.clone()]);
        }
    }
    if !policy.grants.is_empty() {
        text.push_str(&table.render());
    }
    text + &ungranted(policy)
}

/// Which services would be refused, and how to grant what they reach.
pub(crate) fn ungranted(policy: &PolicyInfo) -> String {
    let verb = if policy.mode == "refuse" { "is" } else { "would be" };
    let line = |one: &UngrantedReaches| {
        let UngrantedReaches { deployment, service, reaches, command } = one;
        let reaches = reaches.join(", ");
        format!(
            "{deployment}/{service} {verb} refused at its next change, for {reaches}; to grant it: {command}\n"
        )
    };
    policy.ungranted.iter().map(line).collect()
}

//! The difference of two models of a deployment. Pure.

use jaco_json::difference::Change;
use serde_json::{Value, json};

use crate::output::{Frame, Show};

/// Two models of a deployment, compared.
pub(crate) struct Difference {
    pub(crate) deployment: String,
    /// What the two are, for people: `revision 3`.
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) changes: Vec<Change>,
}

impl Show for Difference {
    fn json(&self) -> Value {
        let change =
            |change: &Change| json!({ "key": change.key, "from": change.from, "to": change.to });
        json!({
            "deployment": self.deployment,
            "from": self.from,
            "to": self.to,
            "changes": self.changes.iter().map(change).collect::<Value>(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        let Self { deployment, from, to, changes } = self;
        if changes.is_empty() {
            return format!("{deployment}: {from} and {to} are equal\n");
        }
        let mut text = format!("{deployment}: {from} → {to}\n");
        for Change { key, from, to } in changes {
            for (sign, side) in [('-', from), ('+', to)] {
                if let Some(value) = side {
                    text.push_str(&format!("{sign} {key}: {value}\n"));
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use jaco_json::difference::changes;

    use super::*;

    #[test]
    fn only_differences_are_shown() {
        let from = json!({ "services": {
            "web": { "image": "web:1", "command": ["a"], "environment": { "A": "1", "B": "2" } },
            "old": { "image": "old:1" },
        }});
        let to = json!({ "services": {
            "web": { "image": "web:2", "command": ["a", "b"], "environment": { "A": "1" } },
        }, "jaco.yaml": "deployment: shop" });
        let changes = changes(&from, &to);
        let difference =
            Difference { deployment: "shop".into(), from: "1".into(), to: "2".into(), changes };
        expect![[r#"
            shop: 1 → 2
            + jaco.yaml: "deployment: shop"
            - services.old.image: "old:1"
            - services.web.command: ["a"]
            + services.web.command: ["a","b"]
            - services.web.environment.B: "2"
            - services.web.image: "web:1"
            + services.web.image: "web:2"
        "#]]
        .assert_eq(&difference.text(&Frame { now_ms: 0, detail: crate::output::Detail::Short }));
    }
}

//! `on_node_loss`: what happens to replicas of an unreachable node (R-NODE-1).

use jaco_types::Millis;
use jaco_types::spec::OnNodeLoss;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::notation::units;
use crate::yaml::node::Node;

/// A node counts as down after this time without a heartbeat; no policy can act earlier.
const LEAST: Millis = Millis::from_secs(8);

/// The longest wait: certificates do not live longer.
const MOST: Millis = Millis::from_secs(365 * 24 * 3600);

/// `replace after D`, `replace`, `wait`, or `stop_self after D`.
pub(super) fn read(node: Option<&Node>, report: &mut Report) -> Option<OnNodeLoss> {
    let node = node?;
    let text = node.as_str()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let policy = match words[..] {
        ["replace"] => Some(OnNodeLoss::default()),
        ["wait"] => Some(OnNodeLoss::Wait),
        ["replace", "after", after] => {
            length(after).map(|after| OnNodeLoss::Replace { after: usual(after) })
        }
        ["stop_self", "after", after] => {
            length(after).map(|after| OnNodeLoss::StopSelf { after, grace: Millis(0) })
        }
        _ => None,
    };
    if policy.is_none() {
        report
            .error(node.pos, Code::InvalidValue, format!("`on_node_loss` cannot be `{text}`"))
            .expected("`replace after D`, `wait` or `stop_self after D`, D from 8s to 8760h");
    }
    policy
}

fn length(text: &str) -> Option<Millis> {
    let millis = Millis(units::parse_duration_nanos(text)? / 1_000_000);
    (LEAST <= millis && millis <= MOST).then_some(millis)
}

/// The minimum is the default, so that writing it out changes nothing.
fn usual(after: Millis) -> Millis {
    if after == LEAST { Millis(0) } else { after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::JacoYaml;

    fn policy(text: &str) -> Option<OnNodeLoss> {
        let text = format!("deployment: a\nservices: [{{name: web, on_node_loss: {text}}}]\n");
        let overlay = JacoYaml::parse("jaco.yaml", text.as_bytes()).ok()?;
        overlay.services[0].on_node_loss
    }

    /// R-NODE-1: the three policies, within bounds.
    #[test]
    fn policies_are_read_within_bounds() {
        let after = Millis::from_secs(30);
        assert_eq!(policy("wait"), Some(OnNodeLoss::Wait));
        assert_eq!(policy("replace after 30s"), Some(OnNodeLoss::Replace { after }));
        assert_eq!(policy("replace after 8s"), Some(OnNodeLoss::default()));
        let stop = OnNodeLoss::StopSelf { after, grace: Millis(0) };
        assert_eq!(policy("stop_self after 30s"), Some(stop));
        for wrong in ["stop_self", "wait after 30s", "replace after 7s", "replace after x", "die"] {
            assert_eq!(policy(wrong), None, "{wrong}");
        }
    }
}

//! Update and rollback policies.

use jaco_types::spec::{
    FailureAction, RollbackFailureAction, RollbackPolicy, UpdateOrder, UpdatePolicy,
};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::overlay::read_update;
use crate::overlay::types::{ServiceOverlay, UpdateOverlay};
use crate::resolve::scene::below;
use crate::yaml::node::Node;

pub(crate) fn update_policy(
    deploy: Option<&Node>,
    own: Option<&ServiceOverlay>,
    default_order: UpdateOrder,
    report: &mut Report,
) -> UpdatePolicy {
    let own_update = own.map(|own| own.update).unwrap_or_default();
    let chosen = either(own_update, read_update(below(deploy, &["update_config"]), report));
    let default = UpdatePolicy::default();
    UpdatePolicy {
        parallelism: chosen.parallelism.map_or(default.parallelism, parallelism),
        order: chosen.order.unwrap_or(default_order),
        step_timeout: chosen.step_timeout.unwrap_or(default.step_timeout),
        monitor: chosen.monitor,
        delay: chosen.delay.unwrap_or(default.delay),
        failure_action: chosen.failure_action.unwrap_or(default.failure_action),
        max_failure_permille: chosen.max_failure_permille.unwrap_or(default.max_failure_permille),
        rollback: rollback_policy(deploy, own.and_then(|own| own.rollback), default_order, report),
    }
}

fn rollback_policy(
    deploy: Option<&Node>,
    own: Option<UpdateOverlay>,
    default_order: UpdateOrder,
    report: &mut Report,
) -> RollbackPolicy {
    let action = below(deploy, &["rollback_config", "failure_action"]);
    if let Some(action) = action.filter(|action| action.as_str() == Some("rollback")) {
        let message = "`failure_action` of a rollback cannot be `rollback`";
        report.error(action.pos, Code::InvalidValue, message).expected("`pause` or `continue`");
    }
    let written = read_update(below(deploy, &["rollback_config"]), report);
    let chosen = either(own.unwrap_or_default(), written);
    let default = RollbackPolicy::default();
    RollbackPolicy {
        parallelism: chosen.parallelism.map_or(default.parallelism, parallelism),
        order: chosen.order.unwrap_or(default_order),
        delay: chosen.delay.unwrap_or(default.delay),
        monitor: chosen.monitor,
        failure_action: match chosen.failure_action {
            Some(FailureAction::Pause) => RollbackFailureAction::Pause,
            // `rollback` was refused above.
            Some(FailureAction::Continue | FailureAction::Rollback) | None => {
                RollbackFailureAction::Continue
            }
        },
        max_failure_permille: chosen.max_failure_permille.unwrap_or(default.max_failure_permille),
    }
}

/// As in Swarm, none at a time is all at once.
fn parallelism(written: u32) -> u32 {
    if written == 0 { UpdatePolicy::ALL_AT_ONCE } else { written }
}

/// Each part from jaco.yaml, or else from the compose file. A step's timeout is jaco.yaml's alone.
fn either(own: UpdateOverlay, written: UpdateOverlay) -> UpdateOverlay {
    UpdateOverlay {
        parallelism: own.parallelism.or(written.parallelism),
        delay: own.delay.or(written.delay),
        monitor: own.monitor.or(written.monitor),
        step_timeout: own.step_timeout,
        max_failure_permille: own.max_failure_permille.or(written.max_failure_permille),
        failure_action: own.failure_action.or(written.failure_action),
        order: own.order.or(written.order),
    }
}

//! Checks the hooks of a service before a node would have to refuse them.

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::yaml::access::items;
use crate::yaml::node::Map;

/// Hooks of one service. They share one grace period, and every container carries them.
const MAX_HOOKS: usize = 16;

/// Checks the hooks of one service.
pub(super) fn check(service: &Map, report: &mut Report) {
    let hooks = items(service, "pre_stop");
    if let Some(surplus) = hooks.get(MAX_HOOKS) {
        report
            .error(surplus.pos, Code::InvalidValue, "`pre_stop` has too many hooks")
            .expected(format!("at most {MAX_HOOKS}; one of them may run a script"));
    }
    for (index, hook) in hooks.iter().enumerate() {
        let command = hook.as_map().map(|hook| items(hook, "command")).unwrap_or_default();
        if command.is_empty() {
            let message = format!("`pre_stop[{index}].command` is empty");
            report
                .error(hook.pos, Code::InvalidValue, message)
                .expected("a program and its arguments");
        }
    }
}

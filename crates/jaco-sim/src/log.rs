//! The newest entries of the log as text, for whoever looks for the cause of a violation. Scripts cannot
//! show them: indices and times would change with every refinement of the loops.

use jaco_state::command::{Batch, DeploymentApply, Observe};
use jaco_state::{Change, Command, Entry};
use jaco_types::{Scheduling, StateIndex};

use crate::world::World;

impl World {
    /// The newest log entries, and the changes of each plan among them.
    #[must_use]
    pub fn newest_entries(&self, count: usize) -> Vec<String> {
        let all: Vec<&Entry> =
            self.consensus.entries(StateIndex(0), self.consensus.last()).collect();
        let newest = &all[all.len().saturating_sub(count)..];
        newest.iter().flat_map(|entry| describe_entry(entry)).collect()
    }
}

/// One line for the entry, and one for each change of a plan.
fn describe_entry(entry: &Entry) -> Vec<String> {
    let head = format!("[{}] {}ms by {}", entry.index, entry.at.0, entry.by);
    if let Command::Batch(Batch { based_on, changes }) = &entry.command {
        let changes = changes.iter().map(|change| format!("    {}", describe_change(change)));
        return std::iter::once(format!("{head}: plan based on {based_on}"))
            .chain(changes)
            .collect();
    }
    let what = describe_command(&entry.command);
    vec![format!("{head}: {what}")]
}

fn describe_command(command: &Command) -> String {
    if let Command::DeploymentApply(DeploymentApply { name, spec, .. }) = command {
        let services = spec.services.values();
        let services: Vec<String> =
            services.map(|it| format!("{} x{} {}", it.name, it.replicas, it.image)).collect();
        return format!("apply {name} {}", services.join(", "));
    }
    if let Command::Observe(Observe { observed, gone, .. }) = command {
        let seen = observed.iter().map(|it| format!("{} {}", it.id, it.state.as_str()));
        let gone = gone.iter().map(|id| format!("{id} gone"));
        let all: Vec<String> = seen.chain(gone).collect();
        return format!("observe {}", all.join(", "));
    }
    format!("{command:?}")
}

fn describe_change(change: &Change) -> String {
    if let Change::SchedulingSet { service, record } = change {
        return format!("record of {service}: {}", describe_record(record));
    }
    format!("{change:?}")
}

fn describe_record(record: &Scheduling) -> String {
    let rollout = record.rollout.as_ref().map(|it| {
        format!(
            "rollout to {} {} {}/{} {:?} {}",
            it.target_revision,
            it.state.as_str(),
            it.current_step,
            it.total_steps,
            it.rollback_progress,
            it.failure_reason
        )
    });
    let unplaced = record.unplaced.iter();
    let unplaced: Vec<String> =
        unplaced.map(|it| format!("{} x {} {:?}", it.count, it.reason, it.details)).collect();
    format!("{rollout:?} unplaced {unplaced:?}")
}

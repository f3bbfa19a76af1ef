//! The leader's loop that begins runs of jobs when they are due (R-JOB-2).

use jaco_types::{Identity, Millis};

use super::{Happening, World};
use crate::consensus::{Origin, Proposal};
use crate::network::MachineIx;
use crate::sabotage::Sabotage;

/// How often it looks at least, as the product does.
const LOOK_EVERY: Millis = Millis::from_secs(1);

impl World {
    /// A look of the leader that was elected for this term. Unlike the product's it does not wait for the answers to what it
    /// proposed before: a due time that is proposed twice begins one run all the same.
    pub(super) fn look_at_jobs(&mut self, ix: MachineIx, term: u64) {
        let machine = &mut self.machines[ix.0];
        let clock = machine.cluster_time(self.now);
        let Some(daemon) = &mut machine.daemon else { return };
        let Some(leading) = daemon.leading.as_mut().filter(|it| it.term == term) else { return };
        let (mut commands, next) = leading.due_runs(&daemon.state, clock);
        if self.sabotage == Some(Sabotage::MissDueTimes) {
            commands.clear();
        }
        let (origin, by) = (Origin::Jobs { machine: ix }, Identity::Scheduler);
        for command in commands {
            self.propose(ix, Proposal { origin, by: by.clone(), request: None, command });
        }
        let until = next.map_or(LOOK_EVERY, |next| next.since(clock));
        self.plan_in(
            until.clamp(Millis(1), LOOK_EVERY),
            Happening::LookAtJobs { machine: ix, term },
        );
    }
}

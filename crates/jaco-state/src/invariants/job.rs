//! Laws about runs of jobs (ST-23, ST-24).

use std::collections::BTreeSet;

use jaco_types::ServiceKey;

use super::{Law, Violations};
use crate::job::JobRecord;
use crate::state::ClusterState;

/// The most runs that are kept of a job.
const KEPT_MAX: usize = 100;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    let mut scheduled = BTreeSet::new();
    for deployment in state.deployments.values() {
        // Whether the desired revision is kept is a law of its own.
        let wanted = deployment.revisions.get(&deployment.revision);
        for (service, spec) in wanted.iter().flat_map(|wanted| &wanted.spec.services) {
            if spec.schedule.is_some() {
                let deployment = deployment.name.clone();
                scheduled.insert(ServiceKey { deployment, service: service.clone() });
            }
        }
    }
    for (service, record) in state.jobs.iter() {
        if !is_sound(record) {
            let subject = format!("runs of {service} are counted twice, or too many are kept");
            found.add(Law::RunsOnce, subject);
        }
        if record.modified > state.index {
            found.add(
                Law::NotFromTheFuture,
                format!("the record of {service} is newer than the state"),
            );
        }
    }
    let is_open =
        |service: &ServiceKey| state.jobs.get(service).is_some_and(|record| record.open.is_some());
    let between: BTreeSet<&ServiceKey> =
        scheduled.iter().filter(|service| !is_open(service)).collect();
    let waiting: BTreeSet<&ServiceKey> = state.disabled.waiting.keys().collect();
    for service in between.symmetric_difference(&waiting) {
        let subject = format!("{service} waits for its schedule, or does not, as it should not");
        found.add(Law::WaitsBetweenRuns, subject);
    }
}

/// Numbers go up, and no due time is ahead of what was dealt with.
fn is_sound(record: &JobRecord) -> bool {
    let runs = record.ended.iter().map(|ended| &ended.run).chain(&record.open);
    let numbers: Vec<u64> = runs.map(|run| run.number).collect();
    let ascends = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    let is_counted = numbers.last().is_none_or(|last| *last <= record.runs);
    let is_bounded = record.ended.len() <= KEPT_MAX && record.missed.len() <= KEPT_MAX;
    ascends && is_counted && is_bounded
}

//! What the planner keeps about each service, written only where it differs (R-LOOP-4).

use std::collections::BTreeMap;

use jaco_state::Change;
use jaco_types::rollout::WAITING_FOR_DEPENDENCY;
use jaco_types::spec::ServiceSpec;
use jaco_types::{Revision, Scheduling, Unplaced};

use crate::draft::{Draft, Pass, ServiceDraft};
use crate::eligibility::{Ineligible, Others, verdict};
use crate::node_table::NodeTable;
use crate::report::{NodeVerdict, NotPlaced};
use crate::rollout;
use crate::waiting::Waiting;

/// Writes the records of all services, wanted or not.
pub(crate) fn write_records(draft: &mut Draft<'_>) {
    for service in &mut draft.services {
        let not_placed: Vec<_> =
            service.waiting.iter().map(|waiting| explain(service, waiting, &draft.pass)).collect();
        service.record.unplaced = unplaced(&not_placed);
        service.record.planned_revision = service.deployment.revision;
        let under_way = rollout::under_way(service, &mut draft.pass);
        if let Some(rollout) = &mut service.record.rollout {
            rollout.under_way = under_way;
        }
        draft.pass.report.unplaced.extend(not_placed);
        if service.known != Some(&service.record) {
            let (service, record) = (service.key.clone(), Box::new(service.record.clone()));
            draft.pass.changes.push(Change::SchedulingSet { service, record });
        }
    }
    forget_unwanted(draft);
}

/// The record of a service that nobody wants any more keeps its counter, and nothing else.
fn forget_unwanted(draft: &mut Draft<'_>) {
    for (key, record) in &draft.records {
        let is_forgotten = record.planned_revision == Revision::default();
        if record.rollout.is_none() && record.unplaced.is_empty() && is_forgotten {
            continue;
        }
        if draft.services.binary_search_by(|service| service.key.cmp(key)).is_err() {
            // Its replicas are made for the first time again, if it comes back.
            let Scheduling { next_index, modified, .. } = **record;
            let record = Box::new(Scheduling { next_index, modified, ..Scheduling::default() });
            let service = (*key).clone();
            draft.pass.changes.push(Change::SchedulingSet { service, record });
        }
    }
}

fn unplaced(not_placed: &[NotPlaced]) -> Vec<Unplaced> {
    let mut unplaced: Vec<_> = not_placed
        .iter()
        .map(|entry| Unplaced {
            count: entry.count,
            reason: entry.reason.to_owned(),
            details: entry.details.clone(),
        })
        .collect();
    unplaced.sort_unstable();
    unplaced
}

fn explain(service: &ServiceDraft<'_>, waiting: &Waiting<'_>, pass: &Pass<'_>) -> NotPlaced {
    let fact = |key: &str, value: String| BTreeMap::from([(key.to_owned(), value)]);
    let place = |replica: &jaco_types::ReplicaId, node: &String| {
        BTreeMap::from([
            ("replica".to_owned(), replica.to_string()),
            ("node".to_owned(), node.clone()),
        ])
    };
    let (count, reason, details, spec) = match waiting {
        Waiting::Dependency { missing, unmet } => {
            (*missing, WAITING_FOR_DEPENDENCY, unmet.clone(), service.goal.spec)
        }
        Waiting::PinnedHosts { missing, hosts } => {
            let details = fact("missing", join(hosts));
            (*missing, "cannot_satisfy_host_placement", details, service.goal.spec)
        }
        Waiting::NoNode { missing } => {
            (*missing, "no_eligible_node", BTreeMap::new(), service.goal.spec)
        }
        Waiting::NoRoomOnNode { hosts } => {
            let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
            (count, "no_room_on_node", fact("nodes", join(hosts)), service.goal.spec)
        }
        Waiting::DataOnLostNode { replica, node } => {
            (1, "waiting_for_node", place(replica, node), service.goal.spec)
        }
        Waiting::ForLostNode { replica, node, policy } => {
            let mut details = place(replica, node);
            details.insert("on_node_loss".to_owned(), policy.as_str().to_owned());
            if let Some(silence) = policy.replaced_after() {
                details.insert("replaced_after".to_owned(), silence.to_string());
            }
            (1, "waiting_for_node", details, service.goal.spec)
        }
        Waiting::DataOnLeavingNode { replica, node } => {
            (1, "data_stays_on_node", place(replica, node), service.goal.spec)
        }
        Waiting::NoRoomToStart { replica, node } => {
            (1, "no_room_to_start", place(replica, node), service.goal.spec)
        }
        Waiting::NowhereToGo { replica, node, spec } => {
            (1, "no_eligible_node", place(replica, node), *spec)
        }
        Waiting::ForCompany { replica, beside } => {
            let mut details = fact("replica", replica.to_string());
            details.insert("beside".to_owned(), beside.clone());
            (1, "waiting_for_neighbour", details, service.goal.spec)
        }
        Waiting::NoRoomToRoll { replica } => {
            let details = fact("replica", replica.to_string());
            (1, "no_room_to_roll", details, service.goal.spec)
        }
    };
    let nodes = verdicts(&pass.nodes, service, waiting, spec);
    let counted = count_rules(&nodes);
    let details = counted.into_iter().chain(details).collect();
    NotPlaced { service: service.key.clone(), count, reason, details, nodes }
}

/// Every node's answer. Judged at the end of the pass, so that the same pass made again says the
/// same.
fn verdicts(
    nodes: &NodeTable<'_>,
    service: &ServiceDraft<'_>,
    waiting: &Waiting<'_>,
    spec: &ServiceSpec,
) -> Vec<NodeVerdict> {
    let data_on = match waiting {
        Waiting::DataOnLostNode { node, .. }
        | Waiting::DataOnLeavingNode { node, .. }
        | Waiting::NoRoomToStart { node, .. } => Some(node.as_str()),
        // No other node is asked.
        Waiting::Dependency { .. } | Waiting::ForLostNode { .. } | Waiting::ForCompany { .. } => {
            return Vec::new();
        }
        Waiting::PinnedHosts { .. }
        | Waiting::NoNode { .. }
        | Waiting::NoRoomOnNode { .. }
        | Waiting::NowhereToGo { .. }
        | Waiting::NoRoomToRoll { .. } => None,
    };
    let (goal, limit) = (service.goal.spec, service.limit(nodes));
    let others =
        Others { company: &service.company, limit: limit.as_ref(), resting: &service.resting };
    let rows = nodes.rows().map(|(at, row)| {
        let mut failed = verdict(&nodes.demands, (at, row), goal, spec, others);
        if data_on.is_some_and(|host| host != row.node.hostname.as_str()) {
            failed.push(Ineligible::DataElsewhere);
            failed.sort_unstable();
        }
        NodeVerdict { node: row.id, hostname: row.node.hostname.clone(), failed }
    });
    rows.collect()
}

/// How many nodes each rule keeps out.
fn count_rules(nodes: &[NodeVerdict]) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for rule in nodes.iter().flat_map(|node| &node.failed) {
        *counts.entry(rule.as_str()).or_default() += 1;
    }
    counts.into_iter().map(|(rule, count)| (rule.to_owned(), count.to_string())).collect()
}

fn join<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

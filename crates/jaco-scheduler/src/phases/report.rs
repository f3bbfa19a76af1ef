//! Reports what is wanted and cannot be done now: what each slot waits for, as it was judged, and what a
//! service lacks as a whole. Asked once, at the end of a pass, of the draft as it will be: so the same
//! pass made again says the same, and nothing is written twice (R-LOOP-4).

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::rollout::{NO_ADDRESS, WAITING_FOR_DEPENDENCY, WAITING_FOR_JOB};
use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::{Hostname, NodeStatus, Ordinal, ReplicaId};

use super::create::{missing, nodes_of_global};
use crate::draft::{Draft, NoAddress, Pass, Search, ServiceDraft, SlotDraft};
use crate::eligibility::{Ineligible, refusals};
use crate::nodes::NodeIx;
use crate::placement::{candidates, hosts};
use crate::report::{NodeVerdict, NotPlaced};
use crate::rollout::{self, dependency};
use crate::verdict::{Content, ServiceFacts, SlotFacts, Verdict, Wait, agenda, judge};

/// The pinned hosts are too few.
const HOSTS_SHORT: &str = "cannot_satisfy_host_placement";

/// Something that is wanted and cannot be done now.
struct Unplaced<'a> {
    count: u32,
    /// The stable name of the cause.
    reason: &'static str,
    details: BTreeMap<String, String>,
    /// The spec that a node would have to take.
    spec: &'a ServiceSpec,
    asked: Asked,
}

/// Which nodes are asked why they do not help.
enum Asked {
    /// All of them.
    All,
    /// All of them, where the data is on the node of this name.
    DataOn(String),
    /// None: no other node could help.
    None,
}

/// Reports for all services.
pub(crate) fn report(draft: &mut Draft<'_>) {
    for at in draft.order().iter() {
        let unmet = dependency::unmet(draft, *at);
        let (service, pass) = draft.open(*at);
        let mut unplaced = match unmet {
            Some(unmet) => waiting_for_dependency(service, pass, unmet),
            None => missing_replicas(service, pass),
        };
        if !agenda(service, pass).is_empty() {
            let of_service = unplaced.len();
            waiting_slots(service, pass, &mut unplaced);
            count_once(&mut unplaced, of_service);
            unrollable(service, pass, &mut unplaced);
        }
        if unplaced.iter().any(|one| one.reason == NO_ADDRESS) {
            wake_for_addresses(pass);
        }
        service.unplaced = unplaced.iter().map(|one| explain(service, one, pass)).collect();
    }
}

/// Looks again when the next address comes out of quarantine.
fn wake_for_addresses(pass: &mut Pass<'_>) {
    let now = pass.input.now;
    let ends = pass.input.state.networks.quarantine.values().filter_map(|row| row.until);
    if let Some(next) = ends.filter(|end| *end > now).min() {
        pass.wake(next);
    }
}

fn waiting_for_dependency<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    unmet: BTreeMap<String, String>,
) -> Vec<Unplaced<'a>> {
    let spec = service.goal().spec;
    let wanted = match spec.placement {
        _ if !service.slots.is_empty() => {
            let missing = u32::try_from(missing(service)).unwrap_or(u32::MAX);
            dependency::held_replicas(service).saturating_add(missing)
        }
        Placement::Global => {
            let allowed = candidates(&pass.nodes, spec, service.colocation());
            u32::try_from(allowed.len()).unwrap_or(u32::MAX)
        }
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => spec.replicas,
    };
    let waiting = Unplaced {
        count: wanted,
        reason: WAITING_FOR_DEPENDENCY,
        details: unmet,
        spec,
        asked: Asked::None,
    };
    Some(waiting).filter(|_| wanted > 0).into_iter().collect()
}

/// A replica whose data is on a pinned host that is lost is told by itself: it is not also one of those that the
/// pinned hosts are too few for. The first `of_service` entries are of the service as a whole.
fn count_once(unplaced: &mut Vec<Unplaced<'_>>, of_service: usize) {
    let (service, slots) = unplaced.split_at_mut(of_service);
    for shortage in service.iter_mut().filter(|one| one.reason == HOSTS_SHORT) {
        let missing = shortage.details.get("missing").map_or("", String::as_str);
        let on_missing = |slot: &&Unplaced<'_>| {
            let node = slot.details.get("node");
            node.is_some_and(|node| missing.split(", ").any(|missing| missing == node))
        };
        let told = u32::try_from(slots.iter().filter(on_missing).count()).unwrap_or(u32::MAX);
        shortage.count = shortage.count.saturating_sub(told);
    }
    unplaced.retain(|one| one.count > 0);
}

/// Replicas that should be created.
fn missing_replicas<'a>(service: &ServiceDraft<'a>, pass: &Pass<'a>) -> Vec<Unplaced<'a>> {
    let spec = service.goal().spec;
    let unplaced =
        |count, reason, details| vec![Unplaced { count, reason, details, spec, asked: Asked::All }];
    let no_address = pass.no_address(&service.key, service.goal().revision, spec);
    let lacking = |count, lacking: &NoAddress| {
        let details = lacking.facts(pass.input.state, &service.key, spec);
        Unplaced { count, reason: NO_ADDRESS, details, spec, asked: Asked::None }
    };
    if spec.placement == Placement::Global {
        let hosts = hosts_without_replica(service, pass);
        let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        return match count {
            0 => Vec::new(),
            count if no_address.is_some() => {
                no_address.iter().map(|one| lacking(count, one)).collect()
            }
            count => unplaced(count, "no_room_on_node", fact("nodes", join(&hosts))),
        };
    }
    let missing = u32::try_from(missing(service)).unwrap_or(u32::MAX);
    if let Some(shortage) = hosts::shortage(service, pass) {
        let count = shortage.replicas_without_host.max(missing);
        let details = fact("missing", join(&shortage.missing));
        return unplaced(count, HOSTS_SHORT, details);
    }
    match missing {
        0 => Vec::new(),
        count if no_address.is_some() => no_address.iter().map(|one| lacking(count, one)).collect(),
        count => unplaced(count, "no_eligible_node", BTreeMap::new()),
    }
}

/// The hosts that should have a replica of a global service and do not run one.
fn hosts_without_replica<'a>(service: &ServiceDraft<'a>, pass: &Pass<'a>) -> BTreeSet<Hostname> {
    let present: BTreeSet<NodeIx> = nodes_of_global(service).collect();
    let allowed = candidates(&pass.nodes, service.goal().spec, service.colocation());
    let missing = allowed.iter().filter(|node| !present.contains(node));
    let missing = missing.map(|at| pass.nodes.row(*at).node.hostname.clone());
    missing.chain(hosts_to_start(service, pass)).collect()
}

/// The hosts of global replicas that were enabled and could start but for room.
fn hosts_to_start<'a>(service: &ServiceDraft<'a>, pass: &Pass<'a>) -> Vec<Hostname> {
    if service.slots.iter().all(SlotDraft::is_active) {
        return Vec::new();
    }
    let facts = ServiceFacts::read(service, pass);
    let waits = |slot: &&SlotDraft<'a>| {
        let node = slot.current.at.map(|at| pass.nodes.row(at).status);
        !slot.is_active()
            && facts.of(service, slot, pass).verdict() == Verdict::Wait(Wait::OwnHost)
            && node.is_none_or(NodeStatus::is_working)
    };
    let hosts = service.slots.iter().filter(waits).filter_map(|slot| match &slot.ordinal {
        Ordinal::Host(host) => Some(host.clone()),
        Ordinal::Index(_) => None,
    });
    hosts.collect()
}

/// What slots wait for. One whose turn in a rollout is to come may wait for something else besides.
fn waiting_slots<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    unplaced: &mut Vec<Unplaced<'a>>,
) {
    let facts = ServiceFacts::read(service, pass);
    for slot in service.slots.iter() {
        let SlotFacts { content, .. } = facts.of(service, slot, pass).facts;
        let slot_facts = facts.of(service, slot, pass).facts;
        let verdict = judge(&slot_facts);
        unplaced.extend(waiting(service, slot, verdict, pass));
        let is_rolled = matches!(verdict, Verdict::Replace(_) | Verdict::Wait(Wait::Partner));
        if is_rolled && slot.is_active() && content != Content::Current {
            let otherwise = judge(&SlotFacts { content: Content::Current, ..slot_facts });
            unplaced.extend(waiting(service, slot, otherwise, pass));
        }
    }
}

/// How a verdict about a slot is reported; none where it waits for nothing that an operator could do
/// something about, or that is reported for its service.
fn waiting<'a>(
    service: &ServiceDraft<'a>,
    slot: &SlotDraft<'a>,
    verdict: Verdict,
    pass: &Pass<'a>,
) -> Option<Unplaced<'a>> {
    if let Some(lacking) = without_address(service, slot, verdict, pass) {
        return Some(lacking);
    }
    let Verdict::Wait(wait) = verdict else { return None };
    let node = node_name(slot, pass);
    let here = || place(&slot.id, &node);
    let goal = service.goal().spec;
    let (reason, details, spec, asked) = match wait {
        Wait::DataOnLostNode => {
            let mut details = here();
            // Nothing of it will be seen again, unlike of one that is down.
            if slot.current.at.is_none() {
                details.insert("removed".to_owned(), "yes".to_owned());
            }
            ("waiting_for_node", details, goal, Asked::DataOn(node))
        }
        Wait::DataOnLeavingNode => ("data_stays_on_node", here(), goal, Asked::DataOn(node)),
        Wait::NoRoomToStart => ("no_room_to_start", here(), goal, Asked::DataOn(node)),
        Wait::NoNode => {
            let spec = slot.current.spec.filter(|_| slot.is_active()).unwrap_or(goal);
            ("no_eligible_node", here(), spec, Asked::All)
        }
        Wait::UnreachableNode => {
            let policy = slot.current.spec.unwrap_or(goal).on_node_loss;
            let mut details = here();
            details.insert("on_node_loss".to_owned(), policy.as_str().to_owned());
            if let Some(silence) = policy.replaced_after() {
                details.insert("replaced_after".to_owned(), silence.to_string());
            }
            ("waiting_for_node", details, goal, Asked::None)
        }
        Wait::Partner => {
            let mut details = fact("replica", slot.id.to_string());
            details.insert("beside".to_owned(), join(&goal.scheduling.shares_namespaces_with));
            ("waiting_for_neighbour", details, goal, Asked::None)
        }
        Wait::Job => (WAITING_FOR_JOB, here(), goal, Asked::None),
        Wait::PartnerOnly
        | Wait::PinnedHosts
        | Wait::OwnHost
        | Wait::Operator
        | Wait::Termination
        | Wait::Handover
        | Wait::BackOff
        | Wait::SteadyRun
        | Wait::Rollout
        | Wait::Successors => return None,
    };
    Some(Unplaced { count: 1, reason, details, spec, asked })
}

/// How a slot is reported that would get an instance now if its networks had an address for it.
fn without_address<'a>(
    service: &ServiceDraft<'a>,
    slot: &SlotDraft<'a>,
    verdict: Verdict,
    pass: &Pass<'a>,
) -> Option<Unplaced<'a>> {
    let is_sought = match verdict {
        Verdict::Restart(_) => true,
        Verdict::Wait(wait) => {
            matches!(wait, Wait::NoNode | Wait::NoRoomToStart) && slot.search == Search::NoNode
        }
        Verdict::Keep
        | Verdict::Disable
        | Verdict::Revert
        | Verdict::Remove
        | Verdict::CompleteHandover
        | Verdict::Exhaust
        | Verdict::Finish(_)
        | Verdict::ForgetFailures
        | Verdict::Move(_)
        | Verdict::Start(_)
        | Verdict::Replace(_)
        | Verdict::Define => false,
    };
    let goal = service.goal();
    let own = slot.current.spec.filter(|_| slot.is_active());
    let (revision, spec) = match own {
        Some(own) => (slot.current.revision, own),
        None => (goal.revision, goal.spec),
    };
    let lacking = pass.no_address(&service.key, revision, spec).filter(|_| is_sought)?;
    let mut details = lacking.facts(pass.input.state, &service.key, spec);
    details.insert("replica".to_owned(), slot.id.to_string());
    Some(Unplaced { count: 1, reason: NO_ADDRESS, details, spec, asked: Asked::None })
}

/// Replicas that a rollout could replace if a node had room for a successor. One that has nowhere to go
/// has nowhere to be replaced either, which is said once.
fn unrollable<'a>(
    service: &ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    unplaced: &mut Vec<Unplaced<'a>>,
) {
    let spec = service.goal().spec;
    let no_address = pass.no_address(&service.key, service.goal().revision, spec);
    for at in rollout::stuck(service, pass) {
        let slot = &service.slots[at];
        if let Some(lacking) = &no_address {
            let mut details = lacking.facts(pass.input.state, &service.key, spec);
            details.insert("replica".to_owned(), slot.id.to_string());
            let (reason, asked) = (NO_ADDRESS, Asked::None);
            unplaced.push(Unplaced { count: 1, reason, details, spec, asked });
            continue;
        }
        if !slot.is_outdated(&service.goal()) {
            let (reason, details) = ("no_eligible_node", place(&slot.id, &node_name(slot, pass)));
            unplaced.push(Unplaced { count: 1, reason, details, spec, asked: Asked::All });
            continue;
        }
        let id = slot.id.to_string();
        let is_known = unplaced
            .iter()
            .any(|one| one.reason == "no_eligible_node" && one.details.get("replica") == Some(&id));
        if !is_known {
            let (reason, details) = ("no_room_to_roll", fact("replica", id));
            unplaced.push(Unplaced { count: 1, reason, details, spec, asked: Asked::All });
        }
    }
}

fn node_name(slot: &SlotDraft<'_>, pass: &Pass<'_>) -> String {
    let row = slot.current.at.map(|at| pass.nodes.row(at));
    row.map_or_else(|| format!("node {}", slot.current.node), |row| row.node.hostname.to_string())
}

fn place(replica: &ReplicaId, node: &str) -> BTreeMap<String, String> {
    let mut details = fact("replica", replica.to_string());
    details.insert("node".to_owned(), node.to_owned());
    details
}

fn fact(key: &str, value: String) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value)])
}

fn join<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// Adds every node's answer, and how many nodes each rule keeps out.
fn explain(service: &ServiceDraft<'_>, unplaced: &Unplaced<'_>, pass: &Pass<'_>) -> NotPlaced {
    let Unplaced { count, reason, details, spec, asked } = unplaced;
    let nodes = match asked {
        Asked::All => answers(service, spec, pass, None),
        Asked::DataOn(node) => answers(service, spec, pass, Some(node)),
        Asked::None => Vec::new(),
    };
    let counted = count_rules(&nodes);
    let details = counted.into_iter().chain(details.clone()).collect();
    NotPlaced { service: service.key.clone(), count: *count, reason, details, nodes }
}

fn answers(
    service: &ServiceDraft<'_>,
    spec: &ServiceSpec,
    pass: &Pass<'_>,
    data_on: Option<&str>,
) -> Vec<NodeVerdict> {
    let (goal, nodes) = (service.goal().spec, &pass.nodes);
    let limit = service.limit(nodes);
    let others = service.others(limit.as_ref());
    let rows = nodes.rows().map(|(at, row)| {
        let mut failed = refusals(nodes, at, goal, spec, others);
        if data_on.is_some_and(|host| host != row.node.hostname.as_str()) {
            failed.push(Ineligible::DataElsewhere);
            failed.sort_unstable();
        }
        NodeVerdict { node: row.id, hostname: row.node.hostname.clone(), failed }
    });
    rows.collect()
}

fn count_rules(nodes: &[NodeVerdict]) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for rule in nodes.iter().flat_map(|node| &node.failed) {
        *counts.entry(rule.as_str()).or_default() += 1;
    }
    counts.into_iter().map(|(rule, count)| (rule.to_owned(), count.to_string())).collect()
}

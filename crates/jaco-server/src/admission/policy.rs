//! The scheduling policy of a service: constraints (pairs and rules), affinities, spread criteria and selectors.

use std::collections::BTreeMap;

use jaco_compose::facts::{self, Facts};
use jaco_scheduler::attribute::check;
use jaco_scheduler::contradiction::contradictions;
use jaco_types::ServiceName;
use jaco_types::demand::{Demand, InvalidDemand, canonical_key};
use jaco_types::spec::{Affinity, Constraint, Placement, SchedulingPolicy};

use super::notes::Notes;

/// The pair that says what compose's `max_replicas_per_node` says.
const MAX_PER_NODE: &str = "max-per-node";

/// The policy of one service. Invalid values and operators, and constraints that no node can satisfy together, are
/// problems.
pub(super) fn policy(
    service: &ServiceName,
    facts: &Facts,
    placement: &Placement,
    notes: &mut Notes,
) -> SchedulingPolicy {
    let mut policy = SchedulingPolicy {
        selectors: facts.selectors.clone(),
        spread: facts.spread.clone(),
        scoring: facts.scoring,
        shares_namespaces_with: facts.shares_namespaces_with.clone(),
        place_with: facts.volumes_from.clone(),
        ..SchedulingPolicy::default()
    };
    for (key, value) in pairs(&facts.deployment_constraints, &facts.constraints) {
        apply_pair(&mut policy, service, key, value, notes);
        policy.own_keys.insert(key.to_owned());
    }
    // The compose key belongs to the service, so it overrides the deployment.
    let of_compose = facts.max_replicas_per_node;
    if of_compose.is_some() && !says_max_per_node(&facts.constraints) {
        policy.max_per_node = of_compose;
        policy.own_keys.insert(MAX_PER_NODE.to_owned());
    }
    let rules = facts.deployment_constraints.rules.iter().chain(&facts.constraints.rules);
    policy.constraints.extend(rules.filter(|rule| is_usable(service, rule, notes)).cloned());
    let mut is_usable = |affinity: &&Affinity| is_usable(service, &affinity.constraint, notes);
    policy.affinities.extend(facts.affinities.iter().filter(&mut is_usable).cloned());
    let contradictions = contradictions(&policy.constraints, placement);
    notes
        .problems
        .extend(contradictions.iter().map(|problem| format!("service {service}: {problem}")));
    policy
}

/// The pairs of the deployment, overridden by those of the service key by key. An empty value of the service selects
/// the built-in default (R-CONS-1, R-CONS-2).
fn pairs<'a>(
    deployment: &'a facts::Constraints,
    service: &'a facts::Constraints,
) -> BTreeMap<&'a str, &'a str> {
    let mut pairs: BTreeMap<&str, &str> = BTreeMap::new();
    for given in [deployment, service] {
        let given = given.pairs.iter();
        pairs.extend(given.map(|(key, value)| (canonical_key(key), value.as_str())));
    }
    pairs
}

fn says_max_per_node(constraints: &facts::Constraints) -> bool {
    constraints.pairs.keys().any(|key| canonical_key(key) == MAX_PER_NODE)
}

fn apply_pair(
    policy: &mut SchedulingPolicy,
    service: &ServiceName,
    key: &str,
    value: &str,
    notes: &mut Notes,
) {
    match Demand::parse(key, value) {
        Ok(Demand::Nothing) => {}
        Ok(Demand::MaxPerNode(max)) => policy.max_per_node = Some(max),
        // Set for the whole deployment, it also applies to the named service itself: ignored there.
        Ok(Demand::PlaceWith(other) | Demand::ScaleWith(other)) if other == *service => {}
        Ok(Demand::PlaceWith(other)) => _ = policy.place_with.insert(other),
        Ok(Demand::ScaleWith(other)) => _ = policy.shares_namespaces_with.insert(other),
        Ok(Demand::Cpu(cpu)) => policy.minimum.cpu = cpu,
        Ok(Demand::Memory(memory)) => policy.minimum.memory = memory,
        Ok(Demand::Rules(rules)) => policy.constraints.extend(rules),
        Err(unknown @ InvalidDemand::UnknownKey) => notes
            .warnings
            .push(format!("service {service}: constraint {key}={value} is ignored: {unknown}")),
        Err(misread @ InvalidDemand::InvalidValue { .. }) => {
            notes.problems.push(format!("service {service}: constraint {key}={value}: {misread}"));
        }
    }
}

/// The other service of `scale-with`, if it is set.
pub(super) fn scaled_with(service: &ServiceName, facts: &Facts) -> Option<ServiceName> {
    let pairs = pairs(&facts.deployment_constraints, &facts.constraints);
    match Demand::parse("scale-with", pairs.get("scale-with")?) {
        Ok(Demand::ScaleWith(other)) if other != *service => Some(other),
        _ => None,
    }
}

/// Whether the planner can evaluate the constraint; if not, it is a problem.
fn is_usable(service: &ServiceName, constraint: &Constraint, notes: &mut Notes) -> bool {
    if let Err(unusable) = check(constraint) {
        let Constraint { attribute, operator, .. } = constraint;
        let operator = operator.as_str();
        notes.problems.push(format!("service {service}: {attribute} {operator}: {unusable}"));
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CONS-1, R-CONS-2: each key falls back on its own; an empty value is kept, so that the cluster's default is
    /// not used either.
    #[test]
    fn each_key_falls_back_on_its_own() {
        let pairs_of = |pairs: &[(&str, &str)]| facts::Constraints {
            pairs: pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            rules: Vec::new(),
        };
        let deployment = pairs_of(&[("cpu", "4"), ("ram", "8G"), ("zone", "a")]);
        let service = pairs_of(&[("cpu", "2"), ("ram", ""), ("zone", "0"), ("max", "2")]);
        let merged = pairs(&deployment, &service);
        let expected = [("cpu", "2"), ("max-per-node", "2"), ("ram", ""), ("zone", "0")];
        assert_eq!(merged, BTreeMap::from(expected));
    }
}

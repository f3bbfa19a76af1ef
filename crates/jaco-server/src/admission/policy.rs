//! What narrows and weighs the choice of nodes: Juju's pairs, Nomad's rules and criteria, maand's
//! selectors, in the planner's words.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use jaco_compose::facts::{self, Facts};
use jaco_scheduler::attribute::check;
use jaco_scheduler::contradiction::contradictions;
use jaco_types::ServiceName;
use jaco_types::demand::{Demand, InvalidDemand, canonical_key};
use jaco_types::spec::{
    Affinity, Constraint, Operator, Placement, SchedulingPolicy, Scoring, SpreadCriterion,
    SpreadTarget,
};

/// What admission has to say about a policy.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// What the user should know.
    pub(super) warnings: Vec<String>,
    /// What cannot be meant, all of it.
    pub(super) problems: Vec<String>,
}

/// The policy of one service; amounts and operators that are not understood, and constraints that no
/// node can satisfy together, are noted as problems.
pub(super) fn policy(
    service: &ServiceName,
    facts: &Facts,
    placement: &Placement,
    notes: &mut Notes,
) -> SchedulingPolicy {
    let mut policy = SchedulingPolicy {
        selectors: selectors(service, &facts.selectors),
        spread: facts.spread.iter().map(criterion).collect(),
        scoring: match facts.scoring {
            facts::Scoring::Jaco => Scoring::Jaco,
            facts::Scoring::Nomad => Scoring::Nomad,
        },
        ..SchedulingPolicy::default()
    };
    let names = |names: &BTreeSet<String>| -> BTreeSet<ServiceName> {
        // Compose has checked that each is a service of the model.
        names.iter().filter_map(|name| ServiceName::new(name).ok()).collect()
    };
    policy.beside = names(&facts.beside);
    policy.place_with = names(&facts.volumes_from);
    for (key, value) in pairs(&facts.deployment_constraints, &facts.constraints) {
        apply_pair(&mut policy, service, key, value, notes);
        policy.own_keys.insert(key.to_owned());
    }
    // What compose says is the service's own, and so goes before what the deployment says.
    let of_compose = facts.max_replicas_per_node.and_then(NonZeroU32::new);
    if of_compose.is_some() && !facts.constraints.pairs.contains_key("max") {
        policy.max_per_node = of_compose;
        policy.own_keys.insert("max".to_owned());
    }
    let rules = facts.deployment_constraints.rules.iter().chain(&facts.constraints.rules);
    policy.constraints.extend(rules.filter_map(|rule| constraint(service, rule, notes)));
    for affinity in &facts.affinities {
        if let Some(constraint) = constraint(service, &affinity.rule, notes) {
            policy.affinities.push(Affinity { constraint, weight: affinity.weight });
        }
    }
    let contradictions = contradictions(&policy.constraints, placement);
    notes.problems.extend(contradictions.iter().map(|told| format!("service {service}: {told}")));
    policy
}

/// The pairs of deployment and service: each key falls back by itself, and an empty value of the
/// service goes past the deployment's to the built-in default (R-CONS-1, R-CONS-2).
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

fn apply_pair(
    policy: &mut SchedulingPolicy,
    service: &ServiceName,
    key: &str,
    value: &str,
    notes: &mut Notes,
) {
    match Demand::parse(key, value) {
        Ok(Demand::Nothing) if key == "max" => policy.max_per_node = None,
        Ok(Demand::Nothing) => {}
        Ok(Demand::MaxPerNode(max)) => policy.max_per_node = Some(max),
        // The deployment may say it for all of its services, one of which is the one that is named.
        Ok(Demand::PlaceWith(other) | Demand::ScaleWith(other)) if other == *service => {}
        Ok(Demand::PlaceWith(other)) => _ = policy.place_with.insert(other),
        Ok(Demand::ScaleWith(other)) => _ = policy.beside.insert(other),
        Ok(Demand::Cpu(cpu)) => policy.minimum.cpu = cpu,
        Ok(Demand::Memory(memory)) => policy.minimum.memory = memory,
        Ok(Demand::Attribute(constraint)) => policy.constraints.push(constraint),
        Err(unknown @ InvalidDemand::UnknownKey) => notes
            .warnings
            .push(format!("service {service}: constraint {key}={value} is ignored: {unknown}")),
        Err(misread @ InvalidDemand::Misread { .. }) => {
            notes.problems.push(format!("service {service}: constraint {key}={value}: {misread}"));
        }
    }
}

/// The service that this one is scaled with: one of it on every node that has one of the other.
pub(super) fn scaled_with(service: &ServiceName, facts: &Facts) -> Option<ServiceName> {
    let pairs = pairs(&facts.deployment_constraints, &facts.constraints);
    match Demand::parse("scale-with", pairs.get("scale-with")?) {
        Ok(Demand::ScaleWith(other)) if other != *service => Some(other),
        _ => None,
    }
}

fn constraint(service: &ServiceName, rule: &facts::Rule, notes: &mut Notes) -> Option<Constraint> {
    let known = Operator::ALL.iter().copied().find(|each| each.as_str() == rule.operator);
    let Some(operator) = known else {
        let all: Vec<_> = Operator::ALL.iter().map(|each| each.as_str()).collect();
        notes.problems.push(format!(
            "service {service}: operator {:?} is not one of {}",
            rule.operator,
            all.join(", ")
        ));
        return None;
    };
    let (attribute, value) = (rule.attribute.clone(), rule.value.clone());
    let constraint = Constraint { attribute, operator, value };
    match check(&constraint) {
        Ok(()) => Some(constraint),
        Err(unusable) => {
            let Constraint { attribute, operator, .. } = &constraint;
            notes
                .problems
                .push(format!("service {service}: {attribute} {}: {unusable}", operator.as_str()));
            None
        }
    }
}

fn selectors(service: &ServiceName, selectors: &facts::Selectors) -> BTreeSet<String> {
    match selectors {
        facts::Selectors::Any => BTreeSet::new(),
        facts::Selectors::All(labels) => labels.clone(),
        facts::Selectors::Auto => BTreeSet::from([service.to_string()]),
    }
}

fn criterion(spread: &facts::Spread) -> SpreadCriterion {
    let target =
        |(value, percent): (&String, &u8)| SpreadTarget { value: value.clone(), percent: *percent };
    SpreadCriterion {
        attribute: spread.attribute.clone(),
        weight: spread.weight,
        targets: spread.targets.iter().map(target).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CONS-1, R-CONS-2: each key falls back by itself, and one that was said stays said, so that
    /// the cluster's is not asked either.
    #[test]
    fn keys_fall_back_one_by_one() {
        let pairs_of = |pairs: &[(&str, &str)]| facts::Constraints {
            pairs: pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            rules: Vec::new(),
        };
        let deployment = pairs_of(&[("cpu", "4"), ("ram", "8G"), ("zone", "a")]);
        let service = pairs_of(&[("cpu", "2"), ("ram", ""), ("zone", "0")]);
        let merged = pairs(&deployment, &service);
        assert_eq!(merged, BTreeMap::from([("cpu", "2"), ("ram", ""), ("zone", "0")]));
    }
}

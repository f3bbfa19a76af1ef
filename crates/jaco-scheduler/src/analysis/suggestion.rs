//! The smallest change that would give one more replica a place.

use jaco_types::unit::{Bytes, MilliCores};
use jaco_types::{GpuChoice, Hostname};

use super::explain::NodeAnswer;
use crate::eligibility::Ineligible;

/// What would have to change for one node to take one more replica of a service.
///
/// Law PL-15: once every step is done the replica is placed, and no part of them is enough. A step
/// takes one reason away: what it does about amounts is exactly what is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallestChange {
    /// The node that would take it.
    pub node: Hostname,
    /// The reasons that have to go, each by a step of its own.
    pub steps: Vec<Ineligible>,
}

/// The node that has the fewest reasons not to take one more replica; `None` where some node would
/// take it as things are.
///
/// Steps help the node that they name or, where they change the service, every node. So a part of
/// the fewest reasons is no other node's all.
#[must_use]
pub fn smallest_change(answers: &[NodeAnswer]) -> Option<SmallestChange> {
    if answers.iter().any(|answer| answer.failed.is_empty()) {
        return None;
    }
    // Of equally many, the first in the order of the checks, then by host name.
    let nearest = answers
        .iter()
        .min_by_key(|answer| (answer.failed.len(), &answer.failed, &answer.hostname))?;
    Some(SmallestChange { node: nearest.hostname.clone(), steps: nearest.failed.clone() })
}

impl SmallestChange {
    /// Each step as something to do.
    pub fn describe(&self) -> impl Iterator<Item = String> {
        self.steps.iter().map(|step| describe(&self.node, step))
    }
}

fn describe(node: &Hostname, step: &Ineligible) -> String {
    match step {
        Ineligible::NotReady => format!("bring {node} back"),
        Ineligible::EngineDown => format!("repair the container engine of {node}"),
        Ineligible::DiskFull { .. } => format!("free disk space on {node}"),
        Ineligible::NoNetwork { .. } => format!("repair the router of {node}"),
        Ineligible::Cordoned | Ineligible::Draining => format!("uncordon {node}"),
        Ineligible::Disabled => format!("enable the service on {node}"),
        Ineligible::NotPinned => format!("add {node} to the hosts of the service"),
        // To ask less is enough in any case; to give the label is not where a constraint forbids it.
        Ineligible::MissingLabel { label } => {
            format!("select by label {label} no more, or give it to {node}")
        }
        Ineligible::ConstraintFails { constraint } => {
            format!("drop the constraint {constraint}, or make it hold of {node}")
        }
        Ineligible::BelowMinimum { .. } => {
            format!("ask for no more cpu and ram than {node} has left")
        }
        Ineligible::PartnerMissing { service } => {
            format!("bring a replica of {service} up on {node}, or do not ask for one there")
        }
        Ineligible::PartnerPending { service } => format!("wait until the other {service} runs"),
        Ineligible::MaxPerNode { max } => {
            format!("let one node have more than {max} of the service")
        }
        Ineligible::DataElsewhere => format!("move the data to {node}"),
        Ineligible::OnePerNode => format!("let {node} have more than one replica"),
        Ineligible::TooManyInstances { instances, max } => {
            let missing = instances.saturating_add(1).saturating_sub(max.get());
            format!("let {node} take {missing} more instances, or have as many less there")
        }
        Ineligible::HostPortTaken { port } => format!("free port {} of {node}", port.port),
        Ineligible::InsufficientCpu { available, required } => {
            let missing = MilliCores(required.0.saturating_sub(available.0));
            format!("free {missing} of cpu on {node}, or reserve that much less")
        }
        Ineligible::InsufficientMemory { available, required } => {
            let missing = Bytes(required.0.saturating_sub(available.0));
            format!("free {missing} of memory on {node}, or reserve that much less")
        }
        Ineligible::InsufficientGpus { shortage, required } => match &required.choice {
            GpuChoice::Count(count) if shortage.has > 0 => {
                let missing = count.get().saturating_sub(shortage.free);
                format!("free {missing} more GPUs of {node}, or ask for as many less")
            }
            GpuChoice::Count(_) | GpuChoice::All | GpuChoice::These(_) => {
                format!("free what is asked for on {node} ({required}), or ask for other GPUs")
            }
        },
        Ineligible::NoVolumeClass { class } => {
            format!(
                "have {node} offer volumes of class {class} (`volume_classes` of its jacod.yaml), or ask for another class"
            )
        }
        Ineligible::InsufficientVolumeSpace { class, available, required } => {
            let missing = Bytes(required.0.saturating_sub(available.0));
            format!(
                "free {missing} of volumes of class {class} on {node}, or ask for that much less"
            )
        }
    }
}

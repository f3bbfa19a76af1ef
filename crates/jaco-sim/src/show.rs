//! What people would see of the cluster, as lines of a transcript. No index of the log and no
//! moment appears in it: both change with every refinement of the loops.

use jaco_agent::engine::{ContainerStatus, Health};
use jaco_state::view::{self, convergence};
use jaco_types::{NodeId, ReasonCode, ServiceKey, Slot};

use crate::world::World;

impl World {
    /// The replicas of a deployment, and what is wanted of it and cannot be.
    pub(crate) fn show_replicas(&self, deployment: &str) -> Vec<String> {
        let state = self.checker.reference();
        let own =
            state.slots.values().filter(|slot| slot.service.deployment.as_str() == deployment);
        let mut lines: Vec<String> = own.map(|slot| self.show_slot(slot)).collect();
        lines.extend(self.show_unplaced(deployment));
        if lines.is_empty() {
            lines.push("none".to_owned());
        }
        lines
    }

    /// What is wanted of a deployment and cannot be.
    pub(crate) fn show_unplaced(&self, deployment: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, record) in self.checker.reference().scheduling.iter() {
            if key.deployment.as_str() != deployment {
                continue;
            }
            for unplaced in &record.unplaced {
                let facts: Vec<String> =
                    unplaced.details.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let (count, reason) = (unplaced.count, &unplaced.reason);
                lines.push(
                    format!("{key}: {count} not placed: {reason} {}", facts.join(" "))
                        .trim_end()
                        .to_owned(),
                );
            }
        }
        lines
    }

    /// The networks, and how many of their addresses are free.
    pub(crate) fn show_networks(&self) -> Vec<String> {
        let networks = &self.checker.reference().networks;
        if networks.pool.is_none() {
            return vec!["those of each node".to_owned()];
        }
        let rows = networks.rows.values().map(|network| {
            let free = networks.free(network, self.now);
            let quarantined = network.taken.values().filter(|id| networks.quarantine.contains(id));
            let quarantined = quarantined.count();
            let held = network.taken.len() - quarantined;
            let subnet = network.subnet.prefix();
            format!(
                "{} {subnet}: {held} held, {quarantined} in quarantine, {free} free",
                network.scope
            )
        });
        rows.collect()
    }

    /// The addresses of the replicas of a deployment.
    pub(crate) fn show_addresses(&self, deployment: &str) -> Vec<String> {
        let slots = self.checker.reference().slots.values();
        let own = slots.filter(|slot| slot.service.deployment.as_str() == deployment);
        let line = |slot: &Slot| {
            let addresses = slot.current.addresses.iter().map(|own| own.address.to_string());
            let addresses: Vec<String> = addresses.collect();
            format!("{} {}", slot.id, addresses.join(" ")).trim_end().to_owned()
        };
        own.map(line).collect()
    }

    fn show_slot(&self, slot: &Slot) -> String {
        let state = self.checker.reference();
        let seen = view::replica(state, slot);
        let mut line = format!(
            "{} on {} {} revision {}",
            slot.id,
            self.host_of(slot.current.node),
            seen.state.as_str(),
            slot.current.revision
        );
        if let Some(code) = seen.code {
            line += &format!(" ({})", code.as_str());
        }
        if let Some(scope) = seen.details.get("disabled") {
            line += &format!(" with {scope}");
        }
        if let Some(reason) = seen.details.get("reason") {
            line += &format!(" {reason:?}");
        }
        if slot.restarts.consecutive > 0 && seen.code != Some(ReasonCode::RestartExhausted) {
            line += &format!(", failed {} in a row", slot.restarts.consecutive);
        }
        if let Some(old) = &slot.retiring {
            line += &format!(", follows revision {} on {}", old.revision, self.host_of(old.node));
        }
        line
    }

    pub(crate) fn host_of(&self, node: NodeId) -> String {
        let machine = self.machines.iter().find(|machine| machine.node == node);
        machine.map_or_else(|| format!("node {node}"), |machine| machine.hostname.to_string())
    }

    /// Where the rollout of a service stands.
    pub(crate) fn show_rollout(&self, key: &ServiceKey) -> Vec<String> {
        let record = self.checker.reference().scheduling.get(key);
        let line = match record.and_then(|record| record.rollout.as_ref()) {
            None => "none".to_owned(),
            Some(rollout) => {
                let reason = match rollout.failure_reason.as_str() {
                    "" => String::new(),
                    reason => format!(": {reason}"),
                };
                let back = rollout.rollback_progress.map_or(String::new(), |back| {
                    format!(", {} of {} back", back.current_step, back.total_steps)
                });
                format!(
                    "to revision {}: {}, {} of {} steps{back}{reason}",
                    rollout.target_revision,
                    rollout.state.as_str(),
                    rollout.current_step,
                    rollout.total_steps
                )
            }
        };
        let preparing = record
            .and_then(|record| record.rollout.as_ref()?.prepull.as_ref())
            .into_iter()
            .flat_map(|preparing| &preparing.nodes)
            .map(|(node, reason)| format!("preparing on {}: {reason}", self.host_of(*node)));
        std::iter::once(line).chain(preparing).collect()
    }

    /// The members.
    pub(crate) fn show_nodes(&self) -> Vec<String> {
        let state = self.checker.reference();
        let nodes = state.nodes.values().map(|node| {
            let mut line = format!("{} {}", node.hostname, node.status.as_str());
            if node.availability != jaco_types::Availability::Active {
                line += &format!(", {}", node.availability.as_str());
            }
            if !node.status_reason.is_empty() {
                line += &format!(" ({})", node.status_reason);
            }
            let has_daemon = self.up().contains(node.hostname.as_str());
            if !has_daemon {
                line += ", its daemon does not run";
            }
            line
        });
        nodes.collect()
    }

    /// The deployments.
    pub(crate) fn show_deployments(&self) -> Vec<String> {
        let state = self.checker.reference();
        let lines = state.deployments.values().map(|deployment| {
            let status = convergence(state, deployment).as_str();
            format!("{} revision {} {status}", deployment.name, deployment.revision)
        });
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() { vec!["none".to_owned()] } else { lines }
    }

    /// All of it, to find out what went wrong.
    pub(crate) fn show_all(&self) -> Vec<String> {
        let mut lines = self.show_audit(25);
        lines.extend(self.show_nodes());
        lines.extend(self.show_deployments());
        let state = self.checker.reference();
        for name in state.deployments.keys() {
            lines.extend(self.show_replicas(name.as_str()));
        }
        for (key, record) in state.scheduling.iter() {
            if record.rollout.is_some() {
                let lines_of = self.show_rollout(key).into_iter();
                lines.extend(lines_of.map(|line| format!("{key} {line}")));
            }
        }
        lines.extend(self.show_containers());
        lines
    }

    /// What really is on the machines.
    pub(crate) fn show_containers(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for machine in self.machines.iter() {
            for seen in machine.driver.host.list(self.now) {
                let status = match &seen.status {
                    ContainerStatus::Created => "created",
                    ContainerStatus::Up { health: Health::None | Health::Healthy, .. } => "up",
                    ContainerStatus::Up { health: Health::Starting, .. } => "up, starting",
                    ContainerStatus::Up { health: Health::Unhealthy { .. }, .. } => "up, unhealthy",
                    ContainerStatus::Exited { .. } => "ended",
                };
                lines.push(format!("{} {} {status}", machine.hostname, seen.instance.replica));
            }
        }
        lines.sort();
        if lines.is_empty() { vec!["none".to_owned()] } else { lines }
    }

    /// The last events of the audit log, except those that a growing cluster begins with.
    pub(crate) fn show_audit(&self, last: usize) -> Vec<String> {
        let events = &self.checker.reference().audit.events;
        let from = events.len().saturating_sub(last);
        let lines = events.values().skip(from).map(|event| {
            let facts: Vec<String> = event
                .payload
                .iter()
                .filter(|(key, value)| !value.is_empty() && key.as_str() != "node_id")
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let facts = facts.join(" ");
            format!("{} {facts} by {}", event.kind.as_str(), event.by)
        });
        lines.collect()
    }
}

//! Finds dependencies that form a cycle.

use std::collections::BTreeSet;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::project::containers::{ContainerNames, NAMESPACES};
use crate::yaml::node::{Map, Node};

/// Finds services that wait for themselves, over any number of steps.
pub(crate) fn check_cycles(services: &Map, report: &mut Report) {
    let containers = ContainerNames::read(services);
    let mut state = Walk { services, containers, done: BTreeSet::new(), report };
    for name in services.keys() {
        state.visit(name);
    }
}

struct Walk<'w> {
    services: &'w Map,
    containers: ContainerNames<'w>,
    done: BTreeSet<&'w str>,
    report: &'w mut Report,
}

impl<'w> Walk<'w> {
    /// Depth first with an explicit stack: a chain may be as long as the file.
    fn visit(&mut self, start: &'w str) {
        let first = self.dependencies(start);
        // Most services wait for none, and need not be remembered.
        if first.len() == 0 || self.done.contains(start) {
            return;
        }
        let mut way: Vec<(&str, std::vec::IntoIter<(&str, Pos)>)> = vec![(start, first)];
        let mut on_way = BTreeSet::from([start]);
        while let Some((name, rest)) = way.last_mut() {
            let Some((next, pos)) = rest.next() else {
                self.done.insert(name);
                on_way.remove(name);
                way.pop();
                continue;
            };
            if on_way.contains(next) {
                if !self.report.has_room() {
                    return;
                }
                let mut names: Vec<&str> = way.iter().map(|(name, _)| *name).collect();
                let first = names.iter().position(|name| *name == next).unwrap_or(0);
                names.push(next);
                let circle = names[first..].join(" → ");
                self.report
                    .error(pos, Code::InvalidDependsOn, format!("`{next}` depends on itself"))
                    .suggest(format!("dependency cycle: {circle}"));
            } else if !self.done.contains(next) {
                on_way.insert(next);
                way.push((next, self.dependencies(next)));
            }
        }
    }

    fn dependencies(&self, name: &str) -> std::vec::IntoIter<(&'w str, Pos)> {
        let service = self.services.get(name);
        let depends_on = service.and_then(|node| node.get("depends_on"));
        let entries = depends_on.and_then(Node::as_map).into_iter().flat_map(Map::iter);
        let written = entries
            .filter(|entry| self.services.contains(&entry.key))
            .map(|entry| (entry.key.as_str(), entry.key_pos));
        // Who shares the namespace of a container waits for it, as with `service:`.
        let shared = NAMESPACES.iter().filter_map(|key| service?.get(key));
        let shared = shared.filter_map(|node| Some((self.containers.service(node)?, node.pos)));
        written.chain(shared).collect::<Vec<_>>().into_iter()
    }
}

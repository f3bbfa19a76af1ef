//! Containers that a file names: `container:NAME` of one service is another service of the same file.

use std::collections::BTreeMap;

use crate::yaml::node::{Map, Node};

/// Keys that share a namespace with a service or a container.
pub(crate) const NAMESPACES: [&str; 3] = ["network_mode", "ipc", "pid"];

/// The services by their `container_name`.
#[derive(Debug, Default)]
pub(crate) struct ContainerNames<'p> {
    services: BTreeMap<&'p str, &'p str>,
}

impl<'p> ContainerNames<'p> {
    /// Reads the names of all services.
    pub(crate) fn read(services: &'p Map) -> Self {
        let named = services
            .iter()
            .filter_map(|entry| Some((entry.node.get_str("container_name")?, entry.key.as_str())));
        Self { services: named.collect() }
    }

    /// The service that `value`, such as `container:db`, means; none if no service has that name.
    pub(crate) fn service(&self, value: &Node) -> Option<&'p str> {
        self.services.get(value.as_str()?.strip_prefix("container:")?).copied()
    }
}

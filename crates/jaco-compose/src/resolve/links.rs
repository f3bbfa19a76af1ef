//! `links: [db:database]` as JACO honours it: the linked service answers to the alias, on the
//! networks that the two share. A link to a container would bind a replica to one other replica.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostics::source::Pos;
use crate::yaml::access::texts;
use crate::yaml::node::{Map, Node, Value};

/// The aliases of each linked service, by network.
#[derive(Debug, Default)]
pub(crate) struct Links<'p> {
    aliases: BTreeMap<&'p str, BTreeMap<String, BTreeSet<&'p str>>>,
}

impl<'p> Links<'p> {
    /// Reads the links of all services. `networks` names those that a service is attached to.
    pub(crate) fn read(
        services: &'p Map,
        networks: impl Fn(&'p str, &'p Map) -> BTreeSet<String>,
    ) -> Self {
        let mut links = Self::default();
        for entry in services.iter() {
            let Some(service) = entry.node.as_map() else { continue };
            for link in texts(service, "links") {
                let (target, alias) = link.split_once(':').unwrap_or((link, link));
                let linked = services.entry(target).filter(|_| alias != target);
                let linked = linked.and_then(|entry| Some((entry, entry.node.as_map()?)));
                let Some((linked, other)) = linked else { continue };
                let own = networks(&entry.key, service);
                let target = links.aliases.entry(linked.key.as_str()).or_default();
                for network in networks(&linked.key, other).intersection(&own) {
                    target.entry(network.clone()).or_default().insert(alias);
                }
            }
        }
        links
    }

    /// Whether another service links to `service` under an alias.
    pub(crate) fn concern(&self, service: &str) -> bool {
        self.aliases.contains_key(service)
    }

    /// Adds the aliases to the networks of a service.
    pub(crate) fn add_to(&self, name: &str, service: &mut Map) {
        let attached = service.get_mut("networks").and_then(Node::as_map_mut);
        let (Some(networks), Some(attached)) = (self.aliases.get(name), attached) else { return };
        for (network, aliases) in networks {
            let Some(attachment) = attached.get_mut(network) else { continue };
            if attachment.is_null() {
                attachment.value = Value::Map(Map::default());
            }
            let Some(attachment) = attachment.as_map_mut() else { continue };
            attachment.insert_default("aliases", Value::Seq(Vec::new()), Pos::default());
            let Some(list) = attachment.get_mut("aliases").and_then(Node::as_seq_mut) else {
                continue;
            };
            for alias in aliases {
                if !list.iter().any(|known| known.as_str() == Some(alias)) {
                    list.push(Node::text(*alias, Pos::default()));
                }
            }
        }
    }
}

//! Networks of the cluster in a spec: which ones a deployment has, and how its services are attached.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jaco_compose::facts::{NetworkFacts, NetworkOwner};
use jaco_compose::{NetworkIn, Networks, Resolved, ResolvedService};
use jaco_state::Deployment;
use jaco_types::network::{NETWORK_LENGTH_MAX, NETWORK_LENGTH_MIN};
use jaco_types::spec::{Attachment, DeploymentSpec, NetworkRef, NetworkSpec, ServiceSpec};
use jaco_types::{ErrorCode, NetworkName, NetworkReach, NetworkScope, Rejection, ServiceName};

use super::notes::Notes;

/// As many DNS servers as the resolvers of C libraries ask (`MAXNS` in resolv.conf(5)): a container gives up before more have
/// answered.
const RESOLVERS_MAX: usize = 3;

/// Whose the networks of a manifest are: the cluster's, once it has a pool.
pub(super) fn of_state(state: &jaco_state::network::Networks) -> Networks {
    if state.pool.is_none() {
        return Networks::Node;
    }
    let shared = state.rows.values().filter_map(|network| match &network.scope {
        NetworkScope::Shared(name) => Some(name.to_string()),
        NetworkScope::Deployment { .. } => None,
    });
    Networks::Cluster { shared: shared.collect() }
}

/// The networks of a deployment, and each service attached to them; nothing where networks are those of each
/// node.
///
/// # Errors
/// `network_not_found` with every shared network that does not exist.
pub(super) fn attach<'a>(
    resolved: &Resolved,
    networks: &Networks,
    nodes: usize,
    services: impl Iterator<Item = &'a mut Arc<ServiceSpec>>,
    notes: &mut Notes,
) -> Result<BTreeMap<NetworkName, NetworkSpec>, Rejection> {
    let Networks::Cluster { shared } = networks else {
        if nodes > 1 {
            notes.warnings.extend(apart(resolved));
        }
        return Ok(BTreeMap::new());
    };
    check_shared(resolved, shared)?;
    let mut own = BTreeMap::new();
    for (key, facts) in &resolved.networks {
        note_sizes(key, facts, notes);
        let is_own = networks.scope_of(&facts.owner) == Some(NetworkIn::Deployment);
        let Some(name) = is_own.then(|| network_name(key, notes)).flatten() else { continue };
        if let NetworkOwner::Name(name) = &facts.owner {
            notes.warnings.push(format!(
                "network {key} has the name {name}, which no other deployment finds: run `jaco \
                 network create {name}` first if it is meant for several"
            ));
        }
        own.insert(name, network_spec(facts));
    }
    for spec in services {
        let Some(service) = resolved.services.get(spec.name.as_str()) else { continue };
        let attachments = attachments(resolved, networks, (spec.name.as_str(), service), notes);
        let spec = Arc::make_mut(spec);
        if !attachments.is_empty() {
            spec.resolvers = resolvers(&spec.name, &service.facts.dns.servers, notes);
        }
        spec.networks = attachments;
    }
    Ok(own)
}

/// The DNS servers of a service that its node can ask. A node asks them from its own network: there its loopback is the
/// node's.
fn resolvers(service: &ServiceName, written: &[IpAddr], notes: &mut Notes) -> Vec<IpAddr> {
    let can_be_asked = |address: &IpAddr| {
        let address = address.to_canonical();
        !(address.is_loopback() || address.is_unspecified() || address.is_multicast())
    };
    let (mut asked, left): (Vec<IpAddr>, Vec<IpAddr>) =
        written.iter().partition(|it| can_be_asked(it));
    for address in left {
        notes.warnings.push(format!(
            "service {service}: {address} is not asked for names: nodes ask DNS servers from their own network, where it is no server's \
             address"
        ));
    }
    if asked.len() > RESOLVERS_MAX {
        notes.warnings.push(format!(
            "service {service} names {} DNS servers: the first {RESOLVERS_MAX} are asked",
            asked.len()
        ));
        asked.truncate(RESOLVERS_MAX);
    }
    asked
}

/// What an apply says where networks are those of each node, and some service counts on more than that.
fn apart(resolved: &Resolved) -> Option<String> {
    let mut members: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, service) in &resolved.services {
        for attached in &service.facts.networks {
            members.entry(&attached.network).or_default().insert(name);
        }
    }
    let (network, services) = members.into_iter().find(|(_, services)| services.len() > 1)?;
    let services: Vec<&str> = services.into_iter().collect();
    Some(format!(
        "services {} share the network {network}, and those on different nodes do not reach each other: \
         this cluster has no networks of its own, `jaco network enable` makes them",
        services.join(", ")
    ))
}

/// All shared networks that are missing, in one refusal, with the commands that create them.
fn check_shared(resolved: &Resolved, shared: &BTreeSet<String>) -> Result<(), Rejection> {
    let missing: BTreeSet<&str> = resolved
        .networks
        .values()
        .filter_map(|network| match &network.owner {
            NetworkOwner::Cluster(name) if !shared.contains(name) => Some(name.as_str()),
            NetworkOwner::Cluster(_) | NetworkOwner::Name(_) | NetworkOwner::Deployment => None,
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.into_iter().collect();
    let commands: Vec<String> =
        names.iter().map(|name| format!("`jaco network create {name}`")).collect();
    let message = format!(
        "the cluster has no shared network {}: run {}",
        names.join(", "),
        commands.join(" and ")
    );
    Err(Rejection::new(ErrorCode::NetworkNotFound, message).with("networks", names.join(",")))
}

/// What a file asks of its own network and does not get.
fn note_sizes(key: &str, facts: &NetworkFacts, notes: &mut Notes) {
    if let Some(mtu) = facts.mtu {
        notes.warnings.push(format!(
            "network {key} asks for an MTU of {mtu}, which is not used: that of all networks is set by \
             `jaco network enable --mtu`"
        ));
    }
    if let Some(asked) = facts.prefix_length
        && usable_length(asked) != asked
    {
        notes.warnings.push(format!(
            "network {key} asks for a subnet with a prefix length of {asked} and gets one of {}: \
             networks of the cluster have {NETWORK_LENGTH_MIN} to {NETWORK_LENGTH_MAX}",
            usable_length(asked)
        ));
    }
}

fn network_spec(facts: &NetworkFacts) -> NetworkSpec {
    let reach = match facts.reach {
        jaco_compose::facts::NetworkReach::Outside => NetworkReach::Outside,
        jaco_compose::facts::NetworkReach::Internal => NetworkReach::Internal,
    };
    NetworkSpec { reach, length: facts.prefix_length.map(usable_length) }
}

/// The nearest length that a network can have.
fn usable_length(asked: u8) -> u8 {
    asked.clamp(NETWORK_LENGTH_MIN, NETWORK_LENGTH_MAX)
}

fn attachments(
    resolved: &Resolved,
    networks: &Networks,
    service: (&str, &ResolvedService),
    notes: &mut Notes,
) -> Vec<Attachment> {
    let mut attachments = Vec::new();
    for attached in &service.1.facts.networks {
        let facts = resolved.networks.get(&attached.network);
        let within = facts.and_then(|facts| networks.scope_of(&facts.owner));
        let network = match within {
            Some(NetworkIn::Deployment) => {
                network_name(&attached.network, notes).map(NetworkRef::Own)
            }
            Some(NetworkIn::Shared(name)) => network_name(name, notes).map(NetworkRef::Shared),
            None => None,
        };
        let Some(network) = network else { continue };
        let names = own_names(&resolved.name, service).chain(&attached.aliases);
        let aliases: BTreeSet<&String> = names.collect();
        let aliases = aliases.into_iter().map(|name| name.as_str().into()).collect();
        attachments.push(Attachment { network, aliases });
    }
    attachments
}

/// The names that a service has on each of its networks besides `SERVICE` and `SERVICE.DEPLOYMENT`, which
/// follow from where it is: its `container_name` and its `hostname`.
fn own_names<'a>(
    deployment: &str,
    (name, service): (&str, &'a ResolvedService),
) -> impl Iterator<Item = &'a String> {
    let implied = [name.to_owned(), format!("{name}.{deployment}")];
    service.facts.names.iter().filter(move |name| !implied.contains(name))
}

fn network_name(name: &str, notes: &mut Notes) -> Option<NetworkName> {
    let invalid = match NetworkName::new(name) {
        Ok(name) => return Some(name),
        Err(invalid) => invalid,
    };
    let problem = format!("network {name} cannot be one of the cluster: {invalid}");
    if !notes.problems.contains(&problem) {
        notes.problems.push(problem);
    }
    None
}

/// What an apply says whose deployment had networks of each node so far, if that is so: all replicas that
/// have a network get another one, which a container can only have from its start.
pub(super) fn migration(present: Option<&Deployment>, wanted: &DeploymentSpec) -> Option<String> {
    let present = present?;
    let is_attached =
        |spec: &DeploymentSpec| spec.services.values().any(|service| !service.networks.is_empty());
    if is_attached(present.spec()) || !is_attached(wanted) {
        return None;
    }
    let attached = wanted.services.values().filter(|service| !service.networks.is_empty());
    let services: Vec<String> = attached.map(|service| service.name.to_string()).collect();
    Some(format!(
        "the networks of {} become the cluster's: all replicas of {} are replaced, once",
        present.name,
        services.join(", ")
    ))
}

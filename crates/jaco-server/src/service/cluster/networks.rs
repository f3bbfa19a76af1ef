//! Networks of the cluster: requests of operators, and how networks are listed (R-CLI-6).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::{NetworkBegin, NetworkCreate, NetworkRemove, NetworkResize};
use jaco_state::network::{MTU_DEFAULT, Network, NetworkPool, POOL_DEFAULT, Quarantine};
use jaco_types::{
    Author, ErrorCode, InstanceAddress, InstanceId, Ipv4Prefix, NetworkName, NetworkReach,
    NetworkScope, NodeId, Rejection, Timestamp,
};

use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded;
use crate::status::invalid;

#[async_trait]
impl Write for v1::EnableNetworksRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::EnableNetworksResponse, Rejection> {
        let pool = asked_pool(&self.pool, self.mtu)?;
        member.store.read(understood_by_all)?;
        let command = NetworkBegin::new(pool.prefix, pool.mtu).into();
        member.commit(by, &self.request_id, command).await?;
        let pool = member.store.read(|state| state.networks.pool.as_ref().map(pool_info));
        Ok(v1::EnableNetworksResponse { pool })
    }
}

/// The pool that a request asks for: the defaults for an empty prefix and an MTU of 0.
///
/// # Errors
/// `invalid_argument` if there can be no such pool.
pub fn asked_pool(prefix: &str, mtu: u32) -> Result<NetworkPool, Rejection> {
    let prefix = Some(prefix).filter(|text| !text.is_empty());
    let prefix: Ipv4Prefix = prefix.unwrap_or(POOL_DEFAULT).parse().map_err(invalid)?;
    let mtu = Some(mtu).filter(|mtu| *mtu > 0).unwrap_or(MTU_DEFAULT.into());
    let mtu = u16::try_from(mtu)
        .map_err(|_| invalid(format!("{mtu} is not an MTU: use 1200 to 9000 bytes")))?;
    NetworkPool::new(prefix, mtu).map_err(invalid)
}

/// Whether all members know the commands about networks: one that does not would stop at them.
fn understood_by_all(state: &ClusterState) -> Result<(), Rejection> {
    upgraded::by_all(state, "networks can be enabled", ErrorCode::NetworksNotEnabled)
}

#[async_trait]
impl Write for v1::CreateNetworkRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::CreateNetworkResponse, Rejection> {
        let name = NetworkName::new(&self.name).map_err(invalid)?;
        let length = Some(self.prefix_length).filter(|length| *length > 0);
        let length = length.map(prefix_length).transpose()?;
        let reach = if self.internal { NetworkReach::Internal } else { NetworkReach::Outside };
        let command = NetworkCreate::new(name.clone()).reach(reach).length(length).into();
        member.commit(by, &self.request_id, command).await?;
        let network = newest(member, &NetworkScope::Shared(name));
        Ok(v1::CreateNetworkResponse { network })
    }
}

#[async_trait]
impl Write for v1::RemoveNetworkRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveNetworkResponse, Rejection> {
        let scope = NetworkScope::parse(&self.name).map_err(invalid)?;
        let name = match scope {
            NetworkScope::Shared(name) => name,
            NetworkScope::Deployment { ref deployment, .. } => {
                let message = format!(
                    "network {scope} is that of deployment {deployment}: it is removed once no \
                     revision of the deployment names it"
                );
                return Err(Rejection::new(ErrorCode::NetworkInUse, message));
            }
        };
        let command = NetworkRemove::new(name).into();
        member.commit(by, &self.request_id, command).await?;
        Ok(v1::RemoveNetworkResponse {})
    }
}

#[async_trait]
impl Write for v1::ResizeNetworkRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::ResizeNetworkResponse, Rejection> {
        let scope = NetworkScope::parse(&self.network).map_err(invalid)?;
        let command = NetworkResize::new(scope.clone(), prefix_length(self.prefix_length)?).into();
        member.commit(by, &self.request_id, command).await?;
        Ok(v1::ResizeNetworkResponse { network: newest(member, &scope) })
    }
}

fn prefix_length(length: u32) -> Result<u8, Rejection> {
    u8::try_from(length)
        .map_err(|_| invalid(format!("{length} is not a prefix length: use 20 to 26")))
}

fn newest(member: &Member, scope: &NetworkScope) -> Option<v1::NetworkInfo> {
    let now = member.clock.now();
    member.store.read(|state| Some(info(state, state.networks.find(scope, None)?, now)))
}

/// The networks, or those of one name with their addresses.
///
/// # Errors
/// `network_not_found`.
pub(super) fn list(
    state: &ClusterState,
    request: &v1::ListNetworksRequest,
    now: Timestamp,
) -> Result<v1::ListNetworksResponse, Rejection> {
    let pool = state.networks.pool.as_ref().map(pool_info);
    if request.network.is_empty() {
        let mut rows: Vec<&Network> = state.networks.rows.values().collect();
        rows.sort_by(|a, b| (&a.scope, a.id).cmp(&(&b.scope, b.id)));
        let networks = rows.into_iter().map(|network| info(state, network, now)).collect();
        return Ok(v1::ListNetworksResponse { pool, networks });
    }
    let scope = NetworkScope::parse(&request.network).map_err(invalid)?;
    let rows = state.networks.rows.values().filter(|network| network.scope == scope);
    let networks: Vec<v1::NetworkInfo> = rows
        .map(|network| v1::NetworkInfo {
            addresses: addresses(state, network),
            ..info(state, network, now)
        })
        .collect();
    if networks.is_empty() {
        let message = match pool {
            Some(_) => format!("the cluster has no network {scope}"),
            None => format!(
                "the cluster has no network {scope}: its networks are those of each node until \
                 `jaco network enable`"
            ),
        };
        return Err(Rejection::new(ErrorCode::NetworkNotFound, message));
    }
    Ok(v1::ListNetworksResponse { pool, networks })
}

/// A pool as answers tell it.
#[must_use]
pub fn pool_info(pool: &NetworkPool) -> v1::NetworkPoolInfo {
    v1::NetworkPoolInfo {
        prefix: pool.prefix.to_string(),
        mesh: pool.mesh().to_string(),
        mtu: pool.mtu.into(),
    }
}

fn info(state: &ClusterState, network: &Network, now: Timestamp) -> v1::NetworkInfo {
    let free = state.networks.free(network, now);
    let is_held = |(address, holder): &(&Ipv4Addr, &InstanceId)| {
        quarantine(state, network, **address, holder).is_none()
    };
    let held: Vec<_> = network.taken.iter().filter(is_held).map(|(_, holder)| holder).collect();
    let nodes: BTreeSet<String> =
        held.iter().filter_map(|holder| hostname(state, node_of(state, holder)?)).collect();
    let used = count(held.len());
    v1::NetworkInfo {
        id: network.id.0,
        name: network.scope.to_string(),
        subnet: network.subnet.prefix().to_string(),
        gateway: network.subnet.gateway().to_string(),
        router: network.subnet.router().to_string(),
        internal: network.reach == NetworkReach::Internal,
        used,
        // Those whose time is over count as free, although the state still has them.
        quarantined: network.subnet.capacity().saturating_sub(free).saturating_sub(used),
        free,
        nodes: nodes.into_iter().collect(),
        deployments: deployments(state, network),
        bridge: network.id.bridge(),
        addresses: Vec::new(),
    }
}

/// The quarantine that an address is in. Two instances of a slot that one entry started have one id, so
/// the holder alone does not say.
fn quarantine<'a>(
    state: &'a ClusterState,
    network: &Network,
    address: Ipv4Addr,
    holder: &InstanceId,
) -> Option<&'a Quarantine> {
    let one = InstanceAddress { network: network.id, address };
    state.networks.quarantine.get(holder).filter(|row| row.addresses.contains(&one))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The deployments whose desired spec names the network.
fn deployments(state: &ClusterState, network: &Network) -> Vec<String> {
    let names_it = |deployment: &&jaco_state::Deployment| {
        let spec = deployment.spec();
        let mut attachments = spec.services.values().flat_map(|service| &service.networks);
        let reach = match &network.scope {
            NetworkScope::Deployment { key, .. } => spec.networks.get(key).map(|own| own.reach),
            NetworkScope::Shared(_) => Some(network.reach),
        };
        reach == Some(network.reach)
            && attachments.any(|one| one.network.scope(&deployment.name) == network.scope)
    };
    let users = state.deployments.values().filter(names_it);
    users.map(|deployment| deployment.name.to_string()).collect()
}

/// Who has or had each address.
fn addresses(state: &ClusterState, network: &Network) -> Vec<v1::NetworkAddress> {
    let row = |(address, holder): (&Ipv4Addr, &InstanceId)| {
        let quarantine = quarantine(state, network, *address, holder);
        let node = quarantine.map(|row| row.node).or_else(|| node_of(state, holder));
        let until = quarantine.and_then(|row| row.until);
        v1::NetworkAddress {
            address: address.to_string(),
            replica: holder.replica.to_string(),
            raft_index: holder.raft_index.0,
            node: node.and_then(|node| hostname(state, node)).unwrap_or_default(),
            quarantined: quarantine.is_some(),
            free_at_ms: until.map_or(0, |at| i64::try_from(at.0).unwrap_or(i64::MAX)),
        }
    };
    network.taken.iter().map(row).collect()
}

/// The node of an instance in a slot, or of one that is terminating.
fn node_of(state: &ClusterState, id: &InstanceId) -> Option<NodeId> {
    let slot = state.slots.get(&id.replica);
    let instances =
        slot.into_iter().flat_map(|slot| std::iter::once(&slot.current).chain(&slot.retiring));
    let mut found = instances.filter(|instance| instance.raft_index == id.raft_index);
    let terminating = || state.terminating.get(id).map(|terminating| terminating.node);
    found.next().map(|instance| instance.node).or_else(terminating)
}

fn hostname(state: &ClusterState, node: NodeId) -> Option<String> {
    Some(state.nodes.get(&node)?.hostname.to_string())
}

#[cfg(test)]
mod tests {
    use jaco_state::{Entry, Outcome, apply};
    use jaco_types::{
        Availability, Hostname, Identity, Node, NodeFacts, NodeStatus, ReplicaId, StateIndex,
        Timestamp,
    };

    use super::*;

    fn node(id: u64, version: &str) -> Node {
        Node {
            id: NodeId(id),
            hostname: Hostname::new(&format!("n{id}")).unwrap(),
            address: String::new(),
            mesh_address: None,
            key_fingerprint: [0; 32],
            status: NodeStatus::Ready,
            status_reason: String::new(),
            availability: Availability::Active,
            availability_reason: String::new(),
            drain: None,
            facts: NodeFacts { version: version.to_owned(), ..NodeFacts::default() },
            labels: std::collections::BTreeMap::new(),
            joined_at: Timestamp(0),
            modified: StateIndex(id),
        }
    }

    fn members(versions: &[&str]) -> ClusterState {
        let nodes = (1..).zip(versions).map(|(id, version)| (NodeId(id), node(id, version)));
        ClusterState { nodes: nodes.collect(), ..ClusterState::default() }
    }

    /// R-CLI-6: links of 1280 bytes leave 1200 for containers, and less is refused with what is possible.
    #[test]
    fn a_pool_has_the_mtu_of_the_smallest_links() {
        assert_eq!(asked_pool("", 1200).unwrap().mtu, 1200);
        let refused = asked_pool("", 1199).unwrap_err();
        assert!(refused.message.contains("use 1200 to 9000 bytes"), "{}", refused.message);
    }

    /// R-CLI-6: networks are not enabled before all members understand the commands about them.
    #[test]
    fn networks_wait_for_all_members_to_be_upgraded() {
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(understood_by_all(&members(&[own, own])), Ok(()));
        let refused = understood_by_all(&members(&[own, "0.0.1", ""])).unwrap_err();
        assert_eq!(refused.code, ErrorCode::NetworksNotEnabled);
        let others = "n2 runs version 0.0.1, n3 has not reported its version yet";
        let message = format!(
            "networks can be enabled once all members run version 0.1.0 or later: {others}"
        );
        assert_eq!(refused.message, message);
        assert_eq!(refused.details["members"], others);
    }

    fn commit(state: &mut ClusterState, command: jaco_state::Command) {
        let index = StateIndex(state.index.0 + 1);
        let (at, by) = (Timestamp(0), Identity::Scheduler);
        let entry = Entry { index, at, by, origin: None, request: None, command };
        assert_eq!(apply(state, &entry), Outcome::Done);
    }

    /// R-CLI-6: networks are listed in order with what is free; an address in quarantine counts as neither used
    /// nor free, until its time is over; one that is not there has the command that helps in its refusal.
    #[test]
    fn addresses_are_used_quarantined_or_free() {
        let mut state = members(&["1"]);
        let all = v1::ListNetworksRequest::default();
        let one = v1::ListNetworksRequest { network: "b".to_owned() };
        let refused = list(&state, &one, Timestamp(0)).unwrap_err();
        assert!(refused.message.contains("`jaco network enable`"), "{}", refused.message);
        commit(&mut state, NetworkBegin::new(POOL_DEFAULT.parse().unwrap(), 1400).into());
        for name in ["b", "a"] {
            commit(&mut state, NetworkCreate::new(NetworkName::new(name).unwrap()).into());
        }
        let holder = |index| InstanceId {
            replica: ReplicaId::parse("shop-web-0").unwrap(),
            raft_index: StateIndex(index),
        };
        let id = *state.networks.rows.keys().next().unwrap();
        let row = state.networks.rows.get_mut(&id).unwrap();
        let addresses: Vec<Ipv4Addr> =
            (0..2).map(|place| row.subnet.instance_address(place)).collect();
        row.taken.extend([(addresses[0], holder(7)), (addresses[1], holder(8))]);
        let freed = Quarantine {
            node: NodeId(1),
            addresses: vec![InstanceAddress { network: id, address: addresses[1] }],
            until: Some(Timestamp(500)),
        };
        state.networks.quarantine.insert(holder(8), freed);
        let listed = list(&state, &all, Timestamp(0)).unwrap();
        let names: Vec<&str> = listed.networks.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(listed.pool.unwrap().mesh, "10.64.0.0/16");
        let counts = |now| {
            let network = &list(&state, &one, Timestamp(now)).unwrap().networks[0];
            (network.used, network.quarantined, network.free)
        };
        assert_eq!((counts(0), counts(500)), ((1, 1, 250), (1, 0, 251)));
        let inspected = &list(&state, &one, Timestamp(0)).unwrap().networks[0].addresses;
        let shown: Vec<_> = inspected
            .iter()
            .map(|one| (one.raft_index, one.node.as_str(), one.quarantined, one.free_at_ms))
            .collect();
        assert_eq!(shown, [(7, "", false, 0), (8, "n1", true, 500)]);
        let one = v1::ListNetworksRequest { network: "c".to_owned() };
        assert_eq!(list(&state, &one, Timestamp(0)).unwrap_err().code, ErrorCode::NetworkNotFound);
    }
}

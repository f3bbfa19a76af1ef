//! Which part of the pool a new network gets.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jaco_types::network::{NETWORK_LENGTH_MAX, NETWORK_LENGTH_MIN};
use jaco_types::{ErrorCode, Ipv4Prefix, NetworkId, NetworkReach, NetworkScope, Rejection, Subnet};

use crate::network::{NETWORKS_MAX, Network, NetworkPool, Networks};

/// A network that is to be created.
pub(super) struct NewNetwork {
    pub(super) scope: NetworkScope,
    pub(super) reach: NetworkReach,
    pub(super) length: u8,
}

/// Creates networks, all or none: each gets the next free part of the pool behind the one that was given
/// last, so that what was freed is used again as late as possible.
///
/// # Errors
/// Without a pool, for a size that no network may have, and where there is no room.
pub(super) fn create(networks: &Networks, new: Vec<NewNetwork>) -> Result<Networks, Rejection> {
    let mut networks = networks.clone();
    for NewNetwork { scope, reach, length } in new {
        let Some(mut pool) = networks.pool.clone() else { return Err(not_enabled()) };
        if !(NETWORK_LENGTH_MIN..=NETWORK_LENGTH_MAX).contains(&length) {
            let message = format!(
                "network {scope} cannot have a prefix length of {length}: use \
                 {NETWORK_LENGTH_MIN} to {NETWORK_LENGTH_MAX}"
            );
            return Err(Rejection::new(ErrorCode::InvalidRequest, message));
        }
        let has_room = networks.rows.len() < NETWORKS_MAX;
        let subnet = has_room.then(|| next_free(&pool, &networks, length)).flatten();
        let Some(subnet) = subnet else {
            let message = format!(
                "the pool {} has no room for network {scope} with a prefix length of {length}: \
                 remove networks that are not used any more",
                pool.prefix
            );
            return Err(Rejection::new(ErrorCode::NetworkPoolExhausted, message));
        };
        let id = NetworkId(pool.next_network);
        pool.next_network += 1;
        pool.next_subnet = after(subnet.prefix());
        networks.pool = Some(pool);
        let network = Network { id, scope, reach, subnet, cursor: 0, taken: BTreeMap::new() };
        networks.rows.insert(id, network);
    }
    Ok(networks)
}

pub(super) fn not_enabled() -> Rejection {
    let message = "the networks of this cluster are those of each node: run `jaco network enable`";
    Rejection::new(ErrorCode::NetworksNotEnabled, message)
}

/// The address behind a prefix; the first of all behind the last one.
fn after(prefix: Ipv4Prefix) -> Ipv4Addr {
    Ipv4Addr::from_bits(prefix.last().to_bits().wrapping_add(1))
}

/// The first free range of this length from the pool's cursor on, and from its beginning after that.
fn next_free(pool: &NetworkPool, networks: &Networks, length: u8) -> Option<Subnet> {
    let used = networks.rows.values().map(|network| network.subnet.prefix());
    let used: BTreeMap<Ipv4Addr, Ipv4Addr> =
        used.chain([pool.mesh()]).map(|prefix| (prefix.first(), prefix.last())).collect();
    let from = Some(pool.next_subnet).filter(|next| pool.prefix.contains(*next));
    let from = from.unwrap_or(pool.prefix.first());
    let found = first_free(pool, &used, length, from);
    let prefix = found.or_else(|| first_free(pool, &used, length, pool.prefix.first()))?;
    Subnet::new(prefix).ok()
}

/// The first range of this length from an address on that overlaps none of `used`, which is by first
/// address with the last one.
fn first_free(
    pool: &NetworkPool,
    used: &BTreeMap<Ipv4Addr, Ipv4Addr>,
    length: u8,
    from: Ipv4Addr,
) -> Option<Ipv4Prefix> {
    let size = 1_u64 << (32 - u32::from(length));
    let mut next = u64::from(from.to_bits());
    loop {
        let first = next.div_ceil(size) * size;
        let address = Ipv4Addr::from_bits(u32::try_from(first).ok()?);
        let prefix = Ipv4Prefix::new(address, length).ok()?;
        if !pool.prefix.covers(prefix) {
            return None;
        }
        let before = used.range(..=prefix.last()).next_back();
        match before.filter(|(_, last)| **last >= prefix.first()) {
            Some((_, last)) => next = u64::from(last.to_bits()) + 1,
            None => return Some(prefix),
        }
    }
}

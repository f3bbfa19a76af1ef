//! Laws of prefixes, subnets and names of networks, on prefixes and addresses of any kind.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use jaco_types::network::{
    NETWORK_LENGTH_DEFAULT, NETWORK_LENGTH_MAX, NETWORK_LENGTH_MIN, network_length,
};
use jaco_types::{Ipv4Prefix, NetworkId, NetworkScope, Subnet};
use proptest::prelude::*;

/// Any prefix, the long ones as likely as the short ones.
fn prefixes() -> impl Strategy<Value = Ipv4Prefix> {
    (any::<u32>(), 0..=32u8).prop_map(|(bits, length)| aligned(bits, length))
}

/// Two prefixes that have an address in common in about half of the cases.
fn pairs() -> impl Strategy<Value = (Ipv4Prefix, Ipv4Prefix)> {
    (any::<u32>(), any::<u32>(), any::<bool>(), 0..=32u8, 0..=32u8).prop_map(
        |(bits, other, is_near, length, other_length)| {
            let other = if is_near { bits } else { other };
            (aligned(bits, length), aligned(other, other_length))
        },
    )
}

fn subnets() -> impl Strategy<Value = Subnet> {
    (any::<u32>(), NETWORK_LENGTH_MIN..=NETWORK_LENGTH_MAX)
        .prop_map(|(bits, length)| Subnet::new(aligned(bits, length)).unwrap())
}

/// The prefix of this length that has the address.
fn aligned(bits: u32, length: u8) -> Ipv4Prefix {
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    Ipv4Prefix::new(Ipv4Addr::from_bits(bits & mask), length).unwrap()
}

fn bounds(prefix: Ipv4Prefix) -> (u32, u32) {
    (prefix.first().to_bits(), prefix.last().to_bits())
}

/// A valid name of a deployment or of a network of one.
fn names() -> impl Strategy<Value = String> {
    let letters = proptest::collection::vec(proptest::char::range('a', 'z'), 1..9);
    (letters, 0..100_u8).prop_map(|(letters, number)| {
        format!("{}-{number}", letters.into_iter().collect::<String>())
    })
}

proptest! {
    /// Two prefixes overlap exactly if one of them covers the other, whichever is asked.
    #[test]
    fn prefixes_that_overlap_are_nested((one, other) in pairs()) {
        let ((first, last), (other_first, other_last)) = (bounds(one), bounds(other));
        let is_common = first.max(other_first) <= last.min(other_last);
        prop_assert_eq!(one.overlaps(other), is_common);
        prop_assert_eq!(other.overlaps(one), is_common);
        prop_assert_eq!(one.covers(other) || other.covers(one), is_common);
        prop_assert_eq!(one.covers(other), first <= other_first && other_last <= last);
    }

    /// Only the first address of a range names it.
    #[test]
    fn a_prefix_begins_at_a_multiple_of_its_size(bits in any::<u32>(), length in 0..=40u8) {
        let size = 1_u64 << (32 - u32::from(length.min(32)));
        let is_first = length <= 32 && u64::from(bits).is_multiple_of(size);
        let made = Ipv4Prefix::new(Ipv4Addr::from_bits(bits), length);
        prop_assert_eq!(made.is_ok(), is_first);
        if let Ok(prefix) = made {
            let (first, last) = bounds(prefix);
            prop_assert_eq!(u64::from(last) - u64::from(first) + 1, size);
        }
    }

    /// A prefix that grows covers what it was, one that shrinks is covered; both begin where it did.
    #[test]
    fn resized_prefixes_begin_at_the_same_address(prefix in prefixes(), length in 0..=33u8) {
        match prefix.resized(length) {
            Ok(resized) => {
                prop_assert_eq!(resized.first(), prefix.first());
                prop_assert_eq!(resized.length(), length);
                prop_assert!(resized.covers(prefix) || prefix.covers(resized));
            }
            Err(_) => prop_assert!(length > 32 || length < prefix.length()),
        }
    }

    /// NET-2: the addresses for instances are as many as the capacity says, each has one place, and none is that of
    /// the network, the gateway, the router or the broadcasts.
    #[test]
    fn each_place_of_a_subnet_has_an_address_of_its_own(subnet in subnets(), turn in any::<u32>()) {
        let capacity = subnet.capacity();
        let given: BTreeSet<_> = (0..capacity).map(|place| subnet.instance_address(place)).collect();
        prop_assert_eq!(given.len(), usize::try_from(capacity).unwrap());
        let (first, last) = bounds(subnet.prefix());
        let all = (first..=last).map(Ipv4Addr::from_bits);
        let allowed: BTreeSet<_> = all.filter(|address| subnet.is_for_instances(*address)).collect();
        prop_assert_eq!(&allowed, &given);
        let reserved = [subnet.prefix().first(), subnet.gateway(), subnet.router(), subnet.prefix().last()];
        prop_assert!(reserved.iter().all(|address| !given.contains(address)));
        prop_assert_eq!(subnet.instance_address(turn), subnet.instance_address(turn % capacity));
    }

    /// No address outside of a subnet is for its instances.
    #[test]
    fn other_subnets_have_other_addresses(subnet in subnets(), bits in any::<u32>()) {
        let address = Ipv4Addr::from_bits(bits);
        prop_assert!(subnet.prefix().contains(address) || !subnet.is_for_instances(address));
    }

    /// Four addresses for each replica as long as there is a network of that size, and no smaller network for more
    /// replicas.
    #[test]
    fn networks_have_room_for_four_times_their_replicas(replicas in 0..5_000_u32, more in 0..5_000_u32) {
        let length = network_length(replicas);
        prop_assert!((NETWORK_LENGTH_MIN..=NETWORK_LENGTH_DEFAULT).contains(&length));
        let capacity = Subnet::new(aligned(0, length)).unwrap().capacity();
        prop_assert!(capacity >= replicas * 4 || length == NETWORK_LENGTH_MIN);
        prop_assert!(network_length(replicas + more) <= length);
        if length < NETWORK_LENGTH_DEFAULT {
            let smaller = Subnet::new(aligned(0, length + 1)).unwrap().capacity();
            prop_assert!(smaller < replicas * 4, "/{} would do", length + 1);
        }
    }

    /// Different networks have different bridges, and the kernel takes the names: at most 15 characters of a few.
    #[test]
    fn bridges_tell_networks_apart(id in any::<u32>()) {
        let bridge = NetworkId(id).bridge();
        let digits = bridge.strip_prefix("jn").unwrap();
        prop_assert_eq!(u32::from_str_radix(digits, 36).unwrap(), id);
        prop_assert!(bridge.len() <= 9);
        prop_assert!(bridge.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    }

    /// A scope is read as it is displayed, and tells whose network it is.
    #[test]
    fn scopes_are_what_they_are_displayed_as(deployment in names(), key in names(), is_shared in any::<bool>()) {
        let text = if is_shared { key } else { format!("{deployment}/{key}") };
        let scope = NetworkScope::parse(&text).unwrap();
        prop_assert_eq!(scope.to_string(), text);
        let owner = scope.deployment().map(ToString::to_string);
        prop_assert_eq!(owner, (!is_shared).then_some(deployment));
    }
}

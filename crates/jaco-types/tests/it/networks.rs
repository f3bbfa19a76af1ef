//! Prefixes, subnets, and names of networks.

use std::net::Ipv4Addr;

use jaco_types::network::network_length;
use jaco_types::{Ipv4Prefix, NetworkId, NetworkName, NetworkScope, Subnet};
use proptest::prelude::*;

fn prefix(text: &str) -> Ipv4Prefix {
    text.parse().unwrap()
}

#[test]
fn prefixes_are_read_and_refused() {
    for text in ["10.64.0.0/12", "0.0.0.0/0", "255.255.255.255/32", "10.65.3.0/24"] {
        assert_eq!(prefix(text).to_string(), text);
    }
    for text in ["10.65.3.1/24", "10.65.3.0", "10.65.3.0/33", "10.65.3/24", "", "a/8", "::/8"] {
        assert!(text.parse::<Ipv4Prefix>().is_err(), "{text}");
    }
    let error = "10.65.3.1/24".parse::<Ipv4Prefix>().unwrap_err().to_string();
    assert!(error.starts_with("invalid IPv4 prefix \"10.65.3.1/24\": use the first"), "{error}");
}

#[test]
fn prefixes_contain_and_overlap() {
    let pool = prefix("10.64.0.0/12");
    assert_eq!(pool.last().to_string(), "10.79.255.255");
    assert!(pool.covers(prefix("10.79.255.0/24")) && !pool.covers(prefix("10.80.0.0/24")));
    assert!(!prefix("10.65.0.0/24").covers(pool) && pool.overlaps(prefix("10.0.0.0/8")));
    assert!(!prefix("10.65.0.0/24").overlaps(prefix("10.65.1.0/24")));
    assert!(prefix("0.0.0.0/0").contains(Ipv4Addr::BROADCAST));
    assert_eq!(pool.resized(16).unwrap(), prefix("10.64.0.0/16"));
    assert!(prefix("10.65.1.0/24").resized(23).is_err());
}

#[test]
fn subnets_reserve_gateway_and_router() {
    let subnet = Subnet::new(prefix("10.65.3.0/24")).unwrap();
    assert_eq!(subnet.gateway().to_string(), "10.65.3.1");
    assert_eq!(subnet.router().to_string(), "10.65.3.2");
    assert_eq!(subnet.capacity(), 252);
    assert_eq!(subnet.instance_address(0).to_string(), "10.65.3.3");
    assert_eq!(subnet.instance_address(251).to_string(), "10.65.3.254");
    assert_eq!(subnet.instance_address(252), subnet.instance_address(0));
    for (address, is_one) in [
        ("10.65.3.0", false),
        ("10.65.3.2", false),
        ("10.65.3.3", true),
        ("10.65.3.254", true),
        ("10.65.3.255", false),
        ("10.65.2.9", false),
    ] {
        assert_eq!(subnet.is_for_instances(address.parse().unwrap()), is_one, "{address}");
    }
    assert!(Subnet::new(prefix("10.65.0.0/19")).is_err());
    assert!(Subnet::new(prefix("10.65.0.0/27")).is_err());
}

#[test]
fn sizes_follow_the_replicas() {
    let lengths = [0, 63, 64, 127, 128, 1023, u32::MAX].map(network_length);
    assert_eq!(lengths, [24, 24, 23, 23, 22, 20, 20]);
}

#[test]
fn scopes_are_read_as_they_are_shown() {
    for text in ["shop/default", "backbone", "shop/_back"] {
        assert_eq!(NetworkScope::parse(text).unwrap().to_string(), text);
    }
    for text in ["", "Shop/default", "shop/", "a/b/c", "-a"] {
        assert!(NetworkScope::parse(text).is_err(), "{text}");
    }
    assert!(NetworkName::new("_").is_err() && NetworkName::new(".a").is_err());
    assert!(NetworkName::new("_a").is_ok() && NetworkName::new("a_b.c-d").is_ok());
}

proptest! {
    /// A prefix has exactly the addresses from its first to its last.
    #[test]
    fn a_prefix_is_a_range(bits in any::<u32>(), length in 0..=32u8, other in any::<u32>()) {
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        let prefix = Ipv4Prefix::new(Ipv4Addr::from_bits(bits & mask), length).unwrap();
        let (first, last) = (prefix.first().to_bits(), prefix.last().to_bits());
        prop_assert_eq!(prefix.contains(Ipv4Addr::from_bits(other)), (first..=last).contains(&other));
        prop_assert!(prefix.contains(Ipv4Addr::from_bits(bits)));
        prop_assert_eq!(prefix.to_string().parse::<Ipv4Prefix>().unwrap(), prefix);
    }
}

/// Each network has a bridge of its own name, which the kernel takes: at most 15 characters.
#[test]
fn bridges_are_named_after_the_number_of_their_network() {
    for (id, bridge) in
        [(0, "jn0"), (1, "jn1"), (35, "jnz"), (36, "jn10"), (1295, "jnzz"), (u32::MAX, "jn1z141z3")]
    {
        assert_eq!(NetworkId(id).bridge(), bridge);
    }
}

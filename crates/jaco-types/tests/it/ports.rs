//! Published ports: which ranges and addresses there are, and which sockets meet.

use std::num::NonZeroU16;

use jaco_types::PortKey;
use jaco_types::port::{ListenAddress, PortRange, Transport};
use jaco_types::spec::Protocol;

fn key(address: &str, port: u16, transport: Transport) -> PortKey {
    let address = (address != "*").then(|| address.parse().unwrap());
    PortKey { transport, port: NonZeroU16::new(port).unwrap(), address }
}

/// R-EDGE-2: a range has at least one port, none of them 0, and says which are in it.
#[test]
fn ranges_are_of_ports() {
    let range = PortRange::new(8000, 8002).unwrap();
    assert_eq!(range.iter().map(NonZeroU16::get).collect::<Vec<_>>(), [8000, 8001, 8002]);
    assert!(range.contains(NonZeroU16::new(8002).unwrap()));
    assert!(!range.contains(NonZeroU16::new(8003).unwrap()));
    assert_eq!((range.single(), range.to_string().as_str()), (None, "8000-8002"));
    let one = PortRange::new(80, 80).unwrap();
    assert_eq!((one.single(), one.to_string().as_str()), (NonZeroU16::new(80), "80"));
    assert_eq!(PortRange::ANY.to_string(), "30000-32767");
    assert!(PortRange::new(0, 5).is_err());
    assert!(PortRange::new(6, 5).is_err());
    let all = PortRange::new(1, u16::MAX).unwrap();
    assert_eq!(all.iter().count(), usize::from(u16::MAX));
}

/// R-EDGE-2: an address is that of an interface, in one form.
#[test]
fn addresses_are_of_interfaces() {
    for text in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "eth0", ""] {
        assert!(text.parse::<ListenAddress>().is_err(), "{text}");
    }
    let shown = |text: &str| text.parse::<ListenAddress>().unwrap().to_string();
    assert_eq!(shown("::ffff:10.0.0.1"), "10.0.0.1");
    assert_eq!(shown("2001:db8::1"), "[2001:db8::1]");
}

/// R-EDGE-2: a socket on all addresses meets every other one of its port and transport.
#[test]
fn sockets_meet_on_an_address() {
    use Transport::{Tcp, Udp};
    let all = key("*", 80, Tcp);
    let one = key("10.0.0.1", 80, Tcp);
    assert!(all.overlaps(all) && all.overlaps(one) && one.overlaps(all) && one.overlaps(one));
    assert!(!one.overlaps(key("10.0.0.2", 80, Tcp)));
    assert!(!all.overlaps(key("*", 81, Tcp)));
    assert!(!all.overlaps(key("*", 80, Udp)));
    assert_eq!(all.to_string(), "*:80/tcp");
    assert_eq!(key("2001:db8::1", 53, Udp).to_string(), "[2001:db8::1]:53/udp");
    assert_eq!(Protocol::Udp.transport(), Some(Udp));
    assert_eq!(Protocol::Sctp.transport(), None);
}

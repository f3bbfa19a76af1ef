//! IPv4 subnets of networks.

use std::fmt;
use std::net::Ipv4Addr;

/// An IPv4 subnet without host bits, from `/8` to `/29`: the gateway, the router and at least one instance fit in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subnet {
    address: Ipv4Addr,
    length: u8,
}

/// Why an address and a length are no subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address}/{length} is not a subnet between /8 and /29 without host bits")]
pub struct InvalidSubnet {
    address: Ipv4Addr,
    length: u8,
}

impl Subnet {
    /// # Errors
    /// If the length is out of range, or the address has host bits.
    pub fn new(address: Ipv4Addr, length: u8) -> Result<Self, InvalidSubnet> {
        let subnet = Self { address, length };
        let valid = (8..=29).contains(&length) && u32::from(address) & !subnet.mask() == 0;
        if valid { Ok(subnet) } else { Err(InvalidSubnet { address, length }) }
    }

    /// Its first address.
    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    /// The length of its prefix, in bits.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The address of the container engine's gateway.
    pub fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address) + 1)
    }

    /// The address of the router: the same on every site.
    pub fn router(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address) + 2)
    }

    /// Whether an address lies in it.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & self.mask() == u32::from(self.address)
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl fmt::Debug for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

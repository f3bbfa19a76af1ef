//! Requests to the kernel: links, addresses and routes, WireGuard devices, elements of sets of the packet filter.
//!
//! The messages are encoded by the `netlink-packet` crates. They are sent in large batches over sockets of our
//! own, as a site may have tens of thousands of routes.

mod elements;
mod filter_events;
mod link;
mod removal;
mod route;
mod socket;
mod wireguard;

pub(crate) use elements::{Element, ElementChange, FilterSet};
pub(crate) use filter_events::FilterEvents;
pub(crate) use link::{Link, LinkKind, NewPort, hardware_address};
pub(crate) use route::{InterfaceAddress, Route};
pub(crate) use socket::Socket;
pub(crate) use wireguard::{PeerLink, WireGuard};

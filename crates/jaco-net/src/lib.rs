//! The router of a site, in real packets: a network namespace of its own with ports in the container engine's
//! bridges, rules, routes, a WireGuard tunnel and a resolver.
//!
//! What should be there is decided by `jaco-dataplane`; this crate carries steps out and reports what it sees. The
//! entry point is [`serve`], the process of a router, around [`Router`], whose documentation says which privileges it
//! needs. Linux only.

mod counts;
mod error;
pub mod handover;
mod kernel;
mod namespace;
mod netlink;
mod probe;
mod resolver;
mod router;
mod service;
mod tunnel;

pub use counts::{PeerCounts, Questions, RouterCounts};
pub use error::NetError;
pub use namespace::Namespace;
pub use probe::{Connect, Connection, PeerReport, ProbeQuestion, ProbeReport};
pub use resolver::Resolver;
pub use router::{Applied, Options, Router};
pub use service::{NetworkFailure, RouterClient, RouterStatus, ServiceOptions, serve};
pub use tunnel::{Backend, PrivateKey};

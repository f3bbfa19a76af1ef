//! The dataplane as data: [`plan`] says what the router of one site should hold, [`diff`] which steps lead
//! there from what is there. [`Planner`] and [`steps`] are the incremental forms of both: they give the same at
//! the price of what has changed (NET-13).
//!
//! A site is the members that share one container engine; the lowest of them that is not down keeps the router. Everything here
//! is a pure function of plain data: no IO, no clock, no randomness. `jaco-net` carries the steps out and
//! observes the kernel; it decides nothing.

#![deny(clippy::float_arithmetic)]

mod carry_out;
mod change;
mod delivery;
mod diff;
pub mod edge;
mod edge_of_state;
mod edge_planner;
mod names;
mod of_state;
mod plan;
mod planner;
mod seen;
mod served;
mod site;
mod steps;
mod tables;
mod topology;

pub use change::{PeerChange, PlanChange};
pub use delivery::{Delivery, Dropped, Packet, deliver, deliver_of_router};
pub use diff::{Step, diff};
pub use edge_of_state::{keeper, plan_edge};
pub use edge_planner::EdgePlanner;
pub use names::{
    Addresses, Asker, ByDeployment, Lookup, Names, NamesChange, Owner, ZONE, lookup, lookup_address,
};
pub use plan::plan;
pub use planner::Planner;
pub use seen::{Found, Seen};
pub use site::{Peer, Policy, Port, Scope, SitePlan, Tunnel};
pub use steps::steps;
pub use topology::{
    Exposure, Instance, InterfaceName, InvalidInterfaceName, Link, Mesh, Network, Node, PublicKey,
    Readiness, Topology,
};

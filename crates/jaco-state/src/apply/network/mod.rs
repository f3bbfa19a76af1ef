//! Networks of the cluster: their subnets, and the addresses of instances and nodes.
//!
//! An address has no meaning for placement, so it is chosen here, where an instance is created, and not by
//! the planner, which only looks whether there is room. Entries from before the pool was begun have no
//! networks in their specs and change nothing here.
//!
//! ```text
//! address      addresses of instances, and their quarantine
//! join         addresses of instances that run while their deployment moves to the cluster's networks
//! mesh         addresses of nodes
//! operator     commands of operators
//! subnet       which part of the pool a new network gets
//! wanted       networks of deployments: created and removed as specs say
//! ```

pub(super) mod address;
pub(super) mod join;
pub(super) mod mesh;
pub(super) mod operator;
mod subnet;
pub(super) mod wanted;

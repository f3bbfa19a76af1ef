//! Clusters for development: real daemons on the loopback of this machine.
//!
//! [`layout`] decides where everything goes, [`record`] remembers it, [`process`] starts and stops.

pub mod layout;
pub mod process;
pub mod record;

//! Development clusters: real daemons on loopback addresses of this machine.
//!
//! [`layout`] chooses addresses and folders, [`record`] stores what was started, [`process`] starts and
//! stops daemons, [`network`] finds and removes what their router leaves.

pub mod layout;
pub mod network;
pub mod process;
pub mod record;

//! Development clusters: real daemons on loopback addresses of this machine.
//!
//! [`layout`] chooses addresses and folders, [`record`] stores what was started, [`process`] starts and
//! stops daemons.

pub mod layout;
pub mod process;
pub mod record;

//! What the programs of a node have in common: what they are started with, their logs, and what is said of their start and end.
//!
//! The router (`jacod-net`) and the edge (`jacod-edge`) are programs of their own, which `jacod net` and `jacod edge` become: what
//! has privileges, or reads what anybody sends, has no more code than it needs, in memory as well.

mod edge;
mod logs;
mod net;
mod service_manager;
mod signals;

use std::path::{Path, PathBuf};

pub use edge::{EDGE_PROGRAM, EdgeArgs};
pub use logs::{LogFormat, filter, init, init_with};
pub use net::{NET_PROGRAM, NetArgs};
pub use service_manager::notify_ready;
pub use signals::stop_on_signal;

/// Where a process beside the daemon says why it ended, for the daemon, which tells the operators.
#[must_use]
pub fn error_file(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("error")
}

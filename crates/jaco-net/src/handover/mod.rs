//! Sockets of the edge: the process of the router opens them, as it may bind every port in the namespace of the node, and
//! hands them to the process of the edge, which may bind none.
//!
//! Each of the two keeps a copy, so that a socket is open while either of them runs: connections wait in it while there is
//! no edge, and are accepted while there is no router. The edge listens, as the folder of the router is closed to it, and
//! the router connects, root's or its own user's alone. What is said are records of one size, with a socket each:
//!
//! 1. The edge hands back what it has, and says when that is all: a router that was started again takes those sockets over
//!    instead of opening them anew, which the kernel would refuse.
//! 2. The router hands over what the edge does not have, and from then on what changes.
//!
//! ```text
//! socket     opens a listener, and tells whether a socket is the listener that it is said to be
//! listeners  those that the router has; missing: why it has not the others
//! record     what is said
//! outbox     the router's end
//! inbox      the edge's end
//! ```

mod inbox;
mod listeners;
mod missing;
mod outbox;
mod record;
mod socket;

use std::path::{Path, PathBuf};

pub use inbox::{Event, Inbox};
pub(crate) use listeners::Listeners;
pub(crate) use missing::Missing;
pub(crate) use outbox::hand_over;

/// Where the process of the edge takes listeners, in its folder.
#[must_use]
pub fn listeners_socket(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("listeners")
}

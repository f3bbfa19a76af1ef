//! Network namespaces that clients of a test are in.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Moves this thread into a network namespace, as `/proc/PID/ns/net` names one: its sockets, and the programs that it starts. It has to be a
/// thread of its own, as nothing leads back.
///
/// # Panics
/// If the namespace is not there, or this process is not root.
pub fn enter(namespace: &Path) {
    let file = File::open(namespace).expect("the namespace is there");
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("it can be entered");
}

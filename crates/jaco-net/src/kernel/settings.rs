//! Settings of the router's namespace. Never those of another: the caller is on a thread inside of it.

use std::fs;
use std::path::{Path, PathBuf};

use jaco_dataplane::InterfaceName;

use crate::error::NetError;

/// What holds for the whole namespace and for interfaces that are made later.
const ALL: [(&str, &str); 11] = [
    ("net/ipv4/ip_forward", "1"),
    // A source address must be behind the interface that its packet comes from.
    ("net/ipv4/conf/all/rp_filter", "1"),
    ("net/ipv4/conf/default/rp_filter", "1"),
    // The router answers for what is behind the tunnel, and for its own addresses on their own interfaces only.
    ("net/ipv4/conf/default/proxy_arp", "1"),
    ("net/ipv4/conf/all/arp_ignore", "1"),
    ("net/ipv4/conf/all/accept_redirects", "0"),
    ("net/ipv4/conf/default/accept_redirects", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

/// Writes those that differ.
pub(super) fn write_all() -> Result<(), NetError> {
    ALL.iter().try_for_each(|(key, value)| {
        let path = Path::new("/proc/sys").join(key);
        // Without IPv6 in the kernel there is nothing to disable.
        let absent = key.starts_with("net/ipv6") && !path.exists();
        if absent || holds(&path, value) { Ok(()) } else { write(path, value) }
    })
}

/// Whether all are as they were written.
pub(super) fn are_written() -> bool {
    ALL.iter().all(|(key, value)| {
        let path = Path::new("/proc/sys").join(key);
        holds(&path, value) || key.starts_with("net/ipv6") && !path.exists()
    })
}

/// A proxy's answer to ARP is delayed by up to 0.8 s unless told otherwise.
pub(super) fn write_port(interface: &InterfaceName) -> Result<(), NetError> {
    write(proxy_delay(interface), "0")
}

/// Whether a port is as it was written.
pub(super) fn is_port_written(interface: &InterfaceName) -> bool {
    let proxy = format!("/proc/sys/net/ipv4/conf/{interface}/proxy_arp");
    holds(&proxy_delay(interface), "0") && holds(Path::new(&proxy), "1")
}

fn proxy_delay(interface: &InterfaceName) -> PathBuf {
    format!("/proc/sys/net/ipv4/neigh/{interface}/proxy_delay").into()
}

fn holds(path: &Path, value: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|found| found.trim_end() == value)
}

fn write(path: PathBuf, value: &str) -> Result<(), NetError> {
    fs::write(&path, value).map_err(|source| NetError::Setting { path, source })
}

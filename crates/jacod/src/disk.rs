//! Watches whether a disk that the node depends on is nearly full.

use std::path::PathBuf;

use rustix::fs::{StatVfs, statvfs};
use tracing::{debug, info, warn};

/// A full disk counts as free again this many points below the limit, so that a node near the limit
/// does not flap.
const HYSTERESIS_POINTS: u64 = 5;

/// The disks to watch.
#[derive(Debug, Clone)]
pub(crate) struct Disks {
    /// One path on each disk.
    pub(crate) paths: Vec<PathBuf>,
    /// Threshold in percent.
    pub(crate) full_percent: u64,
}

/// Watches disks.
#[derive(Debug)]
pub(crate) struct DiskWatch {
    disks: Disks,
    full: Option<String>,
}

impl DiskWatch {
    pub(crate) fn new(disks: Disks) -> Self {
        Self { disks, full: None }
    }

    /// Describes the fullest disk above the limit, if there is one.
    pub(crate) fn full(&self) -> Option<&str> {
        self.full.as_deref()
    }

    /// Measures the disks. A path that does not exist is skipped.
    pub(crate) fn measure(&mut self) {
        let used = self.disks.paths.iter().filter_map(|path| match statvfs(path) {
            Ok(stat) => Some((used_percent(&stat), path)),
            Err(error) => {
                debug!(path = %path.display(), %error, "disk usage unavailable");
                None
            }
        });
        // On a tie the first, so that the same disk is named each time.
        let fullest = used.rev().max_by_key(|(used, _)| *used);
        let limit = self.disks.full_percent;
        let full = fullest.filter(|(used, _)| is_full(*used, limit, self.full.is_some()));
        let full = full.map(|(used, path)| {
            format!("the disk of {} is {used}% full, the limit is {limit}%", path.display())
        });
        match (&self.full, &full) {
            (None, Some(reason)) => warn!(%reason, "disk nearly full"),
            (Some(_), None) => info!("disks below the limit again"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        self.full = full;
    }
}

fn is_full(used: u64, limit: u64, was_full: bool) -> bool {
    let limit = if was_full { limit.saturating_sub(HYSTERESIS_POINTS) } else { limit };
    used >= limit
}

/// As `df` counts it: share of the blocks available to users, rounded up.
pub(crate) fn used_percent(stat: &StatVfs) -> u64 {
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    let usable = used.saturating_add(stat.f_bavail);
    if usable == 0 { 0 } else { used.saturating_mul(100).div_ceil(usable) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-NODE-1: a disk that hovers about the limit does not make the node flap.
    #[test]
    fn disk_at_the_limit_does_not_flap() {
        assert!(!is_full(94, 95, false));
        assert!(is_full(95, 95, false));
        assert!(is_full(90, 95, true), "full until it is five points below");
        assert!(!is_full(89, 95, true));
    }

    /// The usage of a real disk equals the figure of `df`.
    #[test]
    fn real_disk_is_measured() {
        let disks = |full_percent| Disks { paths: vec!["/".into()], full_percent };
        let mut watch = DiskWatch::new(disks(1));
        watch.measure();
        let full = watch.full().expect("something is on it").to_owned();
        assert!(
            full.starts_with("the disk of / is ") && full.contains("the limit is 1%"),
            "{full}"
        );
        let mut watch = DiskWatch::new(disks(101));
        watch.measure();
        assert_eq!(watch.full(), None);
    }
}

//! Whether a disk that the node depends on is nearly full.

use std::path::PathBuf;

use rustix::fs::{StatVfs, statvfs};
use tracing::{debug, info, warn};

/// A full disk counts as free again once it is this many points below the limit, so that a node at
/// the limit does not come and go.
const HYSTERESIS_POINTS: u64 = 5;

/// What is watched.
#[derive(Debug, Clone)]
pub(crate) struct Disks {
    /// A path on each of them.
    pub(crate) paths: Vec<PathBuf>,
    /// From how much on one counts as full, in hundredths of it.
    pub(crate) full_percent: u64,
}

/// What is known of the disks.
#[derive(Debug)]
pub(crate) struct DiskWatch {
    disks: Disks,
    full: Option<String>,
}

impl DiskWatch {
    pub(crate) fn new(disks: Disks) -> Self {
        Self { disks, full: None }
    }

    /// Which disk is nearly full, and how full, if one is.
    pub(crate) fn full(&self) -> Option<&str> {
        self.full.as_deref()
    }

    /// Asks how full they are. A path that is not there has no disk.
    pub(crate) fn look(&mut self) {
        let used = self.disks.paths.iter().filter_map(|path| match statvfs(path) {
            Ok(stat) => Some((used_percent(&stat), path)),
            Err(error) => {
                debug!(path = %path.display(), %error, "disk was not looked at");
                None
            }
        });
        // The first of equally full ones, so that the same disk is named each time.
        let fullest = used.rev().max_by_key(|(used, _)| *used);
        let limit = self.disks.full_percent;
        let full = fullest.filter(|(used, _)| is_full(*used, limit, self.full.is_some()));
        let full = full.map(|(used, path)| {
            format!(
                "the disk of {} is {used}% full, from {limit}% on nothing new is taken",
                path.display()
            )
        });
        match (&self.full, &full) {
            (None, Some(reason)) => warn!(%reason, "a disk is nearly full"),
            (Some(_), None) => info!("no disk is nearly full any more"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        self.full = full;
    }
}

fn is_full(used: u64, limit: u64, was_full: bool) -> bool {
    let limit = if was_full { limit.saturating_sub(HYSTERESIS_POINTS) } else { limit };
    used >= limit
}

/// As `df` counts it: of what people may use, the blocks kept for root left out, rounded up.
fn used_percent(stat: &StatVfs) -> u64 {
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    let usable = used.saturating_add(stat.f_bavail);
    if usable == 0 { 0 } else { used.saturating_mul(100).div_ceil(usable) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-NODE-1: a node whose disk hovers about the limit does not come and go.
    #[test]
    fn a_disk_at_the_limit_does_not_flap() {
        assert!(!is_full(94, 95, false));
        assert!(is_full(95, 95, false));
        assert!(is_full(90, 95, true), "full until it is five points below");
        assert!(!is_full(89, 95, true));
    }

    /// The figure of a real disk is the one that `df` has, and its words name it.
    #[test]
    fn a_real_disk_is_measured() {
        let disks = |full_percent| Disks { paths: vec!["/".into()], full_percent };
        let mut watch = DiskWatch::new(disks(1));
        watch.look();
        let full = watch.full().expect("something is on it").to_owned();
        assert!(full.starts_with("the disk of / is ") && full.contains("from 1% on"), "{full}");
        let mut watch = DiskWatch::new(disks(101));
        watch.look();
        assert_eq!(watch.full(), None);
    }
}

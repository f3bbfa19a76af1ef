//! Which nodes are removed, and join again. With a stream of random numbers of its own, so that what else happens in a run
//! is the same where none is.

use std::collections::{BTreeMap, BTreeSet};

use super::Style;
use crate::rng::Rng;

/// A cluster of fewer nodes loses none.
const LEAST: usize = 4;

/// The removals of a run.
pub(super) struct Members {
    rng: Rng,
    /// Whether there are any: in a third of the runs that are harsh.
    has_removals: bool,
    /// Nodes that are drained to be removed, and those that were removed; the step in which it goes on with them.
    next: Vec<(usize, Stage, String)>,
    /// What the machines are that the cluster began with: they are the same when they join again.
    facts: BTreeMap<String, String>,
}

/// What comes next for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Remove,
    Join,
}

impl Members {
    pub(super) fn new(mut rng: Rng, style: Style) -> Self {
        let has_removals = style.is_harsh() && rng.below(3) == 0;
        Self { rng, has_removals, next: Vec::new(), facts: BTreeMap::new() }
    }

    /// What is done about members in a step, of which these are left.
    pub(super) fn lines(&mut self, step: usize, hosts: &[String]) -> Vec<String> {
        if !self.has_removals {
            return Vec::new();
        }
        let (due, later): (Vec<_>, _) =
            std::mem::take(&mut self.next).into_iter().partition(|(at, ..)| *at <= step);
        self.next = later;
        let mut lines = Vec::new();
        for (_, stage, host) in due {
            match stage {
                Stage::Remove => {
                    lines.push(format!("remove {host}"));
                    self.joins(step, host);
                }
                Stage::Join => lines.push(self.join(&host)),
            }
        }
        if hosts.len() >= LEAST && self.rng.below(10) == 0 {
            let host = self.rng.pick(hosts).clone();
            if self.rng.below(2) == 0 {
                lines.push(format!("remove {host} force"));
                self.joins(step, host);
            } else {
                lines.push(format!("drain {host} within 60s"));
                let soon = usize::try_from(self.rng.between(1, 6)).expect("a few steps");
                self.next.push((step + soon, Stage::Remove, host));
            }
        }
        lines
    }

    /// Nodes that were removed can stop what they run; machines that are missing join again, as others may be too few.
    pub(super) fn make_peace(&self, missing: &BTreeSet<String>) -> Vec<String> {
        if !self.has_removals {
            return Vec::new();
        }
        let joins = missing.iter().map(|host| self.join(host));
        std::iter::once("engine all up".to_owned()).chain(joins).collect()
    }

    /// What a machine of the cluster is.
    pub(super) fn has(&mut self, host: String, facts: String) {
        self.facts.insert(host, facts);
    }

    fn join(&self, host: &str) -> String {
        let facts = self.facts.get(host).map(String::as_str).unwrap_or_default();
        format!("join {host} {facts}").trim_end().to_owned()
    }

    /// Two of three join again; one that was not removed is refused then.
    fn joins(&mut self, step: usize, host: String) {
        if self.rng.below(3) > 0 {
            let later = usize::try_from(self.rng.between(1, 12)).expect("some steps");
            self.next.push((step + later, Stage::Join, host));
        }
    }
}

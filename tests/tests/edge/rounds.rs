//! Rounds of what replaces replicas, and how many were replaced.

use std::collections::BTreeSet;

use crate::outside::Outside;

/// Replaces replicas, round after round.
pub(crate) struct Rounds {
    revision: u32,
    /// All containers that there were after any of the steps.
    containers: BTreeSet<String>,
    first: usize,
}

impl Rounds {
    /// Of a service that was just applied.
    pub(crate) async fn of(outside: &Outside) -> Self {
        let containers = BTreeSet::from_iter(outside.containers().await);
        let first = containers.len();
        Self { revision: 1, containers, first }
    }

    /// How many containers took the place of another one, or of none, and served.
    pub(crate) fn replaced(&self) -> usize {
        self.containers.len() - self.first
    }

    /// Each way in which replicas are replaced, once.
    pub(crate) async fn one(&mut self, outside: &Outside) {
        self.one_without_moves(outside).await;
        outside.cli(&["rebalance", "--goal", "spread", "--apply"]);
        self.look(outside).await;
    }

    /// All but the last one.
    pub(crate) async fn one_without_moves(&mut self, outside: &Outside) {
        self.revision += 1;
        outside.apply(self.revision);
        self.look(outside).await;
        for args in [
            ["restart", "shop/web", "--timeout", "120s"].as_slice(),
            &["scale", "shop/web=2", "--timeout", "60s"],
            &["scale", "shop/web=6", "--timeout", "60s"],
            &["node", "drain", "n3", "--timeout", "60s"],
            &["node", "uncordon", "n3"],
        ] {
            outside.cli(args);
            self.look(outside).await;
        }
        self.revision += 1;
        let said = outside.apply_what_crashes(self.revision);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("error[rolled_back]"), "{said}");
        self.look(outside).await;
    }

    /// Counts what is there now.
    async fn look(&mut self, outside: &Outside) {
        self.containers.extend(outside.containers().await);
    }
}

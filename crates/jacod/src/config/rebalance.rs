//! Settings `rebalance:`, each within its bounds.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jaco_agent::measure::Scope;
use jaco_controller::RebalanceOptions;
use jaco_controller::rebalance::Mode;
use jaco_scheduler::rebalance::{RebalanceConfig, Share};
use jaco_types::Millis;
use serde::Deserialize;

use super::error::ConfigError;

/// Rebalancing of hot nodes. The leader's settings count, so all nodes should have the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RebalanceSettings {
    /// Whether the leader moves replicas automatically.
    enabled: bool,
    /// What counts as the node's usage.
    measure: Measure,
    /// Directory below which `/sys` and `/proc` of the machine are found.
    system_root: PathBuf,
    /// Interval of a node's samples.
    sample_interval_millis: u64,
    /// Interval at which the leader evaluates the samples.
    cycle_interval_millis: u64,
    /// The window of the moving average.
    window_millis: u64,
    /// Pressure from which a node is hot.
    trigger_percent: u64,
    /// Number of consecutive samples for which it must be hot.
    consecutive_cycles: u32,
    /// How much cooler the coolest node must be.
    imbalance_gap_percent: u64,
    /// How much a move must lower the pressure of the hot node.
    relief_floor_percent: u64,
    /// Pressure that the destination must stay below.
    destination_cap_percent: u64,
    /// How long a moved replica stays on its node.
    replica_cooldown_millis: u64,
    /// How long a node that received a replica takes part in no other move.
    node_cooldown_millis: u64,
    /// Cost of a move, subtracted from its score.
    move_cost_percent: u64,
    /// Assumed processor usage of a replica that was not measured and has no limit.
    default_cpu_percent: u64,
    /// Assumed memory usage, likewise.
    default_memory_percent: u64,
}

/// What counts as the node's usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Measure {
    /// The whole machine.
    Machine,
    /// Only this node's replicas.
    Replicas,
}

/// How this node's usage is sampled.
#[derive(Debug, Clone)]
pub(crate) struct SamplerSettings {
    pub(crate) root: PathBuf,
    pub(crate) scope: Scope,
    pub(crate) interval: Duration,
}

/// Millionths per percent.
const PERCENT: u64 = 10_000;

impl Default for RebalanceSettings {
    fn default() -> Self {
        let thresholds = RebalanceConfig::default();
        let percent = |share: Share| share.0 / PERCENT;
        Self {
            enabled: true,
            measure: Measure::Machine,
            system_root: PathBuf::from("/"),
            sample_interval_millis: thresholds.sample_interval.0,
            cycle_interval_millis: 30_000,
            window_millis: thresholds.window.0,
            trigger_percent: percent(thresholds.trigger),
            consecutive_cycles: thresholds.consecutive_cycles,
            imbalance_gap_percent: percent(thresholds.imbalance_gap),
            relief_floor_percent: percent(thresholds.relief_floor),
            destination_cap_percent: percent(thresholds.destination_cap),
            replica_cooldown_millis: thresholds.replica_cooldown.0,
            node_cooldown_millis: thresholds.node_cooldown.0,
            move_cost_percent: percent(thresholds.move_cost),
            default_cpu_percent: percent(thresholds.default_cpu),
            default_memory_percent: percent(thresholds.default_memory),
        }
    }
}

/// Heartbeats carry samples, one a second; above five minutes rebalancing would react too late. The
/// lower bound is for evaluation.
const INTERVAL_MILLIS: RangeInclusive<u64> = 1000..=300_000;
const DAY_MILLIS: u64 = 86_400_000;

impl RebalanceSettings {
    /// Directory below which `/sys` and `/proc` of the machine are found.
    pub(crate) fn system_root(&self) -> &Path {
        &self.system_root
    }

    /// The leader's options.
    pub(crate) fn options(&self) -> Result<RebalanceOptions, ConfigError> {
        let share = |key, percent: u64| {
            within(key, percent, &(0..=100)).map(|percent| Share(percent * PERCENT))
        };
        let millis = |key, millis| within(key, millis, &(0..=DAY_MILLIS)).map(Millis);
        let interval = |key, millis| within(key, millis, &INTERVAL_MILLIS).map(Millis);
        let cycles =
            within("rebalance.consecutive_cycles", u64::from(self.consecutive_cycles), &(1..=1000));
        cycles?;
        let thresholds = RebalanceConfig {
            sample_interval: interval(
                "rebalance.sample_interval_millis",
                self.sample_interval_millis,
            )?,
            window: millis("rebalance.window_millis", self.window_millis)?,
            trigger: share("rebalance.trigger_percent", self.trigger_percent)?,
            consecutive_cycles: self.consecutive_cycles,
            imbalance_gap: share("rebalance.imbalance_gap_percent", self.imbalance_gap_percent)?,
            relief_floor: share("rebalance.relief_floor_percent", self.relief_floor_percent)?,
            destination_cap: share(
                "rebalance.destination_cap_percent",
                self.destination_cap_percent,
            )?,
            replica_cooldown: millis(
                "rebalance.replica_cooldown_millis",
                self.replica_cooldown_millis,
            )?,
            node_cooldown: millis("rebalance.node_cooldown_millis", self.node_cooldown_millis)?,
            move_cost: share("rebalance.move_cost_percent", self.move_cost_percent)?,
            default_cpu: share("rebalance.default_cpu_percent", self.default_cpu_percent)?,
            default_memory: share("rebalance.default_memory_percent", self.default_memory_percent)?,
        };
        if thresholds.destination_cap > thresholds.trigger {
            // Otherwise a move could make its destination as hot as its source, and be reversed.
            return Err(ConfigError::Value {
                key: "rebalance.destination_cap_percent",
                reason: format!(
                    "{} is above rebalance.trigger_percent, {}",
                    self.destination_cap_percent, self.trigger_percent
                ),
            });
        }
        let interval = interval("rebalance.cycle_interval_millis", self.cycle_interval_millis)?;
        let mode = if self.enabled { Mode::On } else { Mode::Off };
        Ok(RebalanceOptions { mode, interval, thresholds })
    }

    /// How this node's usage is sampled.
    pub(crate) fn sampler(&self) -> Result<SamplerSettings, ConfigError> {
        let key = "rebalance.sample_interval_millis";
        let millis = within(key, self.sample_interval_millis, &INTERVAL_MILLIS)?;
        let scope = match self.measure {
            Measure::Machine => Scope::Machine,
            Measure::Replicas => Scope::Replicas,
        };
        let interval = Duration::from_millis(millis);
        Ok(SamplerSettings { root: self.system_root.clone(), scope, interval })
    }
}

fn within(key: &'static str, value: u64, bounds: &RangeInclusive<u64>) -> Result<u64, ConfigError> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    let reason = format!("{value} is not between {} and {}", bounds.start(), bounds.end());
    Err(ConfigError::Value { key, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<RebalanceOptions, String> {
        let settings: RebalanceSettings = serde_saphyr::from_str(text).unwrap();
        settings.sampler().map_err(|error| error.to_string())?;
        settings.options().map_err(|error| error.to_string())
    }

    /// R-REB-4: keys that are not set have the product's defaults.
    #[test]
    fn defaults_are_those_of_the_product() {
        assert_eq!(options("enabled: true").unwrap(), RebalanceOptions::default());
        assert_eq!(options("enabled: false").unwrap().mode, Mode::Off);
    }

    /// R-REB-4: every threshold has bounds, and an error names the key.
    #[test]
    fn every_threshold_has_bounds() {
        for (key, good, bad) in [
            ("sample_interval_millis", 1000, 999),
            ("cycle_interval_millis", 300_000, 300_001),
            ("window_millis", 0, 86_400_001),
            ("trigger_percent", 100, 101),
            ("consecutive_cycles", 1, 0),
            ("imbalance_gap_percent", 0, 101),
            ("relief_floor_percent", 0, 101),
            ("destination_cap_percent", 85, 86),
            ("replica_cooldown_millis", 0, 86_400_001),
            ("node_cooldown_millis", 0, 86_400_001),
            ("move_cost_percent", 0, 101),
            ("default_cpu_percent", 0, 101),
            ("default_memory_percent", 0, 101),
        ] {
            assert!(options(&format!("{key}: {good}")).is_ok(), "{key}");
            let refused = options(&format!("{key}: {bad}")).unwrap_err();
            assert!(refused.contains(&format!("rebalance.{key}")), "{refused}");
        }
    }
}

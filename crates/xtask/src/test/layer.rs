//! The layers, from the quickest to the slowest, and which test program belongs to which.

use std::fmt;
use std::time::Duration;

use crate::workspace::{Package, Target};

/// A layer of tests, in the order in which they run: the cheapest failure first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Layer {
    /// Format, clippy, tidy
    Lint,
    /// Tests of the pure crates
    Pure,
    /// All other tests that need nothing but this program
    Unit,
    /// The raft crate on a simulated network and disk
    RaftSim,
    /// Whole simulated clusters
    Sim,
    /// Real daemons on this machine, with the fake engine
    Cluster,
    /// The page of real daemons, in a real browser
    Browser,
    /// Routers of sites with real packets, in network namespaces
    Net,
    /// The same on a kernel that has WireGuard, in a virtual machine
    Vm,
    /// Real daemons, real containers
    Docker,
    /// Load on the edges of several machines while parts of them end
    Edge,
    /// The packages, in a fresh Debian with systemd
    Package,
}

const PURE: [&str; 5] =
    ["jaco-types", "jaco-compose", "jaco-state", "jaco-scheduler", "jaco-dataplane"];

impl Layer {
    pub(super) const ALL: [Self; 12] = [
        Self::Lint,
        Self::Pure,
        Self::Unit,
        Self::RaftSim,
        Self::Sim,
        Self::Cluster,
        Self::Browser,
        Self::Net,
        Self::Vm,
        Self::Docker,
        Self::Edge,
        Self::Package,
    ];

    /// Where a test target belongs: by its package, or by its name where it needs more than itself.
    pub(super) fn of(package: &str, target: &Target) -> Self {
        let integration = target.kind.iter().any(|kind| kind == "test");
        match (package, target.name.as_str()) {
            (_, "browser") if integration => Self::Browser,
            (_, "cluster") if integration => Self::Cluster,
            (_, "docker") if integration => Self::Docker,
            (_, "edge") if integration => Self::Edge,
            (_, "net") if integration => Self::Net,
            (_, "package") if integration => Self::Package,
            ("jaco-raft", "sim") if integration => Self::RaftSim,
            ("jaco-sim", _) => Self::Sim,
            (pure, _) if PURE.contains(&pure) => Self::Pure,
            _ => Self::Unit,
        }
    }

    /// Whether a package has a test target in this layer.
    pub(super) fn concerns(self, package: &Package) -> bool {
        package.targets.iter().any(|target| Self::of(&package.name, target) == self.programs())
    }

    /// The layer whose test programs it runs. There is one that runs those of another in another place.
    pub(super) fn programs(self) -> Self {
        match self {
            Self::Vm => Self::Net,
            Self::Lint
            | Self::Pure
            | Self::Unit
            | Self::RaftSim
            | Self::Sim
            | Self::Cluster
            | Self::Browser
            | Self::Net
            | Self::Docker
            | Self::Edge
            | Self::Package => self,
        }
    }

    /// What its test programs are told, before the arguments of whoever starts the run.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        if self == Self::Vm { &["--vm"] } else { &[] }
    }

    /// How many of its test programs run at once: many short ones, some of which wait.
    pub(super) fn programs_at_once(self) -> usize {
        if matches!(self, Self::Pure | Self::Unit) { 2 } else { 1 }
    }

    /// How many of its tests run at once on so many cores. Daemons are waited for most of the time, and containers, too:
    /// several tests keep a core busy, and find what only holds on an idle machine. Load is alone, so that it is the same
    /// each time.
    pub(super) fn tests_at_once(self, cores: usize) -> usize {
        match self {
            Self::Lint
            | Self::Pure
            | Self::Unit
            | Self::Net
            | Self::Vm
            | Self::RaftSim
            | Self::Sim
            | Self::Browser
            | Self::Package => cores,
            Self::Cluster => cores * 4,
            Self::Docker => cores * 2,
            Self::Edge => 1,
        }
    }

    /// The longest that one of its test programs may take before it counts as hanging.
    pub(super) fn limit(self) -> Duration {
        match self {
            Self::Lint | Self::Pure | Self::Unit | Self::Browser | Self::Net | Self::Package => {
                super::PROGRAM_LIMIT
            }
            Self::RaftSim | Self::Sim | Self::Cluster | Self::Vm | Self::Docker | Self::Edge => {
                super::PROGRAM_LIMIT * 2
            }
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lint => "lint",
            Self::Pure => "pure",
            Self::Unit => "unit",
            Self::RaftSim => "raft-sim",
            Self::Sim => "sim",
            Self::Cluster => "cluster",
            Self::Browser => "browser",
            Self::Net => "net",
            Self::Vm => "vm",
            Self::Docker => "docker",
            Self::Edge => "edge",
            Self::Package => "package",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_its_layer() {
        let check = |package, name: &str, kind: &str, expected| {
            let target = Target { name: name.to_owned(), kind: vec![kind.to_owned()] };
            assert_eq!(Layer::of(package, &target), expected, "{package} {name} {kind}");
        };
        check("jaco-state", "jaco_state", "lib", Layer::Pure);
        check("jaco-state", "it", "test", Layer::Pure);
        check("jaco-raft", "jaco_raft", "lib", Layer::Unit);
        check("jaco-raft", "it", "test", Layer::Unit);
        check("jaco-raft", "sim", "test", Layer::RaftSim);
        check("jaco-sim", "jaco_sim", "lib", Layer::Sim);
        check("jaco-sim", "it", "test", Layer::Sim);
        check("jaco-tests", "jaco_tests", "lib", Layer::Unit);
        check("jaco-tests", "browser", "test", Layer::Browser);
        check("jaco-tests", "cluster", "test", Layer::Cluster);
        check("jaco-tests", "docker", "test", Layer::Docker);
        check("jaco-tests", "edge", "test", Layer::Edge);
        check("jaco-tests", "package", "test", Layer::Package);
        check("jaco-docker", "docker", "test", Layer::Docker);
        check("jaco-docker", "docker", "lib", Layer::Unit);
        check("jaco-net", "net", "test", Layer::Net);
        check("jaco-net", "jaco_net", "lib", Layer::Unit);
    }

    #[test]
    fn the_virtual_machine_runs_the_programs_of_another_layer() {
        assert_eq!((Layer::Vm.programs(), Layer::Vm.arguments()), (Layer::Net, &["--vm"][..]));
        for layer in Layer::ALL.into_iter().filter(|layer| *layer != Layer::Vm) {
            assert_eq!((layer.programs(), layer.arguments()), (layer, &[][..]), "{layer}");
        }
    }
}

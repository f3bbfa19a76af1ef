//! What is measured, and what each figure has to reach: the promises, as data.

use std::time::Duration;

use anyhow::Result;

use super::program::{Needs, Program};
use super::table::Better::{Less, More};
use super::table::{Promise, Row};
use super::{Args, hostile, loader, net, planner, sampler};

/// One thing that can be measured.
pub(super) struct Measurement {
    pub(super) name: &'static str,
    how: How,
    /// Figures with a promise. One that does not appear is a miss; others are for information.
    promises: &'static [(&'static str, Promise)],
}

/// Who measures it.
enum How {
    /// The program that drives clusters.
    Clusters { what: &'static str, rounds: u32, seconds: u32, needs: Needs, limit: Duration },
    /// The planner's stopwatch.
    Planner,
    /// The compose loader's stopwatch.
    Loader,
    /// The sampler's stopwatch.
    Sampler,
    /// The stopwatch of the network.
    Net,
    /// The program that drives clusters, with an attacker: its figures are promised for each attack.
    Attacks { seconds: u32 },
}

/// All measurements, in the order in which they run.
pub(super) const MEASUREMENTS: &[Measurement] = &[
    Measurement {
        name: "writes",
        how: clusters("writes", 3, 3, Needs::Etcd),
        promises: &[
            ("writes, 1 client", Promise::Ratio(More, 1.05)),
            ("writes p99, 1 client", Promise::Ratio(Less, 0.75)),
            ("writes, 16 clients", Promise::Ratio(More, 1.0)),
            ("writes p99, 16 clients", Promise::Ratio(Less, 0.75)),
            ("writes, 64 clients", Promise::Ratio(More, 1.3)),
            ("writes p99, 64 clients", Promise::Ratio(Less, 0.75)),
        ],
    },
    Measurement {
        name: "failover",
        how: clusters("failover", 5, 0, Needs::Etcd),
        promises: &[("write gap after kill -9 of the leader", Promise::Ratio(Less, 0.8))],
    },
    Measurement {
        name: "rollout",
        how: clusters("rollout", 5, 0, Needs::Docker),
        promises: &[
            ("10 replicas running, no healthcheck", Promise::Ratio(Less, 1.0)),
            ("10 replicas running, 1 s healthcheck", Promise::Ratio(Less, 1.0)),
        ],
    },
    Measurement {
        name: "change",
        how: clusters("change", 3, 0, Needs::Docker),
        promises: &[
            ("10 new replicas running, no healthcheck", Promise::Ratio(Less, 1.0)),
            ("10 new replicas running, 1 s healthcheck", Promise::Ratio(Less, 1.0)),
            ("10 replicas rolled, no healthcheck", Promise::Ratio(Less, 1.0)),
            ("10 replicas rolled, 1 s healthcheck", Promise::Ratio(Less, 1.0)),
            ("raft commits per rolled replica, no healthcheck", Promise::Value(Less, 6.0)),
            ("raft commits per rolled replica, 1 s healthcheck", Promise::Value(Less, 6.0)),
            ("killed container to its replacement running", Promise::Ratio(Less, 0.5)),
            ("node lost to all replicas running", Promise::Value(Less, 10.0)),
        ],
    },
    Measurement {
        name: "compose",
        how: How::Loader,
        promises: &[
            ("compose, median of the corpus", Promise::Ratio(Less, 3.0)),
            ("compose, largest of the corpus", Promise::Ratio(Less, 3.0)),
            ("compose, 1000 services", Promise::Ratio(Less, 2.5)),
            (loader::GROWTH, Promise::Value(Less, loader::GROWTH_MAX)),
        ],
    },
    Measurement {
        name: "planner",
        how: How::Planner,
        promises: &[
            ("planner 5000 × 150000, from scratch", Promise::Value(Less, 1000.0)),
            ("planner 5000 × 150000, memory", Promise::Value(Less, 1024.0)),
            ("planner 5000 × 150000, nothing to do", Promise::Value(Less, 10.0)),
            ("planner 5000 × 150000, move off a hot node", Promise::Value(Less, 50.0)),
            ("planner 5000 × 150000, 1000 moves to spread", Promise::Value(Less, 10_000.0)),
            ("planner 5000 × 150000, 1000 moves to pack", Promise::Value(Less, 10_000.0)),
            ("planner 5000 × 150000, one replica seen", Promise::Value(Less, 10.0)),
            ("planner 5000 × 150000, one deployment changed", Promise::Value(Less, 10.0)),
            ("planner 5000 × 150000, one node lost", Promise::Value(Less, 100.0)),
            (planner::GROWTH, Promise::Value(Less, planner::GROWTH_MAX)),
        ],
    },
    Measurement {
        name: "sampler",
        how: How::Sampler,
        promises: &[(sampler::LOOK, Promise::Value(Less, 1.0))],
    },
    Measurement {
        name: "net",
        how: How::Net,
        promises: &[
            ("net, whole plan to kernel, from nothing", Promise::Value(Less, 300.0)),
            ("net, state to kernel, an instance more p50", Promise::Value(Less, 10.0)),
            ("net, state to kernel, an instance more p99", Promise::Value(Less, 50.0)),
            ("net, state to kernel, an instance less p50", Promise::Value(Less, 10.0)),
            ("net, state to kernel, an instance less p99", Promise::Value(Less, 50.0)),
            ("net, state to kernel, a network less p50", Promise::Value(Less, 10.0)),
            ("net, state to kernel, a network more p50", Promise::Value(Less, 10.0)),
            ("net, DNS, 5,000 questions/s p99", Promise::Value(Less, 1.0)),
            ("net, idle memory, 2 networks", Promise::Value(Less, 12.0)),
            ("net, idle processor, 2 networks", Promise::Value(Less, 0.2)),
        ],
    },
    Measurement {
        name: "net-nodes",
        how: clusters("network", 3, 5, Needs::Networks),
        promises: &[
            ("net, killed to gone from all names p99", Promise::Value(Less, 250.0)),
            ("net, commit to applied in all routers and names p50", Promise::Value(Less, 10.0)),
            ("net, commit to applied in all routers and names p99", Promise::Value(Less, 50.0)),
            ("net, commit to applied in all edges p99", Promise::Value(Less, 50.0)),
            ("net, idle memory of router and edge", Promise::Value(Less, 25.0)),
            ("net, idle processor of router and edge", Promise::Value(Less, 0.3)),
            ("net, 10 replicas running, in a network over three nodes", Promise::Ratio(Less, 1.0)),
            ("net, throughput, without encryption", Promise::Ratio(More, 1.0)),
            ("net, round trip, without encryption", Promise::Ratio(Less, 1.2)),
        ],
    },
    Measurement {
        name: "edge",
        how: clusters("edge", 5, 4, Needs::Proxies),
        promises: &[
            ("edge, processor per request, plain, beside HAProxy", Promise::Ratio(Less, 1.6)),
            ("edge, processor per request, plain, beside Caddy", Promise::Ratio(Less, 0.5)),
            ("edge, requests, plain, 64 connections", Promise::Ratio(More, 2.0)),
            ("edge, processor per request, TLS, beside HAProxy", Promise::Ratio(Less, 1.6)),
            ("edge, processor per request, TLS, beside Caddy", Promise::Ratio(Less, 0.5)),
            ("edge, requests, TLS, 64 connections", Promise::Ratio(More, 2.0)),
            ("edge, p99 while instances are replaced", Promise::Ratio(Less, 1.5)),
            ("edge, memory of 10,000 routes", Promise::Value(Less, 20.0)),
            ("edge, memory with 10,000 routes", Promise::Ratio(Less, 0.25)),
            ("edge, one change of 10,000 routes", Promise::Value(Less, 10.0)),
        ],
    },
    Measurement {
        name: "idle",
        how: clusters("idle", 3, 10, Needs::Nothing),
        promises: &[
            ("idle memory, no engine", Promise::Value(Less, 26.0)),
            ("idle processor, no engine", Promise::Value(Less, 0.4)),
            ("idle raft commits, no engine", Promise::Value(Less, 0.0)),
        ],
    },
    Measurement {
        name: "idle-docker",
        how: clusters("idle-docker", 3, 10, Needs::Docker),
        promises: &[
            ("idle memory, Docker", Promise::Value(Less, 26.0)),
            ("idle processor, Docker", Promise::Value(Less, 0.4)),
            ("idle raft commits, Docker", Promise::Value(Less, 0.0)),
        ],
    },
    Measurement {
        name: "degraded",
        how: clusters("degraded", 3, 10, Needs::Namespaces),
        promises: &[
            ("processor of survivors, a member refused", Promise::Value(Less, 1.0)),
            ("connection attempts, a member refused", Promise::Value(Less, 5.0)),
            ("return to heard of, a member refused", Promise::Value(Less, 1.5)),
            ("processor of survivors, a member unreachable", Promise::Value(Less, 1.0)),
            ("connection attempts, a member unreachable", Promise::Value(Less, 5.0)),
            ("return to heard of, a member unreachable", Promise::Value(Less, 1.5)),
        ],
    },
    Measurement {
        name: "status",
        how: clusters("status", 3, 0, Needs::Nothing),
        promises: &[
            ("jaco status p50, 1,000 replicas", Promise::Value(Less, 12.0)),
            ("metrics p50, 1,000 replicas", Promise::Value(Less, 10.0)),
            ("metrics, 1,000 replicas", Promise::Value(Less, 200.0)),
        ],
    },
    Measurement {
        name: "page",
        how: clusters("page", 3, 0, Needs::Browser),
        promises: &[
            ("page, first paint", Promise::Value(Less, 300.0)),
            ("page, transferred, overview", Promise::Value(Less, 150.0)),
            ("page, commit to shown", Promise::Value(Less, 100.0)),
            ("page, longest frame, 1,000 replicas change", Promise::Value(Less, 50.0)),
            ("page, memory of 1,000 changes", Promise::Value(Less, 1.0)),
            ("page, memory of its daemon", Promise::Value(Less, 6.0)),
        ],
    },
    Measurement {
        name: "observed",
        how: clusters("observed", 5, 5, Needs::Nothing),
        promises: &[
            ("observed, writes, 16 clients", Promise::Ratio(More, 0.98)),
            ("observed, bundle of 10 nodes", Promise::Value(Less, 5.0)),
        ],
    },
    Measurement {
        name: "large",
        how: clusters("large", 5, 0, Needs::Nothing),
        promises: &[
            ("large, apply of 10,000 more", Promise::Value(Less, 2.0)),
            ("large, apply without a change", Promise::Value(Less, 2.0)),
            ("large, plan", Promise::Value(Less, 2.0)),
            ("large, status", Promise::Value(Less, 2.0)),
            ("large, status of one deployment", Promise::Value(Less, 2.0)),
            ("large, node ls", Promise::Value(Less, 2.0)),
            ("large, get replicas", Promise::Value(Less, 2.0)),
            ("large, get replicas, JSON", Promise::Value(Less, 2.0)),
            ("large, explain", Promise::Value(Less, 2.0)),
            ("large, whatif", Promise::Value(Less, 2.0)),
            ("large, top", Promise::Value(Less, 2.0)),
            ("large, audit", Promise::Value(Less, 2.0)),
            ("large, delete", Promise::Value(Less, 2.0)),
        ],
    },
    Measurement {
        name: "scale",
        how: How::Clusters {
            what: "scale",
            rounds: 3,
            seconds: 10,
            needs: Needs::Nothing,
            limit: SCALE_LIMIT,
        },
        promises: &[
            ("scale, 100 daemons at rest: leader, processor", Promise::Value(Less, 5.0)),
            ("scale, 100 daemons at rest: leader, memory", Promise::Value(Less, 80.0)),
            ("scale, 100 daemons: change seen by all p99", Promise::Value(Less, 100.0)),
            ("scale, 1000 played nodes: others taken for down", Promise::Value(Less, 0.0)),
        ],
    },
    Measurement {
        name: "images",
        how: clusters("images", 3, 0, Needs::Docker),
        promises: &[("image of 200 MB to three nodes", Promise::Ratio(Less, 1.3))],
    },
    Measurement {
        name: "volumes",
        how: clusters("volumes", 3, 0, Needs::Rsync),
        promises: &[("volume of 1 GB moved", Promise::Ratio(Less, 1.2))],
    },
    Measurement { name: "hostile", how: How::Attacks { seconds: 60 }, promises: &[] },
];

/// None takes longer than this on a busy machine with two cores.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// A hundred daemons on such a machine.
const SCALE_LIMIT: Duration = Duration::from_secs(40 * 60);

const fn clusters(what: &'static str, rounds: u32, seconds: u32, needs: Needs) -> How {
    How::Clusters { what, rounds, seconds, needs, limit: LIMIT }
}

impl Measurement {
    /// Measures what is `wanted` of it, and says what was promised.
    ///
    /// # Errors
    /// If it cannot be measured.
    pub(super) fn take(&self, program: &mut Program<'_>, wanted: &Args) -> Result<Vec<Row>> {
        let rows = match &self.how {
            How::Clusters { what, rounds, seconds, needs, limit } => {
                let seconds = wanted.seconds.unwrap_or(*seconds);
                let arguments = [
                    (*what).to_owned(),
                    format!("--rounds={rounds}"),
                    format!("--seconds={seconds}"),
                ];
                program.run(&arguments, *needs, *limit)?
            }
            How::Planner => planner::measure(program.workspace, program.build)?,
            How::Loader => loader::measure(program.workspace, program.build)?,
            How::Sampler => sampler::measure(program.workspace, program.build)?,
            How::Net => net::measure(program.workspace, program.build)?,
            How::Attacks { seconds } => {
                let only = wanted.attack.as_deref().unwrap_or_default();
                let rows = hostile::measure(program, wanted.seconds.unwrap_or(*seconds), only)?;
                return Ok(promised(rows, &hostile::promises(only)));
            }
        };
        Ok(promised(rows, self.promises))
    }
}

/// Puts the promises to the rows; a promise without a figure gets an empty row, which is a miss.
fn promised<N: AsRef<str>>(mut rows: Vec<Row>, promises: &[(N, Promise)]) -> Vec<Row> {
    for (name, promise) in promises {
        let name = name.as_ref();
        match rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.promise = *promise,
            None => rows.push(Row {
                name: name.to_owned(),
                unit: String::new(),
                ours: Vec::new(),
                theirs: None,
                promise: *promise,
            }),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_without_a_figure_is_a_miss() {
        let row = Row {
            name: "speed".to_owned(),
            unit: "/s".to_owned(),
            ours: vec![3.0],
            theirs: None,
            promise: Promise::None,
        };
        let promises = [("speed", Promise::Value(More, 2.0)), ("size", Promise::Value(Less, 1.0))];
        let rows = promised(vec![row], &promises);
        let verdicts: Vec<&str> = rows.iter().map(Row::verdict).collect();
        assert_eq!(verdicts, ["kept", "MISSED"]);
    }
}

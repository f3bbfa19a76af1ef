//! `docs/performance.md`: a run's table, with what is needed to judge it.

use std::fmt::Write;

use anyhow::{Context, Result};

use super::machine;
use super::table::{HEAD, Row};
use crate::say;
use crate::workspace::Workspace;

const PATH: &str = "docs/performance.md";

/// What a reader must know before the numbers mean anything.
const INTRODUCTION: &str = "\
# Performance

Written by `cargo xtask bench --write`; do not edit. A figure is the median of several rounds with the
least and the most in brackets; where another product is measured too, both took turns in the same run
on the same machine, and the ratio is ours divided by theirs. A promise that is not kept says MISSED.
Rows of one day and commit are of one run; those of other runs say so.
";

/// What differs between the sides, and how each figure is taken.
const NOTES: &str = "\
## What is compared with what

- **Writes**: three `jacod` and three `etcd` members on loopback, data on the same disk, every write
  durable on a majority before its answer. Each client sends its next request when the last was
  answered, over a connection of its own to the leader; the load generator shares the machine.
  Ours is `SetLabels`: authenticated by an operator token over TLS, replicated over mutual TLS,
  with a request id that makes it happen once, an event in the audit log and a planner that wakes up. etcd's
  is a `Put` of 256 bytes under 8, with its defaults: no TLS and no authentication. etcd keeps a
  history of values on disk; we keep the newest 10,000 events and a bounded log.
  The processor time is that of all three members per answered request, in the same stretches.
- **Linearizable reads**: a filtered status of ours, a `Range` of one key of etcd's. For information.
- **Write gap**: six writers, two to each member, with deadlines of 100 ms; the longest time between
  two acknowledged writes around a `kill -9` of the leader. Each side with its default timeouts. The machine
  of the leader lives on and says that its port is closed; a machine that is lost is found by silence.
- **10 replicas running**: from the request to the moment when the orchestrator itself says that all
  run, asked every 50 ms. Three `jacod` share one Docker Engine, which is also Swarm's one node; both
  sides use the same image and the same healthcheck.
  Both are on the engine's default bridge, which is where Swarm puts a service without networks. The last
  row is the same with what compose gives a project by default, a network of its own: the engine sets up a
  resolver for each container there.
- **Rolled, killed, lost**: ten replicas that run. A new version of each, started before the old one stops,
  one at a time, until the orchestrator says that the rollout is complete, and until ten new replicas run at
  the engine; the container of one killed, and a node killed with all that it runs, seen at the engine. Each side with its
  defaults. For the loss of a node Swarm has three engines, joined by a bridge
  in network namespaces, and one is killed; of ours a daemon and its containers on the shared engine.
- **Degraded**: one of three members is killed, or its packets are dropped on the wire; each is in a network
  namespace of its own. Of the survivors the busiest counts, from 15 s after the member was declared down.
- **Planner**: the best of five passes, in each of three runs, with capacity, a constraint and two
  spread criteria for every service; memory is what one replica costs at the peak, the planner's own
  notes and its answer included. The larger size is Kubernetes' published limit of a cluster. 150,000
  replicas within a second are 150,000 placements a second of deciding alone; for comparison, published
  rates of whole systems, which also write and start what they placed: Nomad 3,750 /s (C1M, 2016) and
  about 1,500 /s (C2M, 2020); Kubernetes' own test floors 680 to 1,100 pods/s at 5,000 nodes
  (`test/integration/scheduler_perf`).
- **net**: routers of three sites with 500 networks of 50 addresses each, a third of them on the router that is measured, in
  network namespaces with one bridge for each network. From the replicated state, written row by row, over the plan and the
  socket to an acknowledgement of the process; where the kernel has no WireGuard, with the tunnel in that process. 34
  containers ask 5,000 questions a second.
- **net, over three nodes**: three engines in network namespaces that a bridge joins, each with a daemon and a router. Twelve
  replicas are killed one after the other, from the request to the engine to the last resolver of the three whose answer for
  their service lacks the address, asked every 6 ms from a container on each node. Changes of the endpoints meanwhile: from the
  moment when the leader tells them to whoever follows endpoints, or a router says so before, to the moment when the last of the
  three routers says that it holds the plan of that state, names included. Edges: the same for those of a service that
  publishes a port, to the last of the three edges. Idle: the router and the edge of the node whose two use most, while twelve
  replicas run. Ten replicas: from the request to the moment when the orchestrator says that all
  run, asked every 50 ms; both sides make a network for them. Traffic: one TCP connection of iperf3, and the mean of 300 echoes,
  between containers on different nodes. Swarm's overlay is plain VXLAN with `dnsrr`; *through the tunnel* ours is encrypted and
  Swarm's is not; *without encryption* a veth pair takes the place of the tunnel between the same routers, while Swarm's packets
  also pass the bridge that joins the engines.
- **edge**: the data path of `jacod edge`, HAProxy and Caddy, each in one process with one thread for requests, before the same
  origin (two addresses of an HAProxy that answers 1 KiB), with the same ECDSA certificate. `h2load` asks over 64 connections
  that are kept, HTTP/1.1, one request at a time on each, and shares the machine; every answer has to be 200. The processor time
  is that of the proxy, the system's for it included, per answer. Replacements: 640 requests a second over 16 connections, while
  an instance leaves and another takes its place every 250 ms, beside the same load at rest. Memory: the resident set with
  10,000 names that each go to the same service. Caddy may keep as many connections to the origin as the load has, which is more
  than its default.
- **hostile**: three daemons on loopback for each attack, which is on the leader and comes from one process of the lowest priority
  on the same machine: an attacker has processors of its own, and here must not take those of whom it attacks. Meanwhile a user
  changes a label ten times a second, each time over a new connection, as the command line does; *at rest* is the same before the
  attack. Then a follower is killed, and started again once the leader has missed it: its return is the time from its start to
  the leader's word that it is ready. *Memory after it* is that of 15 s later, less what the user's changes have
  left in the state of every member: by how much the follower has grown that is neither attacked nor killed. Daemons run with the
  environment that their unit sets. Where answers are not read the cluster has 1,000
  replicas. The attacks are listed in `crates/jaco-bench/src/hostile/attack.rs`; `cargo xtask bench hostile --seconds 10` shortens
  them.
- **large**: one daemon that leads, and 99 nodes that are played: each has a certificate and a connection of its own, sends heartbeats, facts
  and observations, and takes no part in consensus. Ten deployments of 10,000 replicas. The time of the whole `jaco` program, over the
  unix socket.
- **scale**: *daemons*: a hundred `jacod` on loopback with pretended containers, all on this machine, one cluster with as many voters as it
  chooses, 300 replicas of three deployments. At rest: from 10 s after the last commit. *Sent by all*: what the loopback device sent, by whomever. A change: the
  label of a node, five times a second, from the request to the moment when the last daemon has told it over a stream that is held open to each; *seen by all*: over
  the audit log that is followed, *status of all shows*: over the status with all nodes, that each daemon makes anew after each change. *200 more watchers*: of the status of
  the leader. The processor time per change is that of the leader beyond what it uses at rest. A daemon restarted: from its end by SIGTERM until it answers with all that
  is committed. *Played nodes*: seven daemons that vote, and nodes that the bench plays, each with a certificate, connections and heartbeats of its own, and a raft stream on
  which it says that it has each append, without a disk. *Told to all*: until the last of them has heard that the entry is committed; *planned*: until it has heard so of the plan
  of a new deployment with one replica. *Unreachable*: the heartbeats of a node end. More of this in [scale.md](scale.md).
- **page**: three daemons with 1,000 replicas, and Chromium without a window on the same machine, which trusts the authority and has signed in. The
  first paint is that of the overview with an empty cache, the median of ten; *transferred* all that it loads. *Commit to shown*: from the request that cordons a node to
  the frame in which the open overview shows it, so with the commit in it. Frames: while the page of the deployment is scrolled and
  20 replicas go and come back. Memory: of scripts and documents after the garbage is collected, over 200 changes after the first 100, as of 1,000: the page is fetched 2,880 times a day
  where nothing changes. The daemon's: its resident set after all that, less that of before.
- **observed**: three daemons whose metrics are read every 5 s and that send traces to a collector, beside three others that are not observed, in turns: labels of nodes
  written by 16 clients, and no clients. The support bundle: the whole `jaco doctor --bundle` in a cluster of ten daemons.
- **images**: an image of five layers of 40 MB, of bytes that nobody has seen before, of the machine's engine: `jaco image push --copies 3`, until
  each of three daemons on the same disk has a durable copy and the image its name; beside `docker save | docker load` to one other engine of
  the machine (storage driver vfs).
- **volumes**: 98 files of 10 MB and 5,000 of 4 kB in a volume of a disabled replica, from one daemon's volume to another's on the same engine: the whole
  `jaco volume move`, each time to the next node, beside `rsync --archive` from the same folder into an empty one.
- **Idle**: three daemons with ten running replicas, three times 10 s; of the daemons the worst counts. The same while the
  metrics of all three are read every 5 s.
- **jaco status**: 1,000 replicas, 100 questions a round over the unix socket: the whole program with
  `-o json`, and the call alone. The metrics of the same node are read as often, over a connection of their own each time.
";

/// What becomes of the figures on the page that were not measured now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// There are none: everything was measured.
    Drop,
    /// They stay, with the day and the commit at which they were measured.
    Keep,
}

/// Writes the page.
///
/// # Errors
/// If the file cannot be read or written.
pub(super) fn write(workspace: &Workspace, rows: &[Row], others: Others) -> Result<()> {
    let path = workspace.root.join(PATH);
    let old = match others {
        Others::Drop => String::new(),
        Others::Keep => {
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {PATH}"))?
        }
    };
    let lines = merged(&old, rows, &machine::run(&workspace.root));
    let text = page(&known(&old, machine::facts()), &lines);
    std::fs::write(path, text).with_context(|| format!("cannot write {PATH}"))?;
    say::note(&format!("wrote {PATH}"));
    Ok(())
}

/// What is said of the machine. Of a program that is not there now, but was when some of the figures were measured, what the
/// earlier page said.
fn known(old: &str, facts: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    let before = |what: &str| {
        let head = format!("- {what}: ");
        old.lines().find_map(|line| line.strip_prefix(&head)).map(str::to_owned)
    };
    let known = |(what, how_much): (&'static str, String)| match how_much.as_str() {
        machine::ABSENT => (what, before(what).unwrap_or(how_much)),
        _ => (what, how_much),
    };
    facts.into_iter().map(known).collect()
}

/// The table's lines: those of an earlier page in their order, replaced where they were measured again, and the new ones.
fn merged(old: &str, rows: &[Row], run: &str) -> Vec<String> {
    let line = |row: &Row| {
        let cells = row.cells();
        format!("| {} | {run} |", cells.each_ref().map(String::as_str).join(" | "))
    };
    let mut new: Vec<(&str, String)> =
        rows.iter().map(|row| (row.name.as_str(), line(row))).collect();
    let head = |line: &&str| line.starts_with("| figure ") || line.starts_with("| ---");
    let known = old.lines().filter(|line| line.starts_with("| ") && !head(line));
    let mut lines = Vec::new();
    for known in known {
        let name = known.trim_start_matches("| ").split(" | ").next().unwrap_or_default();
        match new.iter().position(|(measured, _)| *measured == name) {
            Some(at) => lines.push(new.remove(at).1),
            None => lines.push(known.to_owned()),
        }
    }
    lines.extend(new.into_iter().map(|(_, line)| line));
    lines
}

fn page(facts: &[(&str, String)], lines: &[String]) -> String {
    let mut text = format!("{INTRODUCTION}\n");
    writeln!(text, "| {} | measured |", HEAD.join(" | ")).expect("a string takes all");
    text.push_str("| --- | ---: | ---: | ---: | ---: | --- | --- |\n");
    for line in lines {
        writeln!(text, "{line}").expect("a string takes all");
    }
    text.push_str("\n## The machine\n\n");
    for (what, how_much) in facts {
        writeln!(text, "- {what}: {how_much}").expect("a string takes all");
    }
    text.push('\n');
    text.push_str(NOTES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::Promise;

    /// Figures that were not measured again stay where they are, with their day; the others are replaced, and new ones follow.
    #[test]
    fn figures_of_other_runs_stay() {
        let row = |name: &str, figure| Row {
            name: name.to_owned(),
            unit: "s".to_owned(),
            ours: vec![figure],
            theirs: None,
            promise: Promise::None,
        };
        let first = merged("", &[row("a", 1.0), row("a b", 2.0)], "monday 1234567");
        let old = page(&[("cores", "2".to_owned()), ("Caddy", "2.6".to_owned())], &first);
        let second = merged(&old, &[row("c", 3.0), row("a", 4.0)], "friday 89abcde");
        assert_eq!(
            second,
            [
                "| a | 4.00 s (4.00…4.00) | – | – | – |  | friday 89abcde |",
                "| a b | 2.00 s (2.00…2.00) | – | – | – |  | monday 1234567 |",
                "| c | 3.00 s (3.00…3.00) | – | – | – |  | friday 89abcde |",
            ]
        );
        let facts = [("cores", "4"), ("Caddy", machine::ABSENT), ("etcd", machine::ABSENT)];
        let facts = facts.map(|(what, how_much)| (what, how_much.to_owned()));
        let said = known(&old, facts.into()).into_iter().map(|(_, how_much)| how_much);
        assert_eq!(said.collect::<Vec<_>>(), ["4", "2.6", machine::ABSENT]);
    }
}

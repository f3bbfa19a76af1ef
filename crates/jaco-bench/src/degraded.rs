//! What a member that is down costs the members that are up: one of three refuses connections, then
//! one of three is cut off by dropped packets.
//!
//! It runs in a network namespace of its own, where its packet filter touches nobody else.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jaco_testkit::Engine;

use crate::Plan;
use crate::figure::{Figure, say};
use crate::ours::{NODES, Ours};
use crate::proc::processor_time;

/// A member that has just gone still costs an election, retries of what was in flight and, once it
/// is declared down, a pass of the planner.
const SETTLE: Duration = Duration::from_secs(15);

/// It is declared down within this time, and heard of again within this time.
const LIMIT: Duration = Duration::from_secs(60);

/// How often the leader is asked whether it has heard of the member.
const LOOK: Duration = Duration::from_millis(20);

/// The two ways of being down.
#[derive(Debug, Clone, Copy)]
enum Outage {
    /// The process is gone: connections are refused at once.
    Refused,
    /// Packets are dropped in both directions: connections time out.
    Unreachable,
}

impl Outage {
    fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }
}

/// Takes a follower away and gives it back, once per round and outage. Of the survivors the worst
/// counts; attempts are those of all survivors together.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    own_namespace()?;
    let mut ours = Ours::start(Engine::Fake).await?;
    let mut figures = Vec::new();
    for outage in [Outage::Refused, Outage::Unreachable] {
        let [mut processor, mut attempts, mut back] = [Vec::new(), Vec::new(), Vec::new()];
        for round in 1..=plan.rounds {
            let [busy, tried, heard] = one_outage(&mut ours, outage, plan.stretch).await?;
            let name = outage.name();
            say(&format!(
                "member {name}, round {round}: {busy:.2} % of a core, {tried:.1} attempts/s, heard of again after {heard:.2} s"
            ));
            processor.push(busy);
            attempts.push(tried);
            back.push(heard);
        }
        let name = outage.name();
        figures.extend([
            Figure::alone(format!("processor of survivors, a member {name}"), "% core", processor),
            Figure::alone(format!("connection attempts, a member {name}"), "/s", attempts),
            Figure::alone(format!("return to heard of, a member {name}"), "s", back),
        ]);
    }
    Ok(figures)
}

/// Processor time in percent of a core, attempts per second, seconds from the return to the first
/// heartbeat.
async fn one_outage(ours: &mut Ours, outage: Outage, stretch: Duration) -> Result<[f64; 3]> {
    ours.cluster.settled().await;
    let leader = ours.cluster.leader().await;
    let lost = (0..NODES).rev().find(|node| *node != leader).context("there is a follower")?;
    let host = ours.cluster.nodes[lost].address.clone();
    let host = host.rsplit_once(':').context("an address has a port")?.0.to_owned();
    match outage {
        Outage::Refused => {
            filter(&host, "accept")?;
            ours.cluster.nodes[lost].kill();
        }
        Outage::Unreachable => filter(&host, "drop")?,
    }
    heard_of(ours, leader, lost, Heard::No).await?;
    tokio::time::sleep(SETTLE).await;
    let survivors: Vec<u32> = (0..NODES)
        .filter(|node| *node != lost)
        .map(|node| ours.cluster.nodes[node].pid())
        .collect();
    let used = || survivors.iter().map(|pid| processor_time(*pid)).collect::<Result<Vec<_>>>();
    let (before, first) = (used()?, attempts()?);
    tokio::time::sleep(stretch).await;
    let (after, last) = (used()?, attempts()?);
    let busiest = before.iter().zip(&after).map(|(before, after)| after.saturating_sub(*before));
    let busiest = busiest.max().context("there are survivors")?;
    let tried = f64::from(u32::try_from(last - first)?);
    let back = Instant::now();
    match outage {
        Outage::Refused => ours.cluster.nodes[lost].start(),
        Outage::Unreachable => {}
    }
    nft("flush ruleset")?;
    heard_of(ours, leader, lost, Heard::Yes).await?;
    let seconds = stretch.as_secs_f64();
    Ok([busiest.as_secs_f64() / seconds * 100.0, tried / seconds, back.elapsed().as_secs_f64()])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Yes,
    No,
}

/// Waits until the leader says that it hears of a member, or no longer does.
async fn heard_of(ours: &Ours, leader: usize, member: usize, wanted: Heard) -> Result<()> {
    let started = Instant::now();
    let name = &ours.cluster.nodes[member].name;
    while started.elapsed() < LIMIT {
        let status = ours.cluster.overview(leader).await.map_err(anyhow::Error::msg)?;
        let node = status.nodes.iter().find(|node| node.hostname == *name);
        let ready = node.context("the member is in the status")?.status == "ready";
        if ready == (wanted == Heard::Yes) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("after {LIMIT:?} the leader's word on {name} had not changed")
}

/// Counts every attempt to connect to a host, then accepts or drops what goes there or comes from
/// there.
fn filter(host: &str, verdict: &str) -> Result<()> {
    nft(&format!(
        "table ip bench {{ chain out {{ type filter hook output priority 0; policy accept;\n\
         ip daddr {host} tcp flags & (syn | ack) == syn counter\n\
         ip daddr {host} {verdict}\nip saddr {host} {verdict}\n}}\n}}\n"
    ))
}

/// How many attempts were counted since the filter was set.
fn attempts() -> Result<u64> {
    let output = Command::new("nft").args(["-j", "list", "table", "ip", "bench"]).output();
    let output = output.context("nft cannot be started")?;
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    counted(&listed).context("the counter is in the table")
}

/// The packets of the first counter in what `nft -j` lists.
fn counted(listed: &serde_json::Value) -> Option<u64> {
    let rules =
        listed["nftables"].as_array()?.iter().filter_map(|each| each["rule"]["expr"].as_array());
    rules.flatten().find_map(|part| part["counter"]["packets"].as_u64())
}

fn nft(script: &str) -> Result<()> {
    let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
    child.stdin.take().context("nft reads")?.write_all(script.as_bytes())?;
    let status = child.wait()?;
    ensure!(status.success(), "nft ended with {status}");
    Ok(())
}

/// Refuses to run where there is more than a loopback device, and starts that one.
fn own_namespace() -> Result<()> {
    let mut devices = std::fs::read_dir("/proc/sys/net/ipv4/conf")?;
    let foreign = devices.find_map(|device| {
        let name = device.ok()?.file_name().into_string().ok()?;
        (!["all", "default", "lo"].contains(&name.as_str())).then_some(name)
    });
    if let Some(name) = foreign {
        bail!("not a network namespace of its own, for it has {name}: start it by unshare --net");
    }
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
    ensure!(status.success(), "the loopback device cannot be started: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_read() {
        let listed = serde_json::json!({"nftables": [
            {"metainfo": {}},
            {"rule": {"expr": [{"match": {}}, {"counter": {"packets": 7, "bytes": 420}}]}},
            {"rule": {"expr": [{"drop": null}]}},
        ]});
        assert_eq!(counted(&listed), Some(7));
        assert_eq!(counted(&serde_json::json!({"nftables": []})), None);
    }
}

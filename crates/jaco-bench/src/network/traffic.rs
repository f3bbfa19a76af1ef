//! From container to container on different nodes: throughput of one connection, and round trips.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use jaco_proto::v1;
use jaco_testkit::router;
use serde_json::{Value, json};

use super::{IMAGE, LIMIT, Nodes, place_of};
use crate::Plan;
use crate::engines::said;
use crate::figure::{Figure, say};
use crate::ours::NODES;
use crate::swarm::{LOOK, WHO};

const DEPLOYMENT: &str = "traffic";

/// The names of Swarm's service and of its network.
const SERVICE: &str = "jaco-bench-traffic";

/// Two containers on different nodes, as folders of their first processes below `/proc`.
struct Pair {
    client: PathBuf,
    server: PathBuf,
    /// Of the server, in their common network.
    address: String,
    /// Of the client.
    own: String,
}

/// Gbit/s, and the mean round trip in milliseconds.
type Measured = (f64, f64);

/// Measures ours and Swarm's plain overlay in turns: first through the tunnel, then with the tunnel replaced by a wire, so
/// that neither encrypts.
pub(super) async fn measure(nodes: &mut Nodes, plan: Plan) -> Result<Vec<Figure>> {
    let ours = ours(nodes).await?;
    let theirs = tokio::task::block_in_place(|| swarm(nodes))?;
    let mut figures = in_turns("through the tunnel", &ours, &theirs, plan)?;
    tokio::task::block_in_place(|| replace_tunnel(nodes, &ours))?;
    figures.extend(in_turns("without encryption", &ours, &theirs, plan)?);
    Ok(figures)
}

fn in_turns(how: &str, ours: &Pair, theirs: &Pair, plan: Plan) -> Result<Vec<Figure>> {
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        own.push(tokio::task::block_in_place(|| ours.measure(plan))?);
        other.push(tokio::task::block_in_place(|| theirs.measure(plan))?);
        say(&format!("traffic {how}, round {round}: {:?}; {WHO} {:?}", own.last(), other.last()));
    }
    let figure = |what: &str, unit, of: fn(&Measured) -> f64| {
        let all = |measured: &[Measured]| measured.iter().map(of).collect();
        Figure::beside(format!("net, {what}, {how}"), unit, all(&own), WHO, all(&other))
    };
    Ok(vec![figure("throughput", "Gbit/s", |it| it.0), figure("round trip", "ms", |it| it.1)])
}

impl Pair {
    fn measure(&self, plan: Plan) -> Result<Measured> {
        let seconds = plan.stretch.as_secs().to_string();
        let server = Server::start(&self.server)?;
        let sent = said(
            inside(&self.client, "iperf3").args(["-c", &self.address, "-J"]).args(["-t", &seconds]),
        )?;
        drop(server);
        let report: Value = serde_json::from_str(&sent).context("iperf3 prints JSON")?;
        let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
        let args = ["-q", "-c", "300", "-i", "0.01", &self.address];
        let pinged = said(inside(&self.client, "ping").args(args))?;
        let mean = round_trip(&pinged).with_context(|| format!("no round trip in {pinged}"))?;
        Ok((bits.context("iperf3 says how much arrived")? / 1e9, mean))
    }
}

/// The mean of `rtt min/avg/max/mdev = 0.1/0.2/0.3/0.0 ms`.
fn round_trip(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("rtt "))?;
    line.split_once(" = ")?.1.split('/').nth(1)?.parse().ok()
}

/// Runs a program of the machine in the network of a container.
fn inside(process: &Path, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", process.join("ns/net").display())).arg(program);
    command
}

/// Takes one client.
struct Server(Child);

impl Server {
    fn start(process: &Path) -> Result<Self> {
        let mut command = inside(process, "iperf3");
        let server = Self(command.args(["-s", "-1"]).stdout(Stdio::null()).spawn()?);
        let begun = Instant::now();
        while !said(inside(process, "ss").arg("-ltn"))?.contains(":5201") {
            ensure!(begun.elapsed() < LIMIT, "iperf3 does not listen");
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends by itself after its client.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// One container on each node, in a network of the cluster.
async fn ours(nodes: &Nodes) -> Result<Pair> {
    let service = json!({"image": IMAGE, "deploy": {"mode": "global"}});
    let model = json!({"name": DEPLOYMENT, "services": {"web": service}});
    let replicas = nodes.deploy(model, NODES).await?;
    let on = |node: usize| -> Result<&v1::ReplicaInfo> {
        let mut all = replicas.iter();
        all.find(|replica| place_of(replica).is_ok_and(|at| at == node)).context("one is there")
    };
    let process = |node: usize| nodes.engines.members[node].process_of(&on(node)?.container_id);
    let address = |node: usize| -> Result<String> {
        Ok(on(node)?.addresses.first().context("it has an address")?.address.clone())
    };
    // Neither end is on the node with the bridge that joins the engines.
    Ok(Pair { client: process(1)?, server: process(2)?, address: address(2)?, own: address(1)? })
}

/// The same in a plain overlay network.
fn swarm(nodes: &Nodes) -> Result<Pair> {
    let manager = nodes.engines.members.first().context("there are three")?;
    manager.docker(&["network", "create", "--driver", "overlay", SERVICE])?;
    let create = ["service", "create", "--detach", "--quiet", "--no-resolve-image"];
    let rest = ["--name", SERVICE, "--network", SERVICE, "--mode", "global"];
    let mode = ["--endpoint-mode", "dnsrr", IMAGE];
    manager.docker(&[&create[..], &rest, &mode].concat())?;
    nodes.until_running(2 * NODES)?;
    let container = |node: usize| -> Result<String> {
        let label = format!("label=com.docker.swarm.service.name={SERVICE}");
        Ok(nodes.engines.members[node].docker(&["ps", "-q", "--filter", &label])?.trim().to_owned())
    };
    let process = |node: usize| nodes.engines.members[node].process_of(&container(node)?);
    let address = |node: usize| -> Result<String> {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        let found =
            nodes.engines.members[node].docker(&["inspect", "-f", format, &container(node)?]);
        Ok(found?.trim().to_owned())
    };
    Ok(Pair { client: process(1)?, server: process(2)?, address: address(2)?, own: address(1)? })
}

/// Puts a wire between the routers of the two nodes in the place of the tunnel. Their processes end, as they would repair
/// it; rules, ports and routes stay.
fn replace_tunnel(nodes: &mut Nodes, pair: &Pair) -> Result<()> {
    for at in 1..NODES {
        nodes.ours.cluster.nodes[at].kill();
        router::kill(&nodes.routers.0[at]);
    }
    let [near, far] = [1, 2].map(|at| nodes.routers.0[at].join("router"));
    let ip = |router: &Path, args: &str| {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", router.display())).arg("ip").args(args.split(' '));
        said(&mut command).map(drop)
    };
    ip(&near, "link del wg0")?;
    ip(&far, "link del wg0")?;
    let macs = ["02:aa:00:00:00:01", "02:aa:00:00:00:02"];
    let peer = format!("peer name wg0 address {} netns {}", macs[1], far.display());
    ip(&near, &format!("link add wg0 address {} type veth {peer}", macs[0]))?;
    for (router, remote, mac) in [(&near, &pair.address, macs[1]), (&far, &pair.own, macs[0])] {
        ip(router, "link set wg0 up mtu 1420")?;
        ip(router, &format!("route add {remote}/32 dev wg0 scope link"))?;
        // A tunnel has no ARP, and neither has this.
        ip(router, &format!("neigh replace {remote} lladdr {mac} dev wg0 nud permanent"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_read() {
        let said = "300 packets\n\nrtt min/avg/max/mdev = 0.041/0.125/0.300/0.010 ms\n";
        assert_eq!(round_trip(said), Some(0.125));
        assert_eq!(round_trip("nothing"), None);
    }
}

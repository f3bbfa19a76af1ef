//! Machines of a test: network namespaces, and a switch in another one that all are wired to. Daemons in them have
//! addresses of their own, so that packets show who sent them, and can be lost on the wire.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::wait::eventually_within;

const PATIENCE: Duration = Duration::from_secs(10);

/// Machines that reach each other and nothing else. Dropping them ends their namespaces.
#[derive(Debug)]
pub struct Machines {
    /// The first three bytes of all addresses.
    network: [u8; 3],
    switch: Holder,
    machines: Vec<Holder>,
}

impl Machines {
    /// So many, wired to one switch.
    ///
    /// # Panics
    /// When namespaces cannot be made, which takes root, or `unshare`, `nsenter` or `ip` are not there.
    pub async fn start(count: usize) -> Self {
        Self::start_in([10, 98, 0], count).await
    }

    /// The same, with addresses that begin with these bytes.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_in(network: [u8; 3], count: usize) -> Self {
        let mut machines = Vec::new();
        for _ in 0..count {
            machines.push(Holder::start().await);
        }
        let made = Self { network, switch: Holder::start().await, machines };
        ran(made.at_switch().args(["ip", "link", "add", "switch", "type", "bridge"]));
        ran(made.at_switch().args(["ip", "link", "set", "switch", "up"]));
        for at in 0..count {
            made.wire(at);
        }
        made
    }

    fn wire(&self, at: usize) {
        let (port, pid) = (port(at), self.machines[at].0.id().to_string());
        let address = format!("{}/24", self.address(at));
        let peer = ["type", "veth", "peer", "name", "wire", "netns", &pid];
        ran(self.at_switch().args(["ip", "link", "add", &port]).args(peer));
        ran(self.at_switch().args(["ip", "link", "set", &port, "master", "switch", "up"]));
        ran(self.inside(at).args(["ip", "address", "add", &address, "dev", "wire"]));
        ran(self.inside(at).args(["ip", "link", "set", "wire", "up"]));
        ran(self.inside(at).args(["ip", "link", "set", "lo", "up"]));
    }

    /// The IPv4 address of a machine.
    #[must_use]
    pub fn address(&self, at: usize) -> String {
        let [a, b, c] = self.network;
        format!("{a}.{b}.{c}.{}", at + 1)
    }

    /// Gives the switch an address, the last one of the network, and makes it the way of all machines to elsewhere, where nothing
    /// is: what runs at the switch is a client outside.
    pub fn have_outside(&self) {
        let [a, b, c] = self.network;
        let outside = format!("{a}.{b}.{c}.254");
        let assigned = format!("{outside}/24");
        ran(self.at_switch().args(["ip", "address", "add", &assigned, "dev", "switch"]));
        for at in 0..self.machines.len() {
            ran(self.inside(at).args(["ip", "route", "add", "default", "via", &outside]));
        }
    }

    /// The network namespace of a machine, as a file.
    #[must_use]
    pub fn namespace(&self, at: usize) -> PathBuf {
        self.machines[at].namespace()
    }

    /// The network namespace of the switch, as a file.
    #[must_use]
    pub fn switch(&self) -> PathBuf {
        self.switch.namespace()
    }

    /// A command that runs what is appended to it at the switch.
    #[must_use]
    pub fn at_switch(&self) -> Command {
        self.switch.enter()
    }

    /// A command that runs what is appended to it on a machine.
    #[must_use]
    pub fn inside(&self, at: usize) -> Command {
        self.machines[at].enter()
    }

    /// Drops all packets to and from a machine on the wire, as if it were switched off: nobody is told.
    pub fn cut(&self, at: usize) {
        let port = port(at);
        let table = format!(
            "table bridge cut {{\nchain forward {{\ntype filter hook forward priority 0\n\
             ether type ip iifname \"{port}\" drop\nether type ip oifname \"{port}\" drop\n}}\n}}\n"
        );
        load(&mut self.at_switch(), &table);
    }

    /// Drops what comes on the wire for a TCP port of a machine, as a firewall does; the connections that it makes itself
    /// go on.
    pub fn close_port(&self, at: usize, port: u16) {
        let table = format!(
            "table inet closed {{\nchain input {{\ntype filter hook input priority 0\n\
             iifname \"wire\" tcp dport {port} drop\n}}\n}}\n"
        );
        load(&mut self.inside(at), &table);
    }

    /// Ends every [`Machines::close_port`] of a machine.
    pub fn open_ports(&self, at: usize) {
        load(&mut self.inside(at), "delete table inet closed\n");
    }

    /// Ends every [`Machines::cut`].
    pub fn join(&self) {
        load(&mut self.at_switch(), "flush ruleset\n");
    }

    /// Counts, from now on, how often a machine tries to connect to another one.
    pub fn count_attempts(&self, from: usize, to: usize) {
        let table = format!(
            "flush ruleset\ntable ip attempts {{\nchain out {{\ntype filter hook output priority 0\n\
             ip daddr {} tcp flags & (syn | ack) == syn counter\n}}\n}}\n",
            self.address(to)
        );
        load(&mut self.inside(from), &table);
    }

    /// How many attempts a machine has made since [`Machines::count_attempts`].
    ///
    /// # Panics
    /// When they are not counted.
    #[must_use]
    pub fn attempts(&self, from: usize) -> u64 {
        let listed = ran(self.inside(from).args(["nft", "-j", "list", "table", "ip", "attempts"]));
        let listed: serde_json::Value = serde_json::from_str(&listed).expect("nft prints JSON");
        counted(&listed).expect("the attempts are counted")
    }
}

/// The port of the switch that a machine is wired to.
fn port(at: usize) -> String {
    format!("port{at}")
}

/// The packets of the first counter in what `nft -j` lists.
fn counted(listed: &serde_json::Value) -> Option<u64> {
    let rules =
        listed["nftables"].as_array()?.iter().filter_map(|each| each["rule"]["expr"].as_array());
    rules.flatten().find_map(|part| part["counter"]["packets"].as_u64())
}

/// A process that does nothing but keep a network namespace.
#[derive(Debug)]
struct Holder(Child);

impl Holder {
    async fn start() -> Self {
        let holder = Command::new("unshare").args(["--net", "sleep", "infinity"]).spawn();
        let holder = Self(holder.expect("a namespace can be made"));
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
        eventually_within(PATIENCE, "the namespace is there", || async {
            let (theirs, ours) = (of(&holder.0.id().to_string()), of("self"));
            if theirs.is_some() && theirs != ours { Ok(()) } else { Err("it is still ours") }
        })
        .await;
        holder
    }

    fn namespace(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.0.id()))
    }

    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace().display()));
        command
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have been ended from outside.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Loads rules by `nft`, in the namespace that the command enters.
///
/// # Panics
/// When they are refused.
pub(crate) fn load(command: &mut Command, rules: &str) {
    let child = command.args(["nft", "-f", "-"]).stdin(Stdio::piped()).spawn();
    let mut child = child.expect("nft is there");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(rules.as_bytes()).expect("nft reads");
    drop(input);
    let status = child.wait().expect("nft ends");
    assert!(status.success(), "nft ended with {status} for {rules}");
}

fn ran(command: &mut Command) -> String {
    let output = command.output().expect("the program is there");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
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

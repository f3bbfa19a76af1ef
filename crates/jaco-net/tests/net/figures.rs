//! Throughput and times. Printed, never judged: the machine is shared.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jaco_net::Namespace;

use crate::lab::{Lab, ip, run};
use crate::packets::{Receiver, arrives};
use crate::scenario::{Scenario, address, large};
use crate::steady::TWO_SITES;

/// Measures and prints.
pub(crate) fn print() {
    tunnel();
    direct();
    times();
}

/// Container to container over the userspace tunnel.
fn tunnel() {
    let lab = Lab::started(&Scenario::new(TWO_SITES));
    let receiver = Receiver::new(lab.container(2, 12));
    assert!(arrives(lab.container(1, 10), address(7, 10), &receiver, address(7, 12)));
    traffic("tunnel", lab.container(1, 10), lab.container(2, 12), address(7, 12));
}

/// Between two containers of one bridge: what the machine has without routers and tunnel.
fn direct() {
    let same = TWO_SITES.replace("instance 2 shop/db", "instance 1 shop/db");
    let lab = Lab::new(&Scenario::new(&same));
    traffic("bridge", lab.container(1, 10), lab.container(1, 12), address(7, 12));
    // Through a router namespace, over a veth instead of a tunnel.
    let lab = routed();
    traffic("router", lab.container(1, 10), lab.container(2, 12), address(7, 12));
}

/// The two routers connected by a veth that takes the place of the tunnel.
fn routed() -> Lab {
    let scenario = Scenario::new(TWO_SITES);
    let mut lab = Lab::started(&scenario);
    lab.sites.values_mut().for_each(crate::lab::Site::kill);
    let [one, two] = [lab.sites[&1].router(), lab.sites[&2].router()];
    for router in [&one, &two] {
        ip(router, "link del wg0");
    }
    let other = two.path().to_str().unwrap();
    let (near, far) = ("02:aa:00:00:00:01", "02:aa:00:00:00:02");
    let pair = format!("address {near} type veth peer name wg0 address {far} netns {other}");
    ip(&one, &format!("link add wg0 {pair}"));
    for (router, remote, hardware) in [(&one, 12, far), (&two, 10, near)] {
        ip(router, "link set wg0 up mtu 1420");
        let remote = address(7, remote);
        ip(router, &format!("route add {remote}/32 dev wg0 scope link"));
        // A tunnel has no ARP, and neither has this.
        ip(router, &format!("neigh replace {remote} lladdr {hardware} dev wg0 nud permanent"));
    }
    lab
}

fn traffic(name: &str, from: &Namespace, to: &Namespace, target: std::net::Ipv4Addr) {
    let target = target.to_string();
    let ping = run(from, Command::new("ping").args(["-c50", "-i0.02", "-q", &target]));
    let rtt = ping.lines().find(|line| line.starts_with("rtt")).unwrap_or("no answer");
    for streams in ["1", "4"] {
        let server = serve(to);
        let mut command = Command::new("iperf3");
        command.args(["-c", &target, "-t", "5", "-P", streams, "-J"]);
        let before = cpu();
        let report: serde_json::Value = serde_json::from_str(&run(from, &mut command)).unwrap();
        let used = cpu().saturating_sub(before);
        let bits = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0);
        println!(
            "{name}: {streams} streams {:.2} Gbit/s, {used:.1?} of CPU on the machine",
            bits / 1e9
        );
        drop(server);
    }
    println!("{name}: {rtt}");
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It ends by itself after one client.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn serve(namespace: &Namespace) -> Server {
    let mut command = Command::new("iperf3");
    command.args(["-s", "-1"]).stdout(Stdio::null());
    let server = Server(namespace.run(|| command.spawn().unwrap()).unwrap());
    let begun = Instant::now();
    while !run(namespace, Command::new("ss").args(["-ltn"])).contains(":5201") {
        assert!(begun.elapsed() < Duration::from_secs(5), "iperf3 does not listen");
    }
    server
}

/// The time that all processors have worked so far.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let words: Vec<u64> = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|word| word.parse().unwrap())
        .collect();
    // User, nice, system, irq, softirq, in hundredths.
    Duration::from_millis([0, 1, 2, 5, 6].map(|at| words[at]).iter().sum::<u64>() * 10)
}

/// 500 networks with 50 addresses each: from nothing, and one change.
fn times() {
    let scenario = large(500, 50);
    let mut lab = Lab::new(&scenario);
    let site = lab.sites.get_mut(&1).unwrap();
    site.start();
    println!("500 x 50: plan {}", site.tell_cluster(&scenario));
    println!("500 x 50: apply from nothing {}", site.ask("apply"));
    println!("500 x 50: apply again {}", site.ask("apply"));
    println!("500 x 50: observe {}", site.ask("observe"));
    println!("500 x 50: apply after observing {}", site.ask("apply"));
    let mut changed = scenario.clone();
    changed.lines.push("instance 2 d9/web 9 200 ready".to_owned());
    site.tell_cluster(&changed);
    println!("500 x 50: one instance more elsewhere {}", site.ask("apply"));
    site.tell_cluster(&scenario);
    println!("500 x 50: one instance less elsewhere {}", site.ask("apply"));
    let mut changed = scenario.clone();
    changed.lines.retain(|line| !line.starts_with("instance 1 d9/"));
    site.tell_cluster(&changed);
    println!("500 x 50: one network less {}", site.ask("apply"));
    site.tell_cluster(&scenario);
    println!("500 x 50: one network more {}", site.ask("apply"));
}

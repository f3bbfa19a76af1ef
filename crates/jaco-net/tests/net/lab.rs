//! Sites and containers out of namespaces, and the wire between the sites.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use jaco_dataplane::Topology;
use jaco_net::Namespace;
use jaco_types::NetworkId;
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::scenario::{Scenario, address, networks_of, underlay};

/// A folder of this process alone, on a file system that ends with it.
const FOLDER: &str = "/mnt";

static LABS: AtomicU32 = AtomicU32::new(0);

/// Moves this process into namespaces of its own, before it starts any thread.
pub(crate) fn isolate() -> Result<(), String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET;
    unshare(flags).map_err(|error| failed("no namespaces can be made (needs root)", &error))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| failed("mounts cannot be made private", &error))?;
    mount("tmpfs", FOLDER, "tmpfs", MountFlags::empty(), None)
        .map_err(|error| failed("no file system can be mounted", &error))?;
    for program in ["ip", "nft", "tcpdump", "iperf3", "ping"] {
        let found = std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|folder| folder.join(program).exists())
        });
        if !found {
            return Err(format!("{program} is not installed"));
        }
    }
    Ok(())
}

/// Several sites on one wire.
pub(crate) struct Lab {
    folder: PathBuf,
    /// The wire: a bridge whose ports are the sites.
    pub(crate) wire: Namespace,
    pub(crate) sites: BTreeMap<u8, Site>,
}

/// A site: the namespace of a container engine, and the process of its router.
pub(crate) struct Site {
    pub(crate) number: u8,
    pub(crate) folder: PathBuf,
    pub(crate) engine: Namespace,
    pub(crate) process: Option<Process>,
    pub(crate) containers: BTreeMap<u8, Namespace>,
}

/// The process of a router.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What it said first.
    pub(crate) begun: String,
}

impl Lab {
    /// Builds the engines, bridges and containers of a scenario. No router is started.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self::of(&scenario.topology())
    }

    /// The same of a topology; one with many instances gets no containers.
    pub(crate) fn of(topology: &Topology) -> Self {
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(FOLDER).join(format!("lab{number}"));
        let wire = Namespace::ensure(&folder.join("wire")).unwrap();
        ip(&wire, "link add wire type bridge");
        ip(&wire, "link set wire up");
        let mut lab = Self { folder, wire, sites: BTreeMap::new() };
        for node in topology.nodes.keys() {
            lab.add_site(u8::try_from(node.0).unwrap(), topology);
        }
        lab
    }

    /// The same with all routers started and the scenario applied.
    pub(crate) fn started(scenario: &Scenario) -> Self {
        let mut lab = Self::new(scenario);
        lab.sites.values_mut().for_each(Site::start);
        lab.apply(scenario);
        lab
    }

    /// Tells all sites what the cluster is, and waits until all have applied it.
    pub(crate) fn apply(&mut self, scenario: &Scenario) {
        for site in self.sites.values_mut() {
            site.tell_cluster(scenario);
            let applied = site.ask("apply");
            assert!(applied.contains("failed=0"), "site {}: {applied}", site.number);
        }
    }

    pub(crate) fn container(&self, site: u8, last: u8) -> &Namespace {
        &self.sites[&site].containers[&last]
    }

    fn add_site(&mut self, number: u8, topology: &Topology) {
        let folder = self.folder.join(format!("site{number}"));
        let engine = Namespace::ensure(&folder.join("engine")).unwrap();
        let link = format!("link add w{number} type veth peer name eth0 netns");
        ip(&self.wire, &format!("{link} {}", id(&engine)));
        ip(&self.wire, &format!("link set w{number} master wire up"));
        ip(&engine, &format!("addr add {}/24 dev eth0", underlay(number)));
        ip(&engine, "link set eth0 up");
        ip(&engine, "link set lo up");
        forbid_forwarding(&engine);
        let mut site = Site { number, folder, engine, process: None, containers: BTreeMap::new() };
        for (id, network) in networks_of(topology, number) {
            let bridge = &network.bridge;
            ip(&site.engine, &format!("link add {bridge} type bridge"));
            ip(&site.engine, &format!("addr add {}/24 dev {bridge}", address(id.0.into(), 1)));
            // What a container engine sets on networks between sites.
            ip(&site.engine, &format!("link set {bridge} mtu 1420 up"));
            let rule =
                format!("add rule ip filter forward iifname {bridge} oifname {bridge} accept");
            nft(&site.engine, &rule);
        }
        for instance in topology.instances.values() {
            if instance.node.0 == u64::from(number) && topology.instances.len() < 100 {
                let networks: Vec<NetworkId> =
                    instance.addresses.iter().map(|(id, _)| *id).collect();
                site.add_container(instance.addresses[0].1.octets()[3], &networks);
            }
        }
        self.sites.insert(number, site);
    }
}

/// As a container engine with all its defaults: what crosses from one bridge to another is dropped.
fn forbid_forwarding(engine: &Namespace) {
    engine.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap()).unwrap();
    nft(engine, "add table ip filter");
    nft(
        engine,
        "add chain ip filter forward { type filter hook forward priority 0; policy drop; }",
    );
}

impl Site {
    fn add_container(&mut self, last: u8, networks: &[NetworkId]) {
        let container = Namespace::ensure(&self.folder.join(format!("container{last}"))).unwrap();
        for (number, network) in networks.iter().enumerate() {
            let (own, end) = (format!("eth{number}"), format!("c{last}n{network}"));
            let peer = format!("type veth peer name {own} netns {}", id(&container));
            ip(&self.engine, &format!("link add {end} {peer}"));
            ip(&self.engine, &format!("link set {end} master br-{network} up"));
            ip(&container, &format!("addr add {}/24 dev {own}", address(network.0.into(), last)));
            ip(&container, &format!("link set {own} mtu 1420 up"));
        }
        ip(&container, "link set lo up");
        ip(&container, &format!("route add default via {}", address(networks[0].0.into(), 1)));
        self.containers.insert(last, container);
    }

    pub(crate) fn router(&self) -> Namespace {
        Namespace::ensure(&self.folder.join("router")).unwrap()
    }

    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    /// Starts the router, with resolvers for other names.
    pub(crate) fn start_with(&mut self, resolvers: &[String]) {
        let mut command = Command::new("/proc/self/exe");
        command.arg("site").arg(&self.folder).arg(self.number.to_string()).args(resolvers);
        self.process = Some(Process::start(&self.engine, &mut command));
        let begun = &self.process.as_ref().unwrap().begun;
        assert!(begun.starts_with("ok"), "site {}: {begun}", self.number);
    }

    pub(crate) fn tell_cluster(&mut self, scenario: &Scenario) -> String {
        let lines = scenario.lines.join("\n");
        self.ask(&format!("cluster\n{lines}\n."))
    }

    /// Sends a command and returns its answer.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.process.as_mut().expect("it was started").ask(command)
    }

    /// Kills the process of the router, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }
}

impl Process {
    pub(crate) fn start(engine: &Namespace, command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = engine.run(|| command.spawn().unwrap()).unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut begun = String::new();
        output.read_line(&mut begun).unwrap();
        Self { child, input, output, begun }
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How `ip` names a namespace that is bound to a file.
fn id(namespace: &Namespace) -> String {
    namespace.path().to_str().unwrap().to_owned()
}

/// Runs `ip` in a namespace.
pub(crate) fn ip(namespace: &Namespace, arguments: &str) -> String {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    run(namespace, Command::new("ip").args(words))
}

/// Runs a line of `nft` in a namespace.
pub(crate) fn nft(namespace: &Namespace, line: &str) -> String {
    run(namespace, Command::new("nft").arg(line))
}

/// Runs a program in a namespace and returns what it printed.
pub(crate) fn run(namespace: &Namespace, command: &mut Command) -> String {
    let output = namespace.run(|| command.output().unwrap()).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

//! The process of a router, as a daemon uses it: by its socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jaco_dataplane::{Topology, plan};
use jaco_net::{Backend, Namespace, RouterClient, RouterStatus, ServiceOptions, serve};
use jaco_types::{NetworkId, NodeId, StateIndex};
use tokio::runtime::Runtime;

use crate::Test;
use crate::handover;
use crate::lab::{Lab, Site, ip, nft};
use crate::names::addresses_of;
use crate::packets::{Receiver, arrives};
use crate::process::{Conversation, too_few};
use crate::scenario::{PORT, Scenario, address};
use crate::steady::TWO_SITES;
use crate::vm;

pub(crate) const TESTS: &[Test] = &[
    ("a_plan_is_carried_out_and_acknowledged", a_plan_is_carried_out_and_acknowledged),
    ("a_killed_process_goes_on_with_its_plan_alone", a_killed_process_goes_on_with_its_plan_alone),
    ("a_missing_bridge_is_waited_for", a_missing_bridge_is_waited_for),
    ("rules_that_others_change_are_soon_as_planned", rules_that_others_change_are_soon_as_planned),
    (
        "rules_are_put_right_while_a_bridge_is_missing",
        rules_are_put_right_while_a_bridge_is_missing,
    ),
    ("there_is_one_process_and_one_user", there_is_one_process_and_one_user),
];

/// Longer than anything here takes, on emulated processors too.
fn patience() -> Duration {
    Duration::from_secs(if vm::is_emulated() { 30 } else { 10 })
}

/// The largest pause that a killed and restarted process may cause.
const PAUSE: Duration = Duration::from_secs(1);

/// How soon rules are again as planned: a look at them, and loading them.
const REPAIRED: Duration = Duration::from_secs(1);

/// `service RUNTIME_DIR [userspace]`
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let runtime_dir = PathBuf::from(&arguments[0]);
    let edge_socket = handover::socket_path(&runtime_dir);
    let backend = (arguments.len() > 1).then_some(Backend::Userspace);
    let options = ServiceOptions { runtime_dir, port: PORT, backend, edge_socket };
    match runtime.block_on(serve(options, || {}, std::future::pending())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Which tunnel a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// The kernel's, where there is one.
    ByItself,
    Userspace,
}

/// The process of a site, and a connection to it.
pub(crate) struct Service {
    child: Child,
    dir: PathBuf,
}

impl Service {
    /// Starts the process in the namespace of the site's engine. Its key is that of the scenario.
    pub(crate) fn start(site: &Site) -> Self {
        Self::start_on(site, Chosen::ByItself)
    }

    /// The same with a tunnel that is chosen for it.
    pub(crate) fn start_on(site: &Site, tunnel: Chosen) -> Self {
        let key = site.folder.join("key");
        fs::write(&key, [site.number; 32]).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        Self::again_on(site, tunnel)
    }

    /// Starts the process where one was before, whose key it finds.
    pub(crate) fn again(site: &Site) -> Self {
        Self::again_on(site, Chosen::ByItself)
    }

    /// The same with a tunnel that is chosen for it.
    pub(crate) fn again_on(site: &Site, tunnel: Chosen) -> Self {
        let mut command = command(&site.folder);
        match tunnel {
            Chosen::ByItself => {}
            Chosen::Userspace => drop(command.arg("userspace")),
        }
        let child = site.engine.run(|| command.spawn().unwrap()).unwrap();
        Self { child, dir: site.folder.clone() }
    }

    /// The same with an `nft` that writes down what it is told to do; see [`Service::listings`] and [`Service::disturb`].
    fn watched(site: &Site) -> Self {
        let folder = site.folder.join("bin");
        fs::create_dir_all(&folder).unwrap();
        let nft = folder.join("nft");
        let path = std::env::var("PATH").unwrap();
        let script = format!(
            "#!/bin/sh
cd {}
PATH={path}
echo \"$*\" >> told
nft \"$@\" || exit
left=$(cat disturbed 2>/dev/null)
case \"$*\" in *-f*) [ \"${{left:-0}}\" -eq 0 ] || {{
    nft insert rule inet jaco forward accept
    echo $((left - 1)) > left
    mv left disturbed
}} ;; esac
",
            folder.display()
        );
        fs::write(&nft, script).unwrap();
        fs::set_permissions(&nft, fs::Permissions::from_mode(0o700)).unwrap();
        let mut command = command(&site.folder);
        command.env("PATH", format!("{}:{path}", folder.display()));
        let child = site.engine.run(|| command.spawn().unwrap()).unwrap();
        Self { child, dir: site.folder.clone() }
    }

    /// How often a watched one has read all rules.
    fn listings(&self) -> usize {
        let told = fs::read_to_string(self.dir.join("bin/told")).unwrap_or_default();
        told.lines().filter(|line| line.contains("list ruleset")).count()
    }

    /// Has another process add a rule right after each of the next `loads` loads of a watched one.
    fn disturb(&self, loads: usize) {
        fs::write(self.dir.join("bin/disturbed"), loads.to_string()).unwrap();
    }

    /// How many of these loads are still to come.
    fn to_disturb(&self) -> usize {
        fs::read_to_string(self.dir.join("bin/disturbed")).unwrap().trim().parse().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How much memory it has, in MiB.
    pub(crate) fn memory_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }

    /// How long processors have worked for it.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // User and system, in hundredths of a second.
        let ticks: u64 = [11, 12].map(|at| fields[at].parse::<u64>().unwrap()).iter().sum();
        Duration::from_millis(ticks * 10)
    }

    pub(crate) async fn connect(&self) -> RouterClient {
        let begun = Instant::now();
        loop {
            match RouterClient::connect(&self.dir).await {
                Ok(client) => return client,
                Err(error) => assert!(begun.elapsed() < patience(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have been killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("service").arg(dir).stdin(Stdio::null());
    command
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) async fn hold(client: &mut RouterClient, index: u64, scenario: &Scenario, site: u8) {
    hold_topology(client, index, &scenario.topology(), site).await;
}

pub(crate) async fn hold_topology(
    client: &mut RouterClient,
    index: u64,
    topology: &Topology,
    site: u8,
) {
    let plan = plan(topology, NodeId(site.into()));
    client.hold(StateIndex(index), &plan).await.unwrap();
}

/// Waits until the status is as `wanted` says.
pub(crate) async fn status(
    client: &RouterClient,
    wanted: impl Fn(&RouterStatus) -> bool,
) -> RouterStatus {
    let mut status = client.status();
    let found = tokio::time::timeout(patience(), status.wait_for(|status| wanted(status))).await;
    found
        .map(|found| found.unwrap().clone())
        .unwrap_or_else(|_| panic!("the status stays {:?}", client.status().borrow()))
}

/// Both sites hold the scenario as the plan of this index.
pub(crate) fn started(lab: &Lab, scenario: &Scenario, index: u64) -> (Runtime, Vec<Service>) {
    started_with(lab, &scenario.topology(), index)
}

pub(crate) fn started_with(lab: &Lab, topology: &Topology, index: u64) -> (Runtime, Vec<Service>) {
    let services: Vec<Service> = lab.sites.values().map(Service::start).collect();
    (hold_all(&services, lab, topology, index), services)
}

/// All sites hold the topology as the plan of this index.
pub(crate) fn hold_all(
    services: &[Service],
    lab: &Lab,
    topology: &Topology,
    index: u64,
) -> Runtime {
    let runtime = runtime();
    runtime.block_on(async {
        for (service, site) in services.iter().zip(lab.sites.values()) {
            let mut client = service.connect().await;
            hold_topology(&mut client, index, topology, site.number).await;
            status(&client, |status| status.applied() == Some(StateIndex(index))).await;
        }
    });
    runtime
}

/// A site holds the topology as the plan of this index, without a failure.
pub(crate) async fn tell(service: &Service, index: u64, topology: &Topology, site: u8) {
    let mut client = service.connect().await;
    hold_topology(&mut client, index, topology, site).await;
    let held = status(&client, |status| status.applied() == Some(StateIndex(index))).await;
    assert_eq!((held.error.clone(), held.failures().next()), (None, None));
}

fn reaches(lab: &Lab) -> bool {
    let receiver = Receiver::new(lab.container(2, 12));
    arrives(lab.container(1, 10), address(7, 10), &receiver, address(7, 12))
}

/// NET-12: what is acknowledged holds: packets arrive, names are answered, and the next plan replaces this one.
fn a_plan_is_carried_out_and_acknowledged() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (runtime, services) = started(&lab, &scenario, 41);
    assert!(reaches(&lab));
    assert_eq!(addresses_of(lab.container(1, 10), address(7, 2), "db."), [address(7, 12)]);
    let smaller = Scenario::new(&TWO_SITES.replace("instance 1 shop/web 7 10 ready", ""));
    runtime.block_on(async {
        let mut client = services[0].connect().await;
        assert_eq!(client.status().borrow().applied(), Some(StateIndex(41)), "it says so at once");
        hold(&mut client, 42, &smaller, 1).await;
        let held = status(&client, |status| status.applied() == Some(StateIndex(42))).await;
        assert_eq!((held.error.clone(), held.failure(&[NetworkId(7)])), (None, None));
    });
    assert!(!ip(&lab.sites[&1].router(), "-o link").contains("s7"));
}

/// `kill -9`: rules and routes stay; the next process goes on with the last plan although no daemon is there, and an
/// open connection sees a pause and no reset.
fn a_killed_process_goes_on_with_its_plan_alone() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (runtime, mut services) = started(&lab, &scenario, 41);
    for (at, site) in lab.sites.values().enumerate() {
        let conversation = Conversation::begin(&lab, 6000 + u16::from(site.number));
        thread::sleep(Duration::from_millis(300));
        let router = site.router();
        let before = (ip(&router, "route"), nft(&router, "list ruleset"));
        services[at].kill();
        let routes = ip(&router, "route").replace(" linkdown", "");
        assert_eq!((routes, nft(&router, "list ruleset")), before, "site {}", site.number);
        services[at] = Service::start(site);
        runtime.block_on(async {
            let client = services[at].connect().await;
            status(&client, |status| status.applied() == Some(StateIndex(41))).await;
        });
        thread::sleep(Duration::from_millis(1500));
        let (count, longest) = conversation.end();
        println!("site {}: longest pause {longest:.0?}, {count} messages", site.number);
        assert!(
            count > too_few() && longest < PAUSE,
            "{count} messages, longest pause {longest:?}"
        );
    }
    assert_eq!(addresses_of(lab.container(1, 10), address(7, 2), "db."), [address(7, 12)]);
}

/// A network whose bridge the engine has not made yet is named with the reason, keeps nothing else away, and has its
/// port soon after the bridge is there.
fn a_missing_bridge_is_waited_for() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let engine = &lab.sites[&1].engine;
    ip(engine, "link del br-8");
    let (runtime, services) = started(&lab, &scenario, 41);
    assert!(reaches(&lab));
    runtime.block_on(async {
        let mut client = services[0].connect().await;
        let current = client.status().borrow().clone();
        assert_eq!(current.failure(&[NetworkId(7)]), None);
        let failure = current.failure(&[NetworkId(7), NetworkId(8)]).unwrap();
        assert_eq!(
            (failure.network, failure.reason.as_str()),
            (NetworkId(8), "there is no bridge br-8")
        );
        ip(engine, "link add br-8 type bridge");
        ip(engine, "link set br-8 up");
        client.retry().await.unwrap();
        status(&client, |status| status.failure(&[NetworkId(8)]).is_none()).await;
    });
    assert!(ip(engine, "-o link").contains("jr8"));
}

/// NET-12: the kernel tells of changes of the rules, so those of others are put right at once, also while the plan changes,
/// and not only when all of the router is compared. The router's own changes are no reason to look.
fn rules_that_others_change_are_soon_as_planned() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (runtime, mut services) = started(&lab, &scenario, 41);
    services[0].kill();
    services[0] = Service::watched(&lab.sites[&1]);
    runtime.block_on(tell(&services[0], 42, &scenario.topology(), 1));
    let router = lab.sites[&1].router();
    let before = nft(&router, "list ruleset");
    let are_back = |what: &str| are_soon_again(&router, &before, what);
    let sabotages = [
        "flush ruleset",
        "delete element inet jaco scopes { \"s7\" . 10.65.7.0/24 . 10.65.7.0/24 }",
        "add rule inet jaco forward accept",
    ];
    for sabotage in sabotages {
        nft(&router, sabotage);
        are_back(sabotage);
    }
    for loads in 1..=7 {
        services[0].disturb(loads);
        nft(&router, "add rule inet jaco forward accept");
        let begun = Instant::now();
        while services[0].to_disturb() > 0 {
            assert!(begun.elapsed() < patience(), "{loads}: {}", services[0].to_disturb());
            thread::sleep(Duration::from_millis(5));
        }
        are_back(&format!("after {loads} loads that were disturbed"));
    }
    assert!(reaches(&lab));
    let smaller = Scenario::new(&TWO_SITES.replace("instance 1 blog/web 8 11 ready", ""));
    // What was put right last may still be compared.
    thread::sleep(REPAIRED);
    let listings = services[0].listings();
    assert!(listings >= sabotages.len(), "{listings}");
    runtime.block_on(async {
        for index in (44..54).step_by(2) {
            tell(&services[0], index, &smaller.topology(), 1).await;
            tell(&services[0], index + 1, &scenario.topology(), 1).await;
        }
    });
    thread::sleep(REPAIRED);
    assert_eq!(services[0].listings(), listings, "its own changes are known");
    nft(&router, "delete table inet jaco");
    runtime.block_on(tell(&services[0], 54, &smaller.topology(), 1));
    runtime.block_on(tell(&services[0], 55, &scenario.topology(), 1));
    are_back("a flush before changes of the plan");
}

/// NET-12: also while a network has no port, which is tried again and again.
fn rules_are_put_right_while_a_bridge_is_missing() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    ip(&lab.sites[&1].engine, "link del br-8");
    let (_runtime, _services) = started(&lab, &scenario, 41);
    let router = lab.sites[&1].router();
    assert!(!ip(&router, "-o link").contains("s8"));
    let before = nft(&router, "list ruleset");
    for sabotage in ["flush ruleset", "insert rule inet jaco forward accept"] {
        nft(&router, sabotage);
        are_soon_again(&router, &before, sabotage);
    }
    assert!(reaches(&lab));
}

/// Waits until the rules of a router are `planned` again.
fn are_soon_again(router: &Namespace, planned: &str, what: &str) {
    let begun = Instant::now();
    while nft(router, "list ruleset") != planned {
        assert!(begun.elapsed() < REPAIRED, "{what}: {}", nft(router, "list ruleset"));
        thread::sleep(Duration::from_millis(5));
    }
    println!("{what}: as planned after {:.0?}", begun.elapsed());
}

/// The folder is its owner's alone, and so is the key; a second process refuses to start.
fn there_is_one_process_and_one_user() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (_runtime, _services) = started(&lab, &scenario, 41);
    let site = &lab.sites[&1];
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&site.folder), 0o700);
    assert_eq!(mode(&site.folder.join("key")), 0o600);
    assert_eq!(mode(&site.folder.join("socket")), 0o600);
    let second = site.engine.run(|| command(&site.folder).output().unwrap()).unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8(second.stdout).unwrap();
    assert!(said.contains("another process keeps this router"), "{said}");
}

//! Applying again, after changes by others, and where something is missing.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Test;
use crate::lab::{Lab, Process, ip, nft, run};
use crate::packets::{Receiver, arrives};
use crate::scenario::{Scenario, address};

pub(crate) const TESTS: &[Test] = &[
    ("applying_twice_writes_nothing", applying_twice_writes_nothing),
    ("changes_of_others_are_repaired", changes_of_others_are_repaired),
    ("no_port_without_a_policy", no_port_without_a_policy),
    ("a_missing_bridge_is_reported", a_missing_bridge_is_reported),
    ("what_is_not_planned_is_removed", what_is_not_planned_is_removed),
    ("the_engines_namespace_is_left_alone", the_engines_namespace_is_left_alone),
    ("an_address_that_is_gone_is_refused_at_once", an_address_that_is_gone_is_refused_at_once),
];

pub(crate) const TWO_SITES: &str = "
    node 1
    node 2
    network 7 external
    network 8 external
    instance 1 shop/web 7 10 ready
    instance 1 blog/web 8 11 ready
    instance 2 shop/db 7 12 ready
    instance 2 blog/db 8 13 ready
";

fn reaches(lab: &Lab) -> bool {
    let receiver = Receiver::new(lab.container(2, 12));
    arrives(lab.container(1, 10), address(7, 10), &receiver, address(7, 12))
}

/// NET-12: at rest nothing is written, neither to the kernel's tables nor to the rules.
fn applying_twice_writes_nothing() {
    let mut lab = Lab::started(&Scenario::new(TWO_SITES));
    assert!(reaches(&lab));
    let site = lab.sites.get_mut(&1).unwrap();
    let router = site.router();
    let monitor = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("timeout");
        command.arg("3").arg(program).args(arguments).stdout(Stdio::piped());
        router.run(|| command.spawn().unwrap()).unwrap()
    };
    let links = monitor("ip", &["monitor", "link", "address", "route"]);
    let rules = monitor("nft", &["monitor"]);
    // Both must listen before anything could be missed.
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..3 {
        assert!(site.ask("apply").contains("steps=0 "));
        assert!(site.ask("observe").contains("policy=true"));
    }
    for monitor in [links, rules] {
        let output = monitor.wait_with_output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&output), "");
    }
}

/// The scope of network 7, as `nft` writes it.
const SCOPE: &str = "\"s7\" . 10.65.7.0/24 . 10.65.7.0/24";

/// NET-12: what others change in the router is seen and put right, each time in one application.
fn changes_of_others_are_repaired() {
    let mut lab = Lab::started(&Scenario::new(TWO_SITES));
    assert!(reaches(&lab));
    let router = lab.sites[&1].router();
    let sabotages: [&dyn Fn(); 9] = [
        &|| drop(nft(&router, "flush ruleset")),
        &|| drop(nft(&router, &format!("delete element inet jaco scopes {{ {SCOPE} }}"))),
        &|| drop(nft(&router, "add rule inet jaco forward accept")),
        &|| drop(ip(&router, "link del s7")),
        &|| drop(ip(&router, "addr flush dev s7")),
        &|| drop(ip(&router, &format!("route del {}/32", address(7, 12)))),
        &|| drop(ip(&router, "link del wg0")),
        &|| drop(ip(&router, "link set wg0 down")),
        &|| {
            let file = "/proc/sys/net/ipv4/conf/all/rp_filter";
            router.run(|| std::fs::write(file, "0").unwrap()).unwrap();
        },
    ];
    for (number, sabotage) in sabotages.into_iter().enumerate() {
        sabotage();
        let site = lab.sites.get_mut(&1).unwrap();
        assert!(site.ask("observe").starts_with("ok"), "{number}");
        let applied = site.ask("apply");
        assert!(applied.starts_with("ok") && !applied.contains("steps=0 "), "{number}: {applied}");
        assert!(site.ask("observe").starts_with("ok"), "{number}");
        assert!(site.ask("apply").contains("steps=0 "), "{number} is not repaired at once");
        assert!(reaches(&lab), "{number}");
    }
}

/// Where the rules cannot be loaded there is no port: nothing is open by failure.
fn no_port_without_a_policy() {
    let scenario = Scenario::new(TWO_SITES);
    let mut lab = Lab::new(&scenario);
    let site = lab.sites.get_mut(&1).unwrap();
    let mut command = Command::new("/proc/self/exe");
    command.arg("site").arg(&site.folder).arg("1").env("PATH", "/nowhere");
    site.process = Some(Process::start(&site.engine, &mut command));
    site.tell_cluster(&scenario);
    let applied = site.ask("apply");
    assert!(applied.starts_with("error nft cannot be run"), "{applied}");
    assert!(!ip(&site.router(), "-o link").contains("s7"));
    assert!(!ip(&site.engine, "-o link").contains("jr7"));
    // With the program there, the same namespace becomes what it should be, rules first.
    site.kill();
    site.start();
    site.tell_cluster(&scenario);
    assert!(site.ask("apply").starts_with("ok"));
    assert!(nft(&site.router(), "list ruleset").contains("policy drop"));
    assert!(ip(&site.router(), "-o link").contains("s7"));
}

/// A bridge that the engine does not have keeps its own network away, and no other.
fn a_missing_bridge_is_reported() {
    let scenario = Scenario::new(TWO_SITES);
    let mut lab = Lab::new(&scenario);
    ip(&lab.sites[&1].engine, "link del br-8");
    lab.sites.values_mut().for_each(|site| {
        site.start();
        site.tell_cluster(&scenario);
    });
    let applied = lab.sites.get_mut(&1).unwrap().ask("apply");
    assert!(applied.contains("failed=1"), "{applied}");
    lab.sites.get_mut(&2).unwrap().ask("apply");
    assert!(reaches(&lab));
    let site = lab.sites.get_mut(&1).unwrap();
    ip(&site.engine, "link add br-8 type bridge");
    ip(&site.engine, "link set br-8 up");
    let applied = site.ask("apply");
    assert!(applied.contains("steps=1 failed=0"), "{applied}");
}

fn what_is_not_planned_is_removed() {
    let mut lab = Lab::started(&Scenario::new(TWO_SITES));
    assert!(reaches(&lab));
    let smaller = TWO_SITES.replace("instance 1 shop/web 7 10 ready", "");
    lab.apply(&Scenario::new(&smaller));
    let site = &lab.sites[&1];
    let (inside, outside) = (ip(&site.router(), "-o link"), ip(&site.engine, "-o link"));
    assert!(!inside.contains("s7") && !outside.contains("jr7"), "{inside}{outside}");
    assert!(inside.contains("s8") && outside.contains("jr8"), "{inside}{outside}");
    let routes = ip(&site.router(), "route");
    assert!(!routes.contains("10.65.7.12") && routes.contains("10.65.8.13"), "{routes}");
    assert!(!nft(&site.router(), "list ruleset").contains("10.65.7.0"));
    // And back again.
    lab.apply(&Scenario::new(TWO_SITES));
    assert!(reaches(&lab));
}

/// Of the engine's namespace nothing changes but the outer ends of ports.
fn the_engines_namespace_is_left_alone() {
    let scenario = Scenario::new(TWO_SITES);
    let mut lab = Lab::new(&scenario);
    let state = |lab: &Lab| {
        let engine = &lab.sites[&1].engine;
        let links: Vec<String> = ip(engine, "-br link")
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| !name.starts_with("jr"))
            .map(str::to_owned)
            .collect();
        let settings =
            "find /proc/sys/net -type f -not -path '*/jr*' | sort | xargs grep -s . || true";
        let mut settings = run(engine, Command::new("sh").args(["-c", settings]));
        settings.retain(|c| c != '\r');
        // Counters that move by themselves.
        let still = |line: &&str| !line.contains("nf_conntrack_count") && !line.contains("random");
        let settings: String =
            settings.lines().filter(still).map(|line| format!("{line}\n")).collect();
        [
            nft(engine, "list ruleset"),
            ip(engine, "route show table all type unicast"),
            ip(engine, "rule"),
            links.join("\n"),
            settings,
        ]
    };
    let before = state(&lab);
    lab.sites.values_mut().for_each(Site::start);
    lab.apply(&scenario);
    assert!(reaches(&lab));
    for (before, after) in before.iter().zip(state(&lab)) {
        let new: Vec<&str> =
            after.lines().filter(|line| !before.lines().any(|it| it == *line)).collect();
        assert_eq!(new, [""; 0]);
        assert_eq!(before.lines().count(), after.lines().count());
    }
}

use crate::lab::Site;

/// R-IN-1: who still uses the address of an instance that is gone, as caches of names do, is told so and does not wait for the end of
/// its patience.
fn an_address_that_is_gone_is_refused_at_once() {
    let mut lab = Lab::started(&Scenario::new(TWO_SITES));
    assert!(reaches(&lab), "its router is remembered for the address");
    lab.apply(&Scenario::new(&TWO_SITES.replace("instance 2 shop/db 7 12 ready", "")));
    let gone = SocketAddr::from((address(7, 12), 8080));
    let connect = || {
        let begun = Instant::now();
        (TcpStream::connect_timeout(&gone, Duration::from_secs(10)), begun.elapsed())
    };
    let (connected, took) = lab.container(1, 10).run(connect).unwrap();
    let error = connected.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error} after {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

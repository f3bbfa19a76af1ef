//! The life of the packages on a machine: installed, configured, upgraded, downgraded, removed, purged.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::built::{Built, built};
use crate::debian::Debian;
use crate::machine::{Machine, Network};

impl Machine {
    fn install(&self, built: &Built, build: &str) {
        let packages = ["jaco", "jacod"].map(|name| self.bring(&built.deb(build, name)));
        self.run(&["dpkg", "--install", &packages[0], &packages[1]]);
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.path(path)).expect("it is there").permissions().mode() & 0o7777
    }

    /// The containers of the replicas, once the daemon answers.
    fn containers(&self) -> Vec<String> {
        let status = self.await_success(&["jaco", "status", "--output", "json"]);
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let replicas = status["replicas"].as_array().expect("a list").iter();
        replicas.map(|replica| replica["container_id"].to_string()).collect()
    }
}

/// R-OPS-1: a node's packages are installed, upgraded, downgraded and removed under systemd: the daemon is replaced and has
/// its state and settings, the replicas keep their containers, nothing is started that did not run, and a purge leaves
/// nothing.
#[test]
fn packages_come_and_go() {
    // Other tests build the packages meanwhile.
    let machine = Machine::start(&Debian::of_this_run(), "n1", &Network::None);
    let built = built();
    let before = machine.files();

    machine.install(built, "first");
    for program in ["jaco", "jacod"] {
        let version = machine.run(&[program, "--version"]);
        assert!(version.starts_with(&format!("{program} ")), "{version}");
        assert!(machine.run(&[program, "--help"]).contains("Usage:"));
        assert_eq!(machine.run(&["dpkg", "--verify", program]), "");
    }
    // A node has no address yet, so nothing is started.
    for unit in ["jacod", "jacod-net", "jacod-edge"] {
        assert_eq!(machine.unit(unit, "ActiveState"), "inactive", "{unit}");
        assert_eq!(machine.unit(unit, "UnitFileState"), "disabled", "{unit}");
    }
    let units = ["jacod.service", "jacod-net.service", "jacod-edge.service"];
    let verified = machine.output(&[&["systemd-analyze", "verify"][..], &units].concat());
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !said.contains("jacod"), "{said}");
    assert!(machine.run(&["getent", "passwd", "jaco-edge"]).contains("nologin"));
    assert_eq!((machine.mode("/etc/jaco"), machine.mode("/etc/jaco/jacod.yaml")), (0o700, 0o600));
    assert_eq!(machine.mode("/var/lib/jaco"), 0o700);
    // Once more changes nothing.
    machine.run(&["/var/lib/dpkg/info/jacod.postinst", "configure", ""]);

    let settings = machine.path("/etc/jaco/jacod.yaml");
    let shipped = fs::read_to_string(&settings).expect("it is there");
    fs::write(&settings, shipped.replace("engine: docker", "engine: fake")).expect("written");
    machine.run(&["jacod", "setup", "--advertise", "127.0.0.1:7000", "--no-start"]);
    let own = fs::read_to_string(&settings).expect("it is there");
    assert_eq!(
        own.lines().count(),
        shipped.lines().count(),
        "it stands where the file explains it"
    );
    assert_eq!(machine.mode("/etc/jaco/jacod.yaml"), 0o600);
    machine.run(&["jacod", "--check"]);
    machine.run(&["systemctl", "enable", "--now", "jacod"]);
    machine.await_success(&["jaco", "cluster", "init", "--name", "home", "--no-network"]);
    let manifest = "name: shop\nservices: {web: {image: 'web:1', deploy: {replicas: 2}}}\n";
    fs::write(machine.path("/root/compose.yaml"), manifest).expect("written");
    machine.run(&["jaco", "apply", "/root/compose.yaml"]);
    let containers = machine.containers();
    assert_eq!(containers.len(), 2);
    let first = machine.unit("jacod", "MainPID");

    machine.install(built, "second");
    assert_eq!(machine.containers(), containers);
    let second = machine.unit("jacod", "MainPID");
    assert_ne!(first, second, "an upgrade puts the new program in the place of the old one");
    assert_eq!(fs::read_to_string(&settings).expect("it is there"), own);
    for unit in ["jacod-net", "jacod-edge"] {
        assert_eq!(
            machine.unit(unit, "ActiveState"),
            "inactive",
            "an upgrade starts nothing: {unit}"
        );
    }

    machine.install(built, "first");
    assert_eq!(machine.containers(), containers);
    assert_ne!(second, machine.unit("jacod", "MainPID"), "and so does a downgrade");

    machine.run(&["dpkg", "--remove", "jacod"]);
    let processes = machine.run(&["sh", "-c", "cat /proc/[0-9]*/comm"]);
    let is_left = processes.lines().any(|name| name.starts_with("jacod"));
    assert!(!is_left, "its processes have ended: {processes}");
    assert_eq!(machine.unit("jacod", "LoadState"), "not-found");
    assert_eq!(fs::read_to_string(&settings).expect("a removal keeps the settings"), own);
    assert!(machine.path("/var/lib/jaco/node").is_dir(), "and the state");

    machine.install(built, "second");
    machine.run(&["systemctl", "start", "jacod"]);
    assert_eq!(machine.containers(), containers);

    machine.run(&["dpkg", "--purge", "jacod", "jaco"]);
    machine.run(&["sh", "-c", "rm /root/*.deb /root/compose.yaml"]);
    let run = machine.output(&["ls", "-d", "/run/jaco"]);
    assert!(!run.status.success(), "sockets and secrets are gone: {run:?}");
    let left: Vec<String> = machine.files().difference(&before).cloned().collect();
    let of_others = |path: &String| OF_OTHERS.iter().any(|prefix| path.starts_with(prefix));
    let left: Vec<String> = left.into_iter().filter(|path| !of_others(path)).collect();
    assert_eq!(left, [""; 0], "a purge leaves nothing of the packages");
}

/// What other programs write while packages come and go: dpkg's and systemd's own records, and copies of the lists of users,
/// one of which the package had made and leaves, as is custom.
const OF_OTHERS: [&str; 6] = [
    "/etc/passwd-",
    "/etc/group-",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/var/lib/systemd/",
    "/var/log/",
];

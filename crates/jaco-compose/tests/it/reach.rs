//! What containers reach of their nodes: each way of the table is found, and its hardening opposite is not.

#![expect(clippy::disallowed_methods, reason = "the documentation lies on a disk")]

use std::collections::BTreeSet;

use jaco_compose::reach::reaches;
use jaco_compose::{Contents, Options, resolve};
use jaco_types::spec::ReachKind;

use crate::util::{load_text, resolve_text};

const LABEL: &str = "labels: {jaco.io/allow-privileged: 'true'}\n";

/// A project whose service `web` has these members, with these volumes.
fn project(members: &str, volumes: &str) -> String {
    let members = format!("{LABEL}{members}").replace('\n', "\n    ");
    format!("services:\n  web:\n    image: i\n    {members}\nvolumes: {volumes}\n")
}

/// What the service reaches, as users see it.
fn found(members: &str, volumes: &str) -> Vec<String> {
    let resolved = resolve_text(&project(members, volumes), None);
    let resolved = resolved.unwrap_or_else(|all| panic!("{members}: {:?}", all.list));
    let web = &resolved.services["web"];
    let again = reaches(&web.container.canonical).unwrap();
    assert_eq!(again, web.facts.reaches, "what is kept of a revision says the same: {members}");
    web.facts.reaches.iter().map(ToString::to_string).collect()
}

/// Members that have one way, what is found, and members that use the same keys without it.
struct Case {
    kind: ReachKind,
    reaching: &'static str,
    found: &'static [&'static str],
    free: &'static str,
}

const fn case(
    kind: ReachKind,
    reaching: &'static str,
    found: &'static [&'static str],
    free: &'static str,
) -> Case {
    Case { kind, reaching, found, free }
}

const CASES: [Case; 17] = [
    case(ReachKind::Privileged, "privileged: true", &["privileged"], "privileged: false"),
    case(
        ReachKind::Privileged,
        "pre_stop: [{command: a, privileged: true}]",
        &["privileged"],
        "pre_stop: [{command: a}]",
    ),
    case(
        ReachKind::EngineSocket,
        "volumes: ['/var/run/../run/docker.sock:/s', '/run/containerd/containerd.sock:/c']",
        &["engine-socket=/run/containerd/containerd.sock", "engine-socket=/run/docker.sock"],
        "volumes: [data:/var/run]",
    ),
    case(
        ReachKind::ClusterSocket,
        "volumes: ['/var/run/jaco/jaco.sock:/s']",
        &["cluster-socket=/run/jaco/jaco.sock"],
        "tmpfs: /run/jaco",
    ),
    case(
        ReachKind::HostPath,
        "volumes: ['/:/host', '/srv/a/../b/:/b:ro']",
        &["host-path=/", "host-path=/srv/b"],
        "volumes: [data:/data, {type: tmpfs, target: /t}]\nread_only: true",
    ),
    case(ReachKind::HostPath, "volumes: [bound:/data]", &["host-path=/"], "volumes: [data:/data]"),
    case(
        ReachKind::HostNamespace,
        "network_mode: host\npid: host\nipc: host\nuts: host\ncgroup: host\nuserns_mode: host",
        &[
            "host-namespace=cgroup",
            "host-namespace=ipc",
            "host-namespace=network",
            "host-namespace=pid",
            "host-namespace=user",
            "host-namespace=uts",
        ],
        "network_mode: none\nipc: private\ncgroup: private",
    ),
    case(
        ReachKind::Capability,
        "cap_add: [ALL, cap_sys_admin, NET_BIND_SERVICE]",
        &["capability=ALL", "capability=SYS_ADMIN"],
        "cap_drop: [ALL]\ncap_add: [NET_BIND_SERVICE, CAP_CHOWN]",
    ),
    case(
        ReachKind::Device,
        "devices: ['/dev/mem:/dev/x']\ndevice_cgroup_rules: ['c 1:3 mr']",
        &["device=/dev/mem", "device=c 1:3 mr"],
        "devices: []",
    ),
    case(
        ReachKind::SecurityOpt,
        "security_opt: ['apparmor=unconfined', 'no-new-privileges:false']",
        &["security-opt=apparmor=unconfined", "security-opt=no-new-privileges:false"],
        "security_opt: ['no-new-privileges', 'no-new-privileges:true', 'seccomp=builtin']",
    ),
    case(
        ReachKind::Sysctl,
        "sysctls: {kernel.core_pattern: '|/x'}",
        &["sysctl=kernel.core_pattern"],
        "sysctls: {net.core.somaxconn: 1024, kernel.shmmax: 1, fs.mqueue.msg_max: 5}",
    ),
    case(
        ReachKind::Sysctl,
        "network_mode: host\nsysctls: {net.ipv4.ip_forward: 1}",
        &["host-namespace=network", "sysctl=net.ipv4.ip_forward"],
        "sysctls: {net.ipv4.ip_forward: 1}",
    ),
    case(
        ReachKind::CgroupParent,
        "cgroup_parent: /system.slice",
        &["cgroup-parent=/system.slice"],
        "pids_limit: 10",
    ),
    case(ReachKind::Runtime, "runtime: kata", &["runtime=kata"], "init: true"),
    case(
        ReachKind::Oom,
        "oom_kill_disable: true\noom_score_adj: -500",
        &["oom=oom_kill_disable", "oom=oom_score_adj=-500"],
        "oom_kill_disable: false\noom_score_adj: 500",
    ),
    case(ReachKind::Group, "group_add: [docker, 0]", &["group=0", "group=docker"], "user: '1000'"),
    case(
        ReachKind::VolumeDriver,
        "volumes: [disk:/disk, plugin:/plugin]",
        &["volume-driver=plugin", "volume-driver=type=ext4,device=/dev/sda1"],
        "volumes: [share:/share, data:/data]",
    ),
];

const VOLUMES: &str = "{data: {}, bound: {driver_opts: {type: none, o: 'ro,bind', device: /}}, \
     disk: {driver: local, driver_opts: {type: ext4, device: /dev/sda1}}, plugin: {driver: plugin}, \
     share: {driver_opts: {type: nfs, o: 'addr=10.0.0.1', device: ':/share'}}}";

/// R-IN-6: each way of the table is found in a spec that has it, with its values, and what hardens is free.
#[test]
fn each_way_is_found_and_its_opposite_is_not() {
    for Case { kind, reaching, found: expected, free } in &CASES {
        assert_eq!(found(reaching, VOLUMES), *expected, "{reaching}");
        assert!(expected.iter().any(|one| one.starts_with(kind.as_str())), "{reaching}");
        assert_eq!(found(free, VOLUMES), Vec::<String>::new(), "{free}");
    }
    let tried: BTreeSet<ReachKind> = CASES.iter().map(|case| case.kind).collect();
    assert_eq!(tried, ReachKind::ALL.iter().copied().collect(), "each way has a case");
}

/// R-IN-6: a folder beside the compose file is uploaded, and is no path of the node.
#[test]
fn uploaded_files_reach_nothing() {
    let text = project("volumes: ['./conf:/conf', '/etc:/etc']", "{}");
    let project = load_text(&text).unwrap().project;
    let binds = [("conf".to_owned(), "v1".to_owned())].into();
    let options =
        Options { contents: Contents { binds, ..Contents::default() }, ..Options::default() };
    let resolved = resolve(&project, None, &options).unwrap();
    let found: Vec<String> =
        resolved.services["web"].facts.reaches.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["host-path=/etc"]);
}

/// R-IN-6: a folder below the compose file that is not there is data of the deployment, in a volume of the engine's, and
/// no path of the node; one beside the project is.
#[test]
fn data_below_the_compose_file_reaches_nothing() {
    assert_eq!(found("volumes: ['./data:/data', './a/b:/b:ro']", "{}"), Vec::<String>::new());
    assert_eq!(found("volumes: ['/srv/data:/data']", "{}"), ["host-path=/srv/data"]);
}

/// R-IN-6: the documentation has the table, one line for each way.
#[test]
fn the_documentation_has_the_table() {
    let mut table = "| Reach | Keys | Free |\n| --- | --- | --- |\n".to_owned();
    for kind in ReachKind::ALL {
        table += &format!("| `{}` | {} | {} |\n", kind.as_str(), kind.keys(), kind.free());
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(&table), "docs/security.md needs this table:\n{table}");
}

//! The table: what people write, and where Docker shows it.

/// One service, the keys that it proves, and what must be seen of each of its containers.
pub(super) struct Proof {
    pub(super) service: &'static str,
    pub(super) replicas: usize,
    pub(super) keys: &'static [&'static str],
    /// Members of the service; empty if it is declared elsewhere.
    pub(super) members: &'static str,
    /// What is looked at, the path of a value in it, and what that must have.
    pub(super) shown: &'static [(Shown, &'static str, &'static str)],
}

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shown {
    /// The container.
    Container,
    /// The volume that it mounts at this path.
    Volume(&'static str),
    /// Its network whose name ends like this.
    Network(&'static str),
}

use Shown::{Container, Network, Volume};

/// What stands before the services.
pub(super) const TOP: &str = "
name: proofs
x-hello: &hello
  image: jaco-hello:v1
  command: [serve]
include:
  - path: [more/compose.yaml]
    project_directory: other
    env_file: [more/some.env]
networks:
  front: {}
  back: {name: proofs-inner, internal: true}
  theirs: {name: THEIRS, external: true}
volumes:
  data:
    driver: local
    driver_opts: {type: tmpfs, device: tmpfs, o: size=1m}
    labels: {team: a}
  named: {name: proofs-THEIRS}
  theirs: {name: THEIRS, external: true}
services:
";

/// A proof of one replica.
const fn one(
    service: &'static str,
    keys: &'static [&'static str],
    members: &'static str,
    shown: &'static [(Shown, &'static str, &'static str)],
) -> Proof {
    Proof { service, replicas: 1, keys, members, shown }
}

pub(super) const PROOFS: &[Proof] = &[
    one(
        "process",
        &[
            "name",
            "services",
            "services.*.command",
            "services.*.entrypoint",
            "services.*.environment",
            "services.*.working_dir",
            "services.*.hostname",
            "services.*.domainname",
            "services.*.user",
            "services.*.group_add",
            "services.*.tty",
            "services.*.stdin_open",
            "services.*.init",
            "services.*.stop_signal",
            "services.*.stop_grace_period",
            "services.*.labels",
            "services.*.image",
        ],
        "
image: jaco-hello:v2
entrypoint: [/hello, serve]
command: [--port, '9090']
environment: {A: b, EMPTY: ''}
working_dir: /proof
hostname: box
domainname: example.test
user: '1000:1000'
group_add: ['44']
tty: true
stdin_open: true
init: true
stop_signal: SIGINT
stop_grace_period: 1m3s
labels: {team: shop}
",
        &[
            (Container, "/Config/Image", r#""jaco-hello:v2""#),
            (Container, "/Config/Entrypoint", r#"["/hello", "serve"]"#),
            (Container, "/Config/Cmd", r#"["--port", "9090"]"#),
            (Container, "/Config/Env", r#"["A=b", "EMPTY="]"#),
            (Container, "/Config/WorkingDir", r#""/proof""#),
            (Container, "/Config/Hostname", r#""box""#),
            (Container, "/Config/Domainname", r#""example.test""#),
            (Container, "/Config/User", r#""1000:1000""#),
            (Container, "/HostConfig/GroupAdd", r#"["44"]"#),
            (Container, "/Config/Tty", "true"),
            (Container, "/Config/OpenStdin", "true"),
            (Container, "/HostConfig/Init", "true"),
            (Container, "/Config/StopSignal", r#""SIGINT""#),
            (Container, "/Config/StopTimeout", "63"),
            (Container, "/Config/Labels", r#"{"team": "shop", "jaco.deployment": "proofs"}"#),
        ],
    ),
    one(
        "read-by-the-client",
        &[
            "services.*.env_file",
            "services.*.env_file[].path",
            "services.*.env_file[].format",
            "services.*.env_file[].required",
            "services.*.label_file",
            "services.*.extends",
            "services.*.extends.file",
            "services.*.extends.service",
            "services.*.profiles",
        ],
        "
extends: {file: base.yaml, service: base}
env_file: [{path: a.env, format: raw}, {path: absent.env, required: false}]
label_file: labels.env
profiles: [chosen]
",
        &[
            (Container, "/Config/Env", r#"["RAW='kept'", "EXTENDED=nobody"]"#),
            (Container, "/Config/Labels", r#"{"from-file": "yes"}"#),
        ],
    ),
    Proof {
        service: "left-out",
        replicas: 0,
        keys: &["services.*.profiles"],
        members: "profiles: [another]",
        shown: &[],
    },
    one(
        "included",
        &["include", "include[].path", "include[].project_directory", "include[].env_file"],
        "",
        &[
            (Container, "/Config/Image", r#""jaco-hello:v2""#),
            (Container, "/Config/Env", r#"["BESIDE=other"]"#),
        ],
    ),
    Proof {
        service: "counted",
        replicas: 2,
        keys: &["services.*.deploy.replicas"],
        members: "deploy: {replicas: 2}",
        shown: &[],
    },
    Proof {
        service: "scaled",
        replicas: 2,
        keys: &["services.*.scale"],
        members: "scale: 2",
        shown: &[],
    },
    Proof {
        service: "everywhere",
        replicas: 1,
        keys: &["services.*.deploy.mode"],
        members: "deploy: {mode: global}",
        shown: &[],
    },
    one(
        "limited",
        &[
            "services.*.deploy.resources.limits.cpus",
            "services.*.deploy.resources.limits.memory",
            "services.*.deploy.resources.limits.pids",
            "services.*.deploy.resources.reservations.memory",
        ],
        "deploy: {resources: {limits: {cpus: '0.5', memory: 64m, pids: 50}, reservations: {memory: 16m}}}",
        &[
            (Container, "/HostConfig/NanoCpus", "500000000"),
            (Container, "/HostConfig/Memory", "67108864"),
            (Container, "/HostConfig/PidsLimit", "50"),
            (Container, "/HostConfig/MemoryReservation", "16777216"),
        ],
    ),
    one(
        "limited-as-of-old",
        &[
            "services.*.cpus",
            "services.*.mem_limit",
            "services.*.mem_reservation",
            "services.*.memswap_limit",
            "services.*.pids_limit",
            "services.*.cpu_shares",
            "services.*.cpuset",
            "services.*.shm_size",
            "services.*.oom_score_adj",
            "services.*.ulimits",
            "services.*.ulimits.*.hard",
            "services.*.ulimits.*.soft",
        ],
        "
cpus: 0.25
mem_limit: 64m
mem_reservation: 16m
memswap_limit: 128m
pids_limit: 40
cpu_shares: 512
cpuset: '0'
shm_size: 32m
oom_score_adj: 100
ulimits: {nofile: {soft: 1000, hard: 2000}, nproc: 500}
",
        &[
            (Container, "/HostConfig/NanoCpus", "250000000"),
            (Container, "/HostConfig/Memory", "67108864"),
            (Container, "/HostConfig/MemoryReservation", "16777216"),
            (Container, "/HostConfig/MemorySwap", "134217728"),
            (Container, "/HostConfig/PidsLimit", "40"),
            (Container, "/HostConfig/CpuShares", "512"),
            (Container, "/HostConfig/CpusetCpus", r#""0""#),
            (Container, "/HostConfig/ShmSize", "33554432"),
            (Container, "/HostConfig/OomScoreAdj", "100"),
            (
                Container,
                "/HostConfig/Ulimits",
                r#"[{"Name": "nofile", "Soft": 1000, "Hard": 2000}, {"Name": "nproc", "Soft": 500, "Hard": 500}]"#,
            ),
        ],
    ),
    one(
        "timed",
        &["services.*.cpu_period", "services.*.cpu_quota"],
        "cpu_period: 100000\ncpu_quota: 50000",
        &[
            (Container, "/HostConfig/CpuPeriod", "100000"),
            (Container, "/HostConfig/CpuQuota", "50000"),
        ],
    ),
    one(
        "rights",
        &[
            "services.*.cap_add",
            "services.*.cap_drop",
            "services.*.read_only",
            "services.*.security_opt",
            "services.*.userns_mode",
            "services.*.uts",
            "services.*.cgroup",
            "services.*.cgroup_parent",
            "services.*.pid",
            "services.*.ipc",
            "services.*.runtime",
            "services.*.sysctls",
        ],
        "
labels: {jaco.io/allow-privileged: 'true'}
cap_add: [NET_ADMIN]
cap_drop: [CHOWN]
read_only: true
security_opt: ['no-new-privileges:true']
userns_mode: host
uts: host
cgroup: host
cgroup_parent: /proofs
pid: host
ipc: shareable
runtime: runc
sysctls: {net.core.somaxconn: 512}
",
        &[
            (Container, "/HostConfig/CapAdd", r#"["*NET_ADMIN"]"#),
            (Container, "/HostConfig/CapDrop", r#"["*CHOWN"]"#),
            (Container, "/HostConfig/ReadonlyRootfs", "true"),
            (Container, "/HostConfig/SecurityOpt", r#"["no-new-privileges:true"]"#),
            (Container, "/HostConfig/UsernsMode", r#""host""#),
            (Container, "/HostConfig/UTSMode", r#""host""#),
            (Container, "/HostConfig/CgroupnsMode", r#""host""#),
            (Container, "/HostConfig/CgroupParent", r#""/proofs""#),
            (Container, "/HostConfig/PidMode", r#""host""#),
            (Container, "/HostConfig/IpcMode", r#""shareable""#),
            (Container, "/HostConfig/Runtime", r#""runc""#),
            (Container, "/HostConfig/Sysctls", r#"{"net.core.somaxconn": "512"}"#),
        ],
    ),
    one(
        "devices",
        &[
            "services.*.devices",
            "services.*.devices[].source",
            "services.*.devices[].target",
            "services.*.devices[].permissions",
            "services.*.device_cgroup_rules",
        ],
        "
devices: ['/dev/null:/dev/nothing:r']
device_cgroup_rules: ['c 1:3 mr']
",
        &[
            (
                Container,
                "/HostConfig/Devices",
                r#"[{"PathOnHost": "/dev/null", "PathInContainer": "/dev/nothing", "CgroupPermissions": "r"}]"#,
            ),
            (Container, "/HostConfig/DeviceCgroupRules", r#"["c 1:3 mr"]"#),
        ],
    ),
    one(
        "names",
        &[
            "services.*.dns",
            "services.*.dns_opt",
            "services.*.dns_search",
            "services.*.extra_hosts",
        ],
        "
dns: [10.255.255.1]
dns_opt: [use-vc]
dns_search: [example.test]
extra_hosts: {far: 10.0.0.9, six: '::1'}
",
        &[
            (Container, "/HostConfig/Dns", r#"["10.255.255.1"]"#),
            (Container, "/HostConfig/DnsOptions", r#"["use-vc"]"#),
            (Container, "/HostConfig/DnsSearch", r#"["example.test"]"#),
            (Container, "/HostConfig/ExtraHosts", r#"["far:10.0.0.9", "six:::1"]"#),
        ],
    ),
    one(
        "networked",
        &[
            "networks",
            "networks.*.internal",
            "networks.*.name",
            "services.*.networks",
            "services.*.networks.*.aliases",
            "services.*.networks.*.priority",
        ],
        "
container_name: proofs-networked
networks:
  front: {aliases: [www]}
  back: {priority: 10}
  theirs: {}
",
        &[
            (
                Container,
                "/NetworkSettings/Networks/*proofs_front/Aliases",
                r#"["networked", "networked.proofs", "www", "proofs-networked"]"#,
            ),
            (Container, "/HostConfig/NetworkMode", r#""*-proofs-inner""#),
            (Network("proofs-inner"), "/Internal", "true"),
            (Network("proofs_front"), "/Internal", "false"),
            (Container, "/NetworkSettings/Networks/THEIRS/Aliases", r#"["networked"]"#),
        ],
    ),
    one(
        "linking",
        &[],
        "links: ['linked:friend']\nnetworks: [front]",
        &[(Container, "/NetworkSettings/Networks/*proofs_front/Aliases", r#"["linking"]"#)],
    ),
    one(
        "linked",
        &[],
        "networks: [front]\nexpose: ['7000', '7001/udp']",
        &[
            (Container, "/NetworkSettings/Networks/*proofs_front/Aliases", r#"["friend"]"#),
            (Container, "/Config/ExposedPorts", r#"{"7000/tcp": {}, "7001/udp": {}}"#),
        ],
    ),
    one(
        "ports",
        &[
            "services.*.ports",
            "services.*.ports[].host_ip",
            "services.*.ports[].mode",
            "services.*.ports[].protocol",
            "services.*.ports[].published",
            "services.*.ports[].target",
        ],
        "ports: [{target: 8080, published: '47391', host_ip: 127.0.0.1, mode: host}, {target: 8081, protocol: udp, mode: host}]",
        &[
            (
                Container,
                "/HostConfig/PortBindings",
                r#"{"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "47391"}], "8081/udp": [{}]}"#,
            ),
            (Container, "/Config/ExposedPorts", r#"{"8080/tcp": {}, "8081/udp": {}}"#),
        ],
    ),
    one(
        "on-the-host",
        &[],
        "network_mode: host\ncommand: [serve, --port, '47392']",
        &[(Container, "/HostConfig/NetworkMode", r#""host""#)],
    ),
    one(
        "on-the-bridge",
        &[],
        "network_mode: bridge",
        &[(Container, "/HostConfig/NetworkMode", r#""bridge""#)],
    ),
    one(
        "cut-off",
        &[],
        "network_mode: none",
        &[(Container, "/HostConfig/NetworkMode", r#""none""#)],
    ),
    one(
        "in-its-peer",
        &[],
        "network_mode: service:linked\ncommand: [serve, --port, '8090']",
        &[(Container, "/HostConfig/NetworkMode", r#""container:*""#)],
    ),
    one(
        "mounts",
        &[
            "volumes",
            "volumes.*.driver",
            "volumes.*.driver_opts",
            "volumes.*.external",
            "volumes.*.labels",
            "volumes.*.name",
            "services.*.volumes",
            "services.*.volumes[].type",
            "services.*.volumes[].source",
            "services.*.volumes[].target",
            "services.*.volumes[].read_only",
            "services.*.volumes[].bind.propagation",
            "services.*.volumes[].bind.selinux",
            "services.*.volumes[].tmpfs.mode",
            "services.*.volumes[].tmpfs.size",
            "services.*.volumes[].volume.labels",
            "services.*.volumes[].volume.nocopy",
            "services.*.tmpfs",
        ],
        "
tmpfs: ['/scratch:size=1m']
volumes:
  - data:/data
  - {type: volume, source: named, target: /named, read_only: true, volume: {nocopy: true, labels: {tier: gold}}}
  - theirs:/theirs
  - {type: bind, source: /tmp, target: /host, read_only: true, bind: {propagation: rprivate}}
  - /var/tmp:/shared:z
  - {type: tmpfs, target: /fast, tmpfs: {size: 1m, mode: 0700}}
",
        &[
            (Container, "/HostConfig/Tmpfs", r#"{"/scratch": "size=1m"}"#),
            (Volume("/data"), "/Driver", r#""local""#),
            (Volume("/data"), "/Options", r#"{"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}"#),
            (Volume("/data"), "/Labels", r#"{"team": "a", "jaco.deployment": "proofs"}"#),
            (Volume("/named"), "/Name", r#""proofs-THEIRS""#),
            (Volume("/named"), "/Labels", r#"{"tier": "gold"}"#),
            (Volume("/theirs"), "/Name", r#""THEIRS""#),
            (
                Container,
                "/HostConfig/Mounts",
                r#"[{"Type": "volume", "Target": "/named", "ReadOnly": true, "VolumeOptions": {"NoCopy": true}},
                    {"Type": "tmpfs", "Target": "/fast", "TmpfsOptions": {"SizeBytes": 1048576, "Mode": 448}}]"#,
            ),
            (Container, "/HostConfig/Binds", r#"["/var/tmp:/shared:rw,z"]"#),
            (
                Container,
                "/Mounts",
                r#"[{"Type": "bind", "Source": "/tmp", "Destination": "/host", "RW": false, "Propagation": "rprivate"},
                    {"Type": "volume", "Destination": "/named", "RW": false}]"#,
            ),
        ],
    ),
    one(
        "mounts-of-another",
        &[],
        "volumes_from: ['mounts:ro']",
        &[
            (Container, "/Mounts", r#"[{"Type": "volume", "Destination": "/data", "RW": false}]"#),
            (Volume("/theirs"), "/Name", r#""THEIRS""#),
        ],
    ),
    one(
        "docker-itself",
        &[],
        "volumes: ['/var/run/docker.sock:/var/run/docker.sock']",
        &[(Container, "/Mounts", r#"[{"Source": "*docker.sock", "Destination": "/var/run/docker.sock"}]"#)],
    ),
    one(
        "healthy",
        &[
            "services.*.healthcheck",
            "services.*.healthcheck.test",
            "services.*.healthcheck.interval",
            "services.*.healthcheck.timeout",
            "services.*.healthcheck.retries",
            "services.*.healthcheck.start_period",
        ],
        "
healthcheck:
  test: [CMD, /hello, check, 'http://127.0.0.1:8080/healthz']
  interval: 1s
  timeout: 2s500ms
  retries: 7
  start_period: 1m
",
        &[
            (
                Container,
                "/Config/Healthcheck",
                r#"{"Test": ["CMD", "/hello", "check", "http://127.0.0.1:8080/healthz"],
                    "Interval": 1000000000, "Timeout": 2500000000, "Retries": 7,
                    "StartPeriod": 60000000000}"#,
            ),
            (Container, "/State/Health/Status", r#""healthy""#),
        ],
    ),
    one(
        "unchecked",
        &["services.*.healthcheck.disable"],
        "healthcheck: {disable: true}",
        &[(Container, "/Config/Healthcheck/Test", r#"["NONE"]"#)],
    ),
    one(
        "logged",
        &["services.*.logging", "services.*.logging.driver", "services.*.logging.options"],
        "logging: {driver: json-file, options: {max-size: 1m, max-file: 3}}",
        &[(
            Container,
            "/HostConfig/LogConfig",
            r#"{"Type": "json-file", "Config": {"max-size": "1m", "max-file": "3"}}"#,
        )],
    ),
    one(
        "of-a-platform",
        &["services.*.platform"],
        "platform: linux",
        &[(Container, "/Platform", r#""linux""#)],
    ),
];

//! Addresses, folders and configurations of a development cluster. Pure.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::path::{Path, PathBuf};

use jaco_types::DeploymentName;

/// The port of every node, each on its own address.
pub const PORT: u16 = 7000;

/// The ports that tunnels of development clusters may have.
const TUNNEL_PORTS: Range<u16> = 20_000..30_000;

/// The maximum number of nodes on one machine.
pub const NODES_MAX: u8 = 99;

/// The longest path of a unix socket that the kernel accepts, without the final zero.
pub const SOCKET_PATH_MAX: usize = 107;

/// The container engine of a development cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// The Docker Engine of this machine, shared by all nodes
    Docker,
    /// No real containers: they exist in the daemon's memory only
    Fake,
}

impl Engine {
    /// The name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Fake => "fake",
        }
    }
}

/// Address and folder of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLayout {
    /// The host name: `n1`, `n2`, …
    pub name: String,
    /// The listen address.
    pub address: SocketAddrV4,
    /// The folder of all its files.
    pub folder: PathBuf,
    /// The router of its container engine, which all nodes share.
    pub router: RouterLayout,
}

/// Folder and port of the router that all nodes of a development cluster share, as they share the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterLayout {
    /// The folder of its files.
    pub folder: PathBuf,
    /// The UDP port of its tunnel, which nothing uses as long as all nodes are on this machine.
    pub port: u16,
}

impl NodeLayout {
    /// The configuration file.
    #[must_use]
    pub fn config_path(&self) -> PathBuf {
        self.folder.join("jacod.yaml")
    }

    /// The socket for the command line.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("jaco.sock")
    }

    /// The log file.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("jacod.log")
    }

    /// The contents of the configuration file. All nodes share one machine: its disk does not limit
    /// placement, and only a node's own replicas count as its load. `docker_host` is where the engine
    /// listens, if not at its usual place.
    #[must_use]
    pub fn config(&self, engine: Engine, docker_host: Option<&str>) -> String {
        let quoted = |path: &Path| serde_json::Value::from(path.display().to_string());
        let docker_host = docker_host.map_or_else(String::new, |host| {
            format!("docker_host: {}\n", serde_json::Value::from(host))
        });
        format!(
            "# Written by `jaco dev up`.\n\
             node_name: {}\n\
             data_dir: {}\n\
             secrets_dir: {}\n\
             listen: \"{address}\"\n\
             advertise: \"{address}\"\n\
             socket: {}\n\
             engine: {}\n\
             net: {{runtime_dir: {}, port: {}}}\n\
             disk: {{full_percent: 0}}\n\
             rebalance: {{measure: replicas}}\n\
             log_level: info\n{docker_host}",
            self.name,
            quoted(&self.folder.join("data")),
            quoted(&self.folder.join("secrets")),
            quoted(&self.socket()),
            engine.as_str(),
            quoted(&self.router.folder),
            self.router.port,
            address = self.address,
        )
    }
}

/// The nodes of cluster `name`, below `data`.
///
/// `attempt` is the number of networks whose addresses were in use. Different names get different
/// networks, so that clusters can run at the same time; the same name gets the same network, so that
/// addresses stay valid.
#[must_use]
pub fn nodes(name: &str, data: &Path, count: u8, attempt: u8) -> Vec<NodeLayout> {
    let [second, third] = network(name, attempt);
    let router = RouterLayout { folder: router(data), port: tunnel_port(name, attempt) };
    let node = |number: u8| NodeLayout {
        name: format!("n{number}"),
        address: SocketAddrV4::new(Ipv4Addr::new(127, second, third, number), PORT),
        folder: data.join(format!("n{number}")),
        router: router.clone(),
    };
    (1..=count).map(node).collect()
}

/// The folder of the router of a cluster whose data is in `data`.
#[must_use]
pub fn router(data: &Path) -> PathBuf {
    data.join("net")
}

/// The port of the tunnel: below those that the kernel gives to connections, and not the one of a cluster in use.
fn tunnel_port(name: &str, attempt: u8) -> u16 {
    let place = hash(name, attempt) % u32::from(TUNNEL_PORTS.end - TUNNEL_PORTS.start);
    TUNNEL_PORTS.start + u16::try_from(place).unwrap_or_default()
}

/// The second and third byte of the addresses: never `127.0`, which other programs use, and no third
/// byte of 255.
fn network(name: &str, attempt: u8) -> [u8; 2] {
    let [a, b, c, d] = hash(name, attempt).to_be_bytes();
    [1 + (a ^ b) % 254, (c ^ d) % 255]
}

/// Differs between names, and between the attempts of a name.
fn hash(name: &str, attempt: u8) -> u32 {
    fnv1a(name).wrapping_add(u32::from(attempt).wrapping_mul(0x9e37_79b9))
}

/// FNV-1a with 32 bits: stable across versions and machines.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Checks the name and the folder of a cluster.
///
/// # Errors
/// The problem and the advice.
pub fn check(name: &str, layout: &[NodeLayout]) -> Result<(), (String, String)> {
    if let Err(error) = DeploymentName::new(name) {
        let help = "use lower-case letters, digits, - and _".to_owned();
        return Err((format!("{name:?} is not a valid cluster name: {}", error.rule), help));
    }
    let longest = layout.iter().map(|node| node.socket().as_os_str().len()).max().unwrap_or(0);
    if longest > SOCKET_PATH_MAX {
        let message = format!(
            "the path of a socket would have {longest} bytes; the maximum is {SOCKET_PATH_MAX}"
        );
        return Err((message, "choose a folder with a shorter path with --data".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_configuration_says_what_a_node_needs() {
        let nodes = nodes("dev", Path::new("/var/dev cluster"), 2, 0);
        expect_test::expect![[r##"
            # Written by `jaco dev up`.
            node_name: n2
            data_dir: "/var/dev cluster/n2/data"
            secrets_dir: "/var/dev cluster/n2/secrets"
            listen: "127.141.43.2:7000"
            advertise: "127.141.43.2:7000"
            socket: "/var/dev cluster/n2/jaco.sock"
            engine: fake
            net: {runtime_dir: "/var/dev cluster/net", port: 28556}
            disk: {full_percent: 0}
            rebalance: {measure: replicas}
            log_level: info
        "##]]
        .assert_eq(&nodes[1].config(Engine::Fake, None));
        let elsewhere = nodes[1].config(Engine::Docker, Some("unix:///run/docker.sock"));
        assert!(elsewhere.ends_with("log_level: info\ndocker_host: \"unix:///run/docker.sock\"\n"));
    }

    #[test]
    fn name_and_attempt_choose_the_network() {
        let of = |name: &str, attempt| nodes(name, Path::new("/x"), 1, attempt)[0].address;
        assert_eq!(of("dev", 0), of("dev", 0));
        assert_ne!(of("dev", 0), of("demo", 0));
        let tried: BTreeSet<_> = (0..16).map(|attempt| of("dev", attempt)).collect();
        assert_eq!(tried.len(), 16);
        let ports: BTreeSet<_> = (0..16).map(|attempt| tunnel_port("dev", attempt)).collect();
        assert!(ports.len() == 16 && ports.iter().all(|port| TUNNEL_PORTS.contains(port)));
    }

    #[test]
    fn addresses_avoid_the_usual_loopback_network() {
        for number in 0..2000 {
            let [second, third] = network(&format!("name-{number}"), 0);
            assert!((1..=254).contains(&second) && third < 255);
        }
    }

    #[test]
    fn invalid_names_and_long_paths_are_refused() {
        let long = PathBuf::from("/x".repeat(60));
        assert!(check("dev", &nodes("dev", Path::new("/x"), 3, 0)).is_ok());
        assert!(check("../x", &nodes("dev", Path::new("/x"), 3, 0)).is_err());
        assert!(check("dev", &nodes("dev", &long, 3, 0)).is_err());
    }
}

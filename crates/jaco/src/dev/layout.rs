//! Addresses, folders and configurations of a development cluster. Pure.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use jaco_types::DeploymentName;

/// Every node listens here, each on its own address.
pub const PORT: u16 = 7000;

/// More daemons than this on one machine help nobody.
pub const NODES_MAX: u8 = 99;

/// The longest path that the kernel takes for a socket, without its final zero.
pub const SOCKET_PATH_MAX: usize = 107;

/// What runs the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// The Docker Engine of this machine, shared by all nodes
    Docker,
    /// Nothing real: containers only in the daemon's memory, for trying things out
    Fake,
}

impl Engine {
    /// The word of the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Fake => "fake",
        }
    }
}

/// A node before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLayout {
    /// Its host name: `n1`, `n2`, …
    pub name: String,
    /// Where it listens.
    pub address: SocketAddrV4,
    /// Everything of it lies below.
    pub folder: PathBuf,
}

impl NodeLayout {
    /// Its configuration file.
    #[must_use]
    pub fn config_path(&self) -> PathBuf {
        self.folder.join("jacod.yaml")
    }

    /// Where it listens for people.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("jaco.sock")
    }

    /// What it says.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("jacod.log")
    }

    /// Its configuration. All nodes are on one machine: its disk is nothing to place replicas by, and a
    /// node's load is what its own replicas make.
    #[must_use]
    pub fn config(&self, engine: Engine) -> String {
        let quoted = |path: &Path| serde_json::Value::from(path.display().to_string());
        format!(
            "# Written by `jaco dev up`.\n\
             node_name: {}\n\
             data_dir: {}\n\
             secrets_dir: {}\n\
             listen: \"{address}\"\n\
             advertise: \"{address}\"\n\
             socket: {}\n\
             engine: {}\n\
             disk: {{full_percent: 0}}\n\
             rebalance: {{measure: replicas}}\n\
             log_level: info\n",
            self.name,
            quoted(&self.folder.join("data")),
            quoted(&self.folder.join("secrets")),
            quoted(&self.socket()),
            engine.as_str(),
            address = self.address,
        )
    }
}

/// The nodes of cluster `name`, below `data`.
///
/// `attempt` counts how often addresses were found taken. Different names get different networks,
/// so that clusters can run side by side; the same name gets the same one, so that a bookmark works
/// tomorrow.
#[must_use]
pub fn nodes(name: &str, data: &Path, count: u8, attempt: u8) -> Vec<NodeLayout> {
    let [second, third] = network(name, attempt);
    let node = |number: u8| NodeLayout {
        name: format!("n{number}"),
        address: SocketAddrV4::new(Ipv4Addr::new(127, second, third, number), PORT),
        folder: data.join(format!("n{number}")),
    };
    (1..=count).map(node).collect()
}

/// The second and third number of the addresses: never `127.0`, where everything else lives, and
/// nothing that ends in 255.
fn network(name: &str, attempt: u8) -> [u8; 2] {
    let hash = fnv1a(name).wrapping_add(u32::from(attempt).wrapping_mul(0x9e37_79b9));
    let [a, b, c, d] = hash.to_be_bytes();
    [1 + (a ^ b) % 254, (c ^ d) % 255]
}

/// FNV-1a, 32 bits: small, and the same everywhere forever.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Why a cluster cannot have this name or place.
///
/// # Errors
/// A sentence, and what to do.
pub fn check(name: &str, layout: &[NodeLayout]) -> Result<(), (String, String)> {
    if let Err(error) = DeploymentName::new(name) {
        let help = "use small letters, digits, - and _".to_owned();
        return Err((format!("{name:?} is no name for a cluster: {}", error.rule), help));
    }
    let longest = layout.iter().map(|node| node.socket().as_os_str().len()).max().unwrap_or(0);
    if longest > SOCKET_PATH_MAX {
        let message = format!(
            "a socket's path would be {longest} bytes long, {SOCKET_PATH_MAX} are possible"
        );
        return Err((message, "name a shorter folder with --data".to_owned()));
    }
    Ok(())
}

/// How many of `nodes` vote: 1 of up to 2, 3 of up to 4, 5 of up to 6, then 7 (R-NODE-4).
#[must_use]
pub fn voters(nodes: usize) -> usize {
    match nodes {
        0 => 0,
        1..=2 => 1,
        3..=4 => 3,
        5..=6 => 5,
        _ => 7,
    }
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
            disk: {full_percent: 0}
            rebalance: {measure: replicas}
            log_level: info
        "##]]
        .assert_eq(&nodes[1].config(Engine::Fake));
    }

    #[test]
    fn names_and_attempts_choose_other_networks() {
        let of = |name: &str, attempt| nodes(name, Path::new("/x"), 1, attempt)[0].address;
        assert_eq!(of("dev", 0), of("dev", 0));
        assert_ne!(of("dev", 0), of("demo", 0));
        let tried: BTreeSet<_> = (0..16).map(|attempt| of("dev", attempt)).collect();
        assert_eq!(tried.len(), 16);
    }

    #[test]
    fn addresses_stay_off_the_usual_loopback() {
        for number in 0..2000 {
            let [second, third] = network(&format!("name-{number}"), 0);
            assert!((1..=254).contains(&second) && third < 255);
        }
    }

    #[test]
    fn bad_names_and_long_paths_are_refused() {
        let long = PathBuf::from("/x".repeat(60));
        assert!(check("dev", &nodes("dev", Path::new("/x"), 3, 0)).is_ok());
        assert!(check("../x", &nodes("dev", Path::new("/x"), 3, 0)).is_err());
        assert!(check("dev", &nodes("dev", &long, 3, 0)).is_err());
    }

    /// R-NODE-4
    #[test]
    fn voters_follow_the_policy() {
        let voters: Vec<usize> = (0..=9).map(voters).collect();
        assert_eq!(voters, [0, 1, 1, 3, 3, 5, 5, 7, 7, 7]);
    }
}

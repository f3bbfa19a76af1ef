//! `jaco network`

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    CreateNetworkRequest, EnableNetworksRequest, ListNetworksRequest, RemoveNetworkRequest,
    ResizeNetworkRequest, RotateNetworkKeyRequest,
};
use jaco_types::{Ipv4Prefix, NetworkName, NetworkScope};
use serde_json::json;

use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, network};

/// Manage networks of the cluster
///
/// A network of the cluster is one subnet on all nodes; each replica has its own address in it. A
/// cluster has them from `jaco cluster init` or `jaco network enable` on; until then networks are those of
/// each node.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco network enable
  jaco network ls
  jaco network create backbone
  jaco network inspect shop/default")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Set the pool of addresses, once, so that networks are the cluster's
    ///
    /// From then on, the next apply of each deployment attaches its services to networks of the cluster,
    /// which replaces all of their replicas once, in a rollout. All nodes must run the same version. Pool
    /// and MTU cannot be changed later. Each node needs `nft` and its UDP port for the tunnel, 51820 unless
    /// its settings say otherwise.
    #[command(after_long_help = "Examples:
  jaco network enable
  jaco network enable --pool 172.16.0.0/12
  jaco network enable --mtu 1370                    where the nodes' links take 1450 bytes")]
    Enable {
        /// The IPv4 prefix of 8 to 15 bits that all subnets are taken from, used by nothing else
        #[arg(long, value_name = "PREFIX", default_value = "10.64.0.0/12")]
        pool: String,
        /// The MTU of containers in bytes, 80 less than that of the links between the nodes
        #[arg(long, value_name = "BYTES", default_value_t = 1420)]
        mtu: u32,
    },
    /// List the networks
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco network ls
  jaco network ls -o wide
  jaco network ls -o json"
    )]
    Ls,
    /// Inspect a network and the addresses in it
    ///
    /// An address is in quarantine for a minute after its replica is gone: nobody may have it meanwhile,
    /// so that nothing that still knows the address reaches another replica.
    #[command(after_long_help = "Examples:
  jaco network inspect shop/default
  jaco network inspect backbone -o json")]
    Inspect {
        /// The network: DEPLOYMENT/KEY, or the name of a shared one
        network: String,
    },
    /// Create a shared network
    ///
    /// Deployments are attached to it by `external: true` in their compose files.
    #[command(after_long_help = "Examples:
  jaco network create backbone
  jaco network create metrics --internal --prefix-length 22")]
    Create {
        /// Its name
        name: String,
        /// Let its members reach nothing but each other
        #[arg(long)]
        internal: bool,
        /// The prefix length of its subnet, 20 to 26
        #[arg(long, value_name = "BITS", default_value_t = 24)]
        prefix_length: u32,
    },
    /// Remove a shared network that is not in use
    #[command(
        aliases = ["remove", "delete"],
        after_long_help = "Examples:
  jaco network rm backbone"
    )]
    Rm {
        /// Its name
        name: String,
    },
    /// Set the size of a network that nothing is attached to
    ///
    /// The network gets another subnet of the pool. It is refused as long as a replica has an address in
    /// it, or had one until a minute ago.
    #[command(after_long_help = "Examples:
  jaco network resize backbone 22
  jaco network resize shop/default 20")]
    Resize {
        /// The network: DEPLOYMENT/KEY, or the name of a shared one
        network: String,
        /// The prefix length of its new subnet, 20 to 26
        #[arg(value_name = "BITS")]
        prefix_length: u32,
    },
    /// Replace the WireGuard key of a node's router
    ///
    /// The private key is made on the node and never leaves it; the routers of the other nodes take the new public
    /// key over by themselves. Connections between replicas stay open, and packets between this node and the others
    /// wait for another handshake. Who asks again before the key is in use gets the same one.
    #[command(after_long_help = "Examples:
  jaco network rotate-key n2
  jaco network rotate-key n2 -o json")]
    RotateKey {
        /// The node
        #[arg(value_name = "NODE")]
        node: String,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Enable { pool, mtu } => enable(session, pool, mtu).await,
        Action::Ls => list(session).await,
        Action::Inspect { network } => inspect(session, network).await,
        Action::Create { name, internal, prefix_length } => {
            let name = own_name(&name)?.to_string();
            let request_id = fresh_request_id();
            let request = CreateNetworkRequest { name, internal, prefix_length, request_id };
            let created = session.client()?.create_network(request).await?;
            let created = created.network.unwrap_or_default();
            let text = format!("network {} created with subnet {}\n", created.name, created.subnet);
            session.done(&Summary { json: network::json(&created), text })
        }
        Action::Rm { name } => remove(session, &name).await,
        Action::RotateKey { node } => rotate_key(session, node).await,
        Action::Resize { network, prefix_length } => {
            let request_id = fresh_request_id();
            let network = scope(&network)?.to_string();
            let request = ResizeNetworkRequest { network, prefix_length, request_id };
            let resized = session.client()?.resize_network(request).await?;
            let resized = resized.network.unwrap_or_default();
            let text = format!("network {} has subnet {}\n", resized.name, resized.subnet);
            session.done(&Summary { json: network::json(&resized), text })
        }
    }
}

async fn rotate_key(session: &mut Session, hostname: String) -> CommandResult {
    let request = RotateNetworkKeyRequest { hostname: hostname.clone() };
    let rotated = session.client()?.rotate_network_key(request).await?;
    let (before, key) = (network::key(&rotated.before), network::key(&rotated.key));
    let text = format!("router of {hostname}: key {key} in place of {before}\n");
    let json = json!({ "node": hostname, "key": key, "before": before });
    session.done(&Summary { json, text })
}

async fn enable(session: &mut Session, pool: String, mtu: u32) -> CommandResult {
    let prefix: Ipv4Prefix = pool.parse().map_err(|invalid: jaco_types::InvalidName| {
        CliError::usage(format!("{pool:?} is not an IPv4 prefix"), invalid.rule)
    })?;
    let request_id = fresh_request_id();
    let request = EnableNetworksRequest { pool: prefix.to_string(), mtu, request_id };
    let pool = session.client()?.enable_networks(request).await?.pool.unwrap_or_default();
    let text = format!(
        "networks of the cluster enabled: pool {}, MTU {}\nEach deployment gets them with its next \
         apply, which replaces its replicas.\n",
        pool.prefix, pool.mtu
    );
    session.done(&Summary { json: network::pool_json(&pool), text })
}

async fn list(session: &mut Session) -> CommandResult {
    let listed = session.client()?.list_networks(ListNetworksRequest::default()).await?;
    if listed.pool.is_none() {
        session.ui.note("the networks of this cluster are those of each node: jaco network enable");
    }
    session.done(&List { items: &listed.networks, json: network::json, text: network::table })
}

async fn inspect(session: &mut Session, name: String) -> CommandResult {
    let request = ListNetworksRequest { network: scope(&name)?.to_string() };
    let listed = session.client()?.list_networks(request).await?;
    let (networks, pool) = (&listed.networks, listed.pool.as_ref());
    session.done(&network::Inspected { networks, pool })
}

async fn remove(session: &mut Session, name: &str) -> CommandResult {
    let name = scope(name)?.to_string();
    let request = RemoveNetworkRequest { name: name.clone(), request_id: fresh_request_id() };
    session.client()?.remove_network(request).await?;
    let json = json!({ "name": name, "outcome": "removed" });
    session.done(&Summary { json, text: format!("network {name} removed\n") })
}

fn own_name(text: &str) -> Result<NetworkName, CliError> {
    NetworkName::new(text).map_err(|invalid| {
        CliError::usage(format!("{text:?} is not the name of a network"), invalid.rule)
    })
}

fn scope(text: &str) -> Result<NetworkScope, CliError> {
    NetworkScope::parse(text)
        .map_err(|invalid| CliError::usage(format!("{text:?} is not a network"), invalid.rule))
}

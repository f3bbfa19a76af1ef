//! Whether a router can be made on this node, tried before a cluster counts on it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use jaco_dataplane::{Policy, SitePlan, Tunnel};
use jaco_net::RouterClient;
use jaco_state::network::NetworkPool;
use jaco_types::{NetworkId, StateIndex};
use tokio::time::{Instant, sleep, timeout_at};

use crate::process::Process;

/// How long the process may take to start and to carry out an empty plan.
const LIMIT: Duration = Duration::from_secs(10);

/// Pause between attempts to connect.
const POLL: Duration = Duration::from_millis(20);

/// Starts the router's process if none runs, and has it carry out a plan without ports: rules and a tunnel, which are
/// what a machine may lack.
///
/// # Errors
/// Why there can be no router, in a sentence for operators.
pub(crate) async fn try_router(
    runtime_dir: &Path,
    pool: &NetworkPool,
    process: &mut Process,
) -> Result<(), String> {
    if let Some(bridge) = foreign_bridge() {
        return Err(format!(
            "the machine has networks of another cluster (bridge {bridge}); \
             `docker network ls` lists them"
        ));
    }
    let deadline = Instant::now() + LIMIT;
    let client = loop {
        match RouterClient::connect(runtime_dir).await {
            Ok(client) => break client,
            Err(error) if Instant::now() >= deadline => return Err(error.to_string()),
            Err(_) => {}
        }
        if let Some(why) = process.ensure(runtime_dir) {
            return Err(why);
        }
        sleep(POLL).await;
    };
    carry_out(client, pool, deadline).await
}

/// One that holds a plan already works, and is to keep it.
async fn carry_out(
    mut client: RouterClient,
    pool: &NetworkPool,
    deadline: Instant,
) -> Result<(), String> {
    let mut status = client.status();
    let current = status.borrow_and_update().clone();
    if current.applied().is_none() {
        let mesh = pool.mesh();
        let address = mesh.first();
        let tunnel = Tunnel { address, mesh, key: current.key(), mtu: pool.mtu };
        let policy = Policy { mesh: Some(mesh), ..Policy::default() };
        let plan = SitePlan { policy, tunnel: Some(tunnel), ..SitePlan::default() };
        client.hold(StateIndex(0), &plan).await.map_err(|error| error.to_string())?;
    }
    let settled = status.wait_for(|status| status.error.is_some() || status.applied().is_some());
    match timeout_at(deadline, settled).await {
        Ok(Ok(status)) => status.error.clone().map_or(Ok(()), Err),
        Ok(Err(_)) => Err("its process has ended".to_owned()),
        Err(_) => Err(format!("it did not carry out a plan within {} s", LIMIT.as_secs())),
    }
}

/// A bridge as the first networks of every cluster have it: an engine can have those of one cluster only.
fn foreign_bridge() -> Option<String> {
    // Not `/sys/class/net`: where that was mounted decides whose interfaces it has.
    let interfaces = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    bridge_in(&interfaces)
}

fn bridge_in(interfaces: &str) -> Option<String> {
    let names = interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let bridges: BTreeSet<String> = (1..64).map(|number| NetworkId(number).bridge()).collect();
    names.filter(|name| bridges.contains(*name)).min().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bridges_of_another_cluster_are_found() {
        let head = "Inter-|   Receive\n face |bytes    packets\n    lo: 7 7 0\n";
        let with = |name: &str| bridge_in(&format!("{head}{name}: 1234 5 0\n"));
        assert_eq!(with(" jn2"), Some("jn2".to_owned()));
        assert_eq!(with("jnx"), Some("jnx".to_owned()), "33");
        assert_eq!((with(" jnv7"), with("  eth0"), with(" jn")), (None, None, None));
    }
}

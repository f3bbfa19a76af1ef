//! What holds of all machines together, once the cluster has dealt with a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::{Node, eventually_within, succeeded, v1};

use crate::outside::Outside;

/// How long nobody else gets an address that an instance had (NET-4).
const QUARANTINE: Duration = Duration::from_secs(60);

/// Addresses of containers, and when each was last seen to be used by it.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    used: BTreeMap<String, (String, Instant)>,
}

impl Addresses {
    /// # Errors
    /// Which address two containers have, or had too soon one after the other.
    fn look(&mut self, replicas: &[v1::ReplicaInfo], now: Instant) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for replica in replicas.iter().filter(|replica| !replica.container_id.is_empty()) {
            for found in &replica.addresses {
                let key = format!("{}: {}", found.network, found.address);
                if !seen.insert(key.clone()) {
                    return Err(format!("two have {key}: {replicas:?}"));
                }
                let own = (replica.container_id.clone(), now);
                let former = self.used.insert(key.clone(), own);
                let taken = former.filter(|(of, at)| {
                    *of != replica.container_id && now.duration_since(*at) < QUARANTINE
                });
                if let Some(former) = taken {
                    return Err(format!("{key} was given to {replica:?} so soon after {former:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Waits until every slot has one instance, which runs, on the machine that the state names, and no machine has another one.
///
/// # Panics
/// When that does not become so, or an address is used twice.
pub(crate) async fn one_instance_for_each_slot(
    outside: &Outside,
    slots: usize,
    addresses: &mut Addresses,
) {
    eventually_within(PATIENCE, "each slot has one instance", || async {
        let status = outside.machines.cluster.overview(0).await?;
        let ours = status.replicas;
        let told: BTreeSet<String> = ours
            .iter()
            .filter(|one| one.state == "running" && one.retiring.is_none())
            .map(|one| format!("{} {} {}", one.id, one.node, one.container_id))
            .collect();
        let found = containers(outside);
        if told.len() == slots && ours.len() == slots && told == found {
            Ok(ours)
        } else {
            Err(format!("{ours:#?}; on the machines: {found:#?}"))
        }
    })
    .await;
    let replicas = outside.replicas().await;
    addresses.look(&replicas, Instant::now()).unwrap_or_else(|law| panic!("{law}"));
}

/// Replica, node and container of all that runs on the machines.
fn containers(outside: &Outside) -> BTreeSet<String> {
    let format = "{{.Label \"jaco.replica_id\"}} {{.ID}}";
    let filter = "label=jaco.replica_id";
    let args = ["ps", "--no-trunc", "--filter", filter, "--format", format];
    let mut found = BTreeSet::new();
    for (at, engine) in outside.machines.engines.iter().enumerate() {
        let listed = succeeded(&engine.command(&args).output().expect("docker runs"));
        for line in listed.lines() {
            let (replica, container) = line.split_once(' ').expect("two columns");
            found.insert(format!("{replica} n{} {container}", at + 1));
        }
    }
    found
}

/// No daemon says that something is wrong with itself.
pub(crate) fn no_panic(outside: &Outside) {
    for node in &outside.machines.cluster.nodes {
        let log = std::fs::read_to_string(node.log_path()).expect("the log can be read");
        let bad = log.lines().find(|line| line.contains("panicked at") || line.contains("damaged"));
        assert_eq!(bad, None, "{}", node.name);
    }
}

/// A daemon's clock was set back while it ran, or the fault of its clock was none.
///
/// # Panics
/// When its log tells of no such moment.
pub(crate) fn clock_was_set(node: &Node) {
    let log = std::fs::read_to_string(node.log_path()).expect("the log can be read");
    let times: Vec<i64> = log.lines().filter_map(second_of_day).collect();
    // Over midnight as well.
    let by = |pair: &[i64]| (pair[0] - pair[1]).rem_euclid(24 * 3600);
    let back = times.windows(2).filter(|pair| (60..3600).contains(&by(pair))).count();
    assert!(back > 0, "{} never saw its clock set back in {} lines", node.name, times.len());
}

/// When a line of a log was written, by its clock.
fn second_of_day(line: &str) -> Option<i64> {
    let time = line.split_once('T')?.1.get(..8)?;
    let mut parts = time.split(':').map(|part| part.parse::<i64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    Some(hours * 3600 + minutes * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(container: &str, address: &str) -> v1::ReplicaInfo {
        let address =
            v1::ReplicaAddress { network: "shop/default".to_owned(), address: address.to_owned() };
        v1::ReplicaInfo {
            container_id: container.to_owned(),
            addresses: vec![address],
            ..v1::ReplicaInfo::default()
        }
    }

    #[test]
    fn an_address_that_comes_back_too_soon_is_found() {
        let (mut addresses, now) = (Addresses::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        addresses.look(&[replica("a", "10.1"), replica("b", "10.2")], at(0)).unwrap();
        addresses.look(&[replica("a", "10.1"), replica("c", "10.3")], at(30)).unwrap();
        addresses.look(&[replica("c", "10.3"), replica("d", "10.2")], at(61)).unwrap();
        assert!(addresses.look(&[replica("e", "10.1")], at(80)).unwrap_err().contains("so soon"));
        let twice = [replica("f", "10.9"), replica("g", "10.9")];
        assert!(addresses.look(&twice, at(90)).unwrap_err().starts_with("two have"));
    }
}

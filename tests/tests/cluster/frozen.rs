//! Daemons that stand still for longer than a node may be silent, as those of a machine that is suspended do.

use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, eventually, stays, v1};

use crate::scenario::{apply_request, containers, deploy};

/// Half as much again as the time without a heartbeat after which a node counts as down.
const FROZEN: Duration = Duration::from_secs(12);

/// How long after a node knows the successor of a leader that hangs a write is made that was sent to that one: without the
/// successor it would be waited for four seconds, of which an election takes one or two.
const HANDED_OVER: Duration = Duration::from_secs(1);

/// For how long nothing may come of it: a node that is wrongly silent counts as down after 8 s.
const WATCHED: Duration = Duration::from_secs(12);

/// The names of the nodes that were declared down, and of the replicas that were moved or replaced.
pub(crate) async fn judged(cluster: &Cluster, node: usize) -> Result<Vec<String>, String> {
    let client = cluster.nodes[node].client();
    let mut events = client.events(v1::AuditRequest::default());
    let mut judged = Vec::new();
    while let Some(event) = events.next().await.map_err(|error| error.to_string())? {
        let is_down =
            event.kind == "node_status" && event.payload.get("to").is_some_and(|to| to == "down");
        let is_move = matches!(&*event.kind, "replica_moved" | "replica_replaced");
        let subject = if is_down { "node" } else { "replica" };
        if is_down || is_move {
            judged.push(event.payload.get(subject).cloned().unwrap_or_default());
        }
    }
    Ok(judged)
}

/// R-NODE-1: all machines stand still, as those of one host that is suspended. Whoever leads afterwards heard
/// nobody meanwhile, and declares nobody down; no container is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_that_was_frozen_judges_nobody() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 6).await;
    let before = containers(&cluster.overview(0).await.unwrap());
    cluster.nodes.iter().for_each(jaco_testkit::Node::pause);
    tokio::time::sleep(FROZEN).await;
    cluster.nodes.iter().for_each(jaco_testkit::Node::resume);
    cluster.settled().await;
    stays(WATCHED, "nobody is declared down", &Vec::new(), || judged(&cluster, 0)).await;
    assert_eq!(containers(&cluster.converged(0, "shop").await), before);
}

/// R-NODE-1: the leader alone stands still. It is declared down by the next one, and declares nobody down by the
/// time in which it did not live, when it goes on in the belief that it leads.
#[tokio::test(flavor = "multi_thread")]
async fn leader_that_was_frozen_judges_nobody() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 6).await;
    let leader = cluster.leader().await;
    let name = cluster.nodes[leader].name.clone();
    cluster.nodes[leader].pause();
    tokio::time::sleep(FROZEN).await;
    cluster.nodes[leader].resume();
    cluster.settled().await;
    let down = || async {
        let judged = judged(&cluster, leader).await?;
        Ok(judged
            .into_iter()
            .filter(|one| cluster.nodes.iter().any(|node| node.name == *one))
            .collect::<Vec<_>>())
    };
    // It learns of it once it hears from the next leader: until then it shows what it knew before.
    let wanted = vec![name];
    eventually("the frozen node learns that it was declared down", || async {
        let judged: Vec<String> = down().await?;
        if judged == wanted { Ok(()) } else { Err(format!("{judged:?}")) }
    })
    .await;
    stays(WATCHED, "only the frozen node was declared down", &wanted, down).await;
}

/// R-LOOP-1, R-CLI-8: a write that a leader has which hangs is made by its successor, soon after the node that sent it knows
/// that one, and not when the time for an answer is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_a_hung_leader_has_is_made_by_its_successor() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let asked = &cluster.nodes[(leader + 1) % 3];
    let name = cluster.nodes[leader].name.clone();
    cluster.nodes[leader].pause();
    let write = async {
        let applied = asked.client().apply(apply_request("shop", "web:1", 1)).await;
        (applied.map(|applied| applied.revision), Instant::now())
    };
    let successor = async {
        loop {
            let status = asked.client().status(v1::ClusterStatusRequest {}).await;
            let leader = status.map(|status| status.leader).unwrap_or_default();
            if !leader.is_empty() && leader != name {
                return Instant::now();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ((applied, done), known) = tokio::join!(write, successor);
    cluster.nodes[leader].resume();
    assert_eq!(applied.expect("its successor makes it"), 1);
    let after = done.saturating_duration_since(known);
    assert!(after < HANDED_OVER, "{after:?} after the successor was known");
}

//! A leader whose port nobody reaches any more, while the connections that it makes itself go on.

use jaco_testkit::{Cluster, Engine, Machines, binary, eventually, v1};

use crate::frozen::judged;
use crate::scenario::{apply_request, containers, deploy};

const PORT: u16 = 7000;

async fn cluster_on(machines: &Machines, nodes: usize) -> Cluster {
    let mut cluster = Cluster::without_nodes(Engine::Fake);
    for at in 0..nodes {
        let router = cluster.router().join(at.to_string());
        let settings = format!("net: {{runtime_dir: {}}}\n", router.display());
        let address = format!("{}:{PORT}", machines.address(at));
        let mut command = machines.inside(at);
        cluster.add_daemon_at(&address, &settings, command.arg(binary("jacod")));
    }
    let first = cluster.nodes[0].client();
    let founded = eventually("the first daemon answers", || async {
        first.init(v1::InitRequest::default()).await.map_err(|error| error.to_string())
    });
    cluster.id = founded.await.cluster_id;
    for at in 1..nodes {
        cluster.join(at).await;
    }
    cluster.settled().await;
    cluster
}

/// R-NODE-1: raft's answers reach the leader, and no request does. It hands the leadership on before it judges anybody: it
/// alone is declared down by its successor, whose replicas stay where they are, and the others take writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_port_is_closed_declares_nobody_down() {
    let machines = Machines::start(3).await;
    let cluster = cluster_on(&machines, 3).await;
    deploy(&cluster, "shop", "web:1", 6).await;
    let leader = cluster.leader().await;
    let (name, asked) = (cluster.nodes[leader].name.clone(), (leader + 1) % 3);
    let kept = |status: &v1::StatusResponse| {
        let elsewhere = status.replicas.iter().filter(|replica| replica.node != name);
        let status =
            v1::StatusResponse { replicas: elsewhere.cloned().collect(), ..status.clone() };
        containers(&status)
    };
    let before = kept(&cluster.overview(asked).await.expect("it answers"));
    assert_eq!(before.len(), 4, "two on each of the others: {before:?}");

    machines.close_port(leader, PORT);
    let down = |status: &v1::ClusterStatusResponse| {
        let down = status.nodes.iter().filter(|node| node.status == "down");
        down.map(|node| node.hostname.clone()).collect::<Vec<_>>()
    };
    eventually("the node behind the firewall is down, and another one leads", || async {
        let status = cluster.nodes[asked].client().status(v1::ClusterStatusRequest {}).await;
        let status = status.map_err(|error| error.to_string())?;
        let is_succeeded = !status.leader.is_empty() && status.leader != name;
        if is_succeeded && down(&status) == [name.clone()] {
            Ok(())
        } else {
            Err(format!("{} leads, down: {:?}", status.leader, down(&status)))
        }
    })
    .await;
    let applied = cluster.nodes[asked].client().apply(apply_request("blog", "web:1", 1)).await;
    assert_eq!(applied.expect("it takes writes").revision, 1);
    let after = cluster.converged(asked, "shop").await;
    let stayed = containers(&after);
    for (replica, container) in &before {
        assert_eq!(stayed.get(replica), Some(container), "{replica} of {before:?}");
    }

    machines.open_ports(leader);
    cluster.settled().await;
    let judged = judged(&cluster, asked).await.expect("it answers");
    let nodes: Vec<_> = judged
        .into_iter()
        .filter(|one| cluster.nodes.iter().any(|node| node.name == *one))
        .collect();
    assert_eq!(nodes, [name], "only it was ever declared down");
}

//! Joining, removal and voters.

use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, eventually, v1};
use jaco_types::ErrorCode;

use crate::scenario::{deploy, per_node};

async fn voters(cluster: &Cluster) -> Vec<String> {
    let status = cluster.client().status(v1::ClusterStatusRequest {}).await;
    let nodes = status.expect("the node answers").nodes;
    let voters = nodes.into_iter().filter(|node| node.suffrage == "voter");
    voters.map(|node| node.hostname).collect()
}

async fn has_voters(cluster: &Cluster, wanted: usize) {
    eventually(&format!("{wanted} voters"), || async {
        let voters = voters(cluster).await;
        if voters.len() == wanted { Ok(()) } else { Err(voters) }
    })
    .await;
}

/// R-NODE-4: joiners enter as learners; 1→1, 2→1, 3→3, 4→3 voters, and back.
#[tokio::test(flavor = "multi_thread")]
async fn voters_follow_the_policy_up_and_down() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    for (size, wanted) in [(2, 1), (3, 3), (4, 3)] {
        cluster.add_daemon();
        cluster.join(size - 1).await;
        cluster.settled().await;
        has_voters(&cluster, wanted).await;
    }
    for (gone, wanted) in [("n4", 3), ("n3", 1)] {
        let request = v1::RemoveNodeRequest { hostname: gone.to_owned(), ..Default::default() };
        cluster.client().remove_node(request).await.expect("an empty node can leave");
        has_voters(&cluster, wanted).await;
    }
}

/// R-PLACE-4, R-PLACE-6: a global service follows the nodes; a joining node moves nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn joining_node_moves_no_replicas() {
    let mut cluster = Cluster::start(2, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 4).await;
    let before = cluster.overview(0).await.unwrap();
    let everywhere = v1::ApplyRequest {
        compose_json: r#"{"name":"mon","services":{"agent":{"image":"agent:1"}}}"#.to_owned(),
        overlay_yaml: "deployment: mon\nservices:\n  - {name: agent, placement: global}\n"
            .to_owned(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(everywhere).await.expect("admitted");
    cluster.converged(0, "mon").await;
    cluster.add_daemon();
    cluster.join(2).await;
    cluster.settled().await;
    let after = eventually("the new node has its agent", || async {
        let status = cluster.overview(0).await?;
        let agents = status.replicas.iter().filter(|replica| replica.state == "running");
        let mut ids: Vec<_> = agents.map(|replica| replica.id.clone()).collect();
        ids.retain(|id| id.starts_with("mon"));
        if ids == ["mon-agent-n1", "mon-agent-n2", "mon-agent-n3"] {
            Ok(status)
        } else {
            Err(format!("{ids:?}"))
        }
    })
    .await;
    let shop = |status: &v1::StatusResponse| {
        let mut shop: Vec<_> = status
            .replicas
            .iter()
            .filter(|replica| replica.deployment == "shop")
            .cloned()
            .collect();
        shop.sort_by(|a, b| a.id.cmp(&b.id));
        shop
    };
    assert_eq!(shop(&after), shop(&before));
}

/// R-PLACE-1: three replicas on three nodes are one each.
#[tokio::test(flavor = "multi_thread")]
async fn spread_places_one_replica_per_node() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    for name in ["app", "front", "hello"] {
        deploy(&cluster, name, "web:1", 3).await;
    }
    let status = cluster.overview(0).await.unwrap();
    assert_eq!(per_node(&status).into_values().collect::<Vec<_>>(), [3, 3, 3]);
    for name in ["app", "front", "hello"] {
        let mut nodes: Vec<_> = status
            .replicas
            .iter()
            .filter(|replica| replica.deployment == name)
            .map(|replica| replica.node.as_str())
            .collect();
        nodes.sort_unstable();
        assert_eq!(nodes, ["n1", "n2", "n3"], "{name}");
    }
}

/// Exit status of a daemon whose node was removed, as the systemd unit knows it.
const EXIT_REMOVED: i32 = 3;

/// A replica with data on n3, which nothing but a removal takes away from there.
async fn deploy_with_data_on_n3(cluster: &Cluster) {
    let request = v1::ApplyRequest {
        compose_json: r#"{"name":"shop","services":{"db":{"image":"db:1","volumes":
            [{"type":"volume","source":"data","target":"/data"}]}},"volumes":{"data":{}}}"#
            .to_owned(),
        overlay_yaml:
            "deployment: shop\nservices:\n  - {name: db, placement: hosts, hosts: [n3]}\n"
                .to_owned(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("admitted");
    cluster.converged(0, "shop").await;
    assert!(engine_of(cluster, 2).contains("shop-db-0"), "it runs on n3");
}

/// What the fake engine of a node keeps.
fn engine_of(cluster: &Cluster, node: usize) -> String {
    let file = cluster.nodes[node].folder().join("data/fake-engine.json");
    std::fs::read_to_string(file).expect("the engine keeps its containers")
}

async fn remove_by_force(cluster: &Cluster, hostname: &str) {
    let request =
        v1::RemoveNodeRequest { hostname: hostname.to_owned(), force: true, ..Default::default() };
    cluster.client().remove_node(request).await.expect("force removes");
}

/// Waits until the daemon has ended by itself for good: nothing of the cluster is left on its engine, and
/// its unit must not start it again.
async fn ends_for_good(cluster: &mut Cluster, node: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let status = loop {
        if let Some(status) = cluster.nodes[node].ended() {
            break status;
        }
        assert!(Instant::now() < deadline, "it goes on:\n{}", cluster.nodes[node].log_tail());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(status.code(), Some(EXIT_REMOVED), "{}", cluster.nodes[node].log_tail());
    let left = engine_of(cluster, node);
    assert!(!left.contains("shop-db-0"), "a container is left: {left}");
}

async fn refusals(cluster: &Cluster) -> usize {
    let kinds = vec!["access_refused".to_owned()];
    let mut events = cluster.client().events(v1::AuditRequest { kinds, ..Default::default() });
    let mut count = 0;
    while events.next().await.expect("the audit log is read").is_some() {
        count += 1;
    }
    count
}

/// R-NODE-1, R-NODE-2: a node that is removed by force while it lives stops what runs there, also what has
/// data; its daemon ends for good, and the machine can join again at once as a new node.
#[tokio::test(flavor = "multi_thread")]
async fn t90_living_node_that_is_removed_by_force_stops_its_containers() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy_with_data_on_n3(&cluster).await;
    remove_by_force(&cluster, "n3").await;
    ends_for_good(&mut cluster, 2).await;
    cluster.nodes[2].start();
    cluster.join(2).await;
    cluster.settled().await;
    assert!(!engine_of(&cluster, 2).contains("shop-db-0"), "its data is another node's");
}

/// R-NODE-1: a node that was off when it was removed learns of it from the first member that refuses it,
/// stops what it still runs, and ends: it does not fill the audit log with refused attempts.
#[tokio::test(flavor = "multi_thread")]
async fn t90_node_that_was_off_when_it_was_removed_ends_for_good() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy_with_data_on_n3(&cluster).await;
    cluster.nodes[2].kill();
    remove_by_force(&cluster, "n3").await;
    eventually("two nodes are left", || async {
        let nodes = cluster.overview(0).await?.nodes.len();
        if nodes == 2 { Ok(()) } else { Err(nodes.to_string()) }
    })
    .await;
    assert!(engine_of(&cluster, 2).contains("shop-db-0"), "containers outlive a daemon");
    cluster.nodes[2].start();
    ends_for_good(&mut cluster, 2).await;
    // A refusal is agreed on after it was given.
    eventually("the refusal is in the audit log", || async {
        if refusals(&cluster).await > 0 { Ok(()) } else { Err("it is not".to_owned()) }
    })
    .await;
    let refused = refusals(&cluster).await;
    assert!(refused <= 20, "{refused} refusals for one removed node");
}

/// The unit does not start the daemon of a removed node again.
#[test]
fn unit_ends_with_a_removed_node() {
    let unit = include_str!("../../../deploy/systemd/jacod.service");
    assert!(unit.lines().any(|line| line == format!("RestartPreventExitStatus={EXIT_REMOVED}")));
}

/// R-NODE-2: a node with replicas and the last node of a cluster are not removed, and the refusal says why.
#[tokio::test(flavor = "multi_thread")]
async fn node_that_is_needed_is_not_removed() {
    let remove = |cluster: &Cluster, hostname: &str| {
        let hostname = hostname.to_owned();
        let request = v1::RemoveNodeRequest { hostname, ..Default::default() };
        let client = cluster.client();
        async move { client.remove_node(request).await.expect_err("it is needed") }
    };
    let cluster = Cluster::start(2, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 4).await;
    let refused = remove(&cluster, "n2").await;
    assert_eq!(refused.code(), ErrorCode::NodeNotRemovable, "{refused}");
    let said = refused.to_string();
    assert!(said.contains("n2 still has 2 replicas (shop-web-"), "{said}");
    assert_eq!(cluster.overview(0).await.unwrap().nodes.len(), 2);

    let alone = Cluster::start(1, Engine::Fake).await;
    let refused = remove(&alone, "n1").await;
    assert_eq!(refused.code(), ErrorCode::NodeNotRemovable, "{refused}");
    assert!(refused.to_string().contains("n1 is the last node"), "{refused}");
}

/// A removed node's daemon stops, and its certificate is refused.
#[tokio::test(flavor = "multi_thread")]
async fn removed_node_stops_and_is_refused() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let request = v1::RemoveNodeRequest { hostname: "n3".to_owned(), ..Default::default() };
    cluster.client().remove_node(request).await.expect("an empty node can leave");
    eventually("n3 is gone from the list", || async {
        let status = cluster.overview(0).await?;
        let names: Vec<_> = status.nodes.iter().map(|node| node.hostname.clone()).collect();
        if names == ["n1", "n2"] { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    // Whether or not it noticed, the others refuse its new process.
    cluster.nodes[2].kill();
    cluster.nodes[2].start();
    eventually("the others refused it", || async {
        let kinds = vec!["access_refused".to_owned()];
        let request = v1::AuditRequest { kinds, ..Default::default() };
        let mut events = cluster.client().events(request);
        let mut seen = Vec::new();
        while let Some(event) = events.next().await.map_err(|error| error.to_string())? {
            seen.push(event);
        }
        let refused = seen.iter().any(|event| {
            event.payload.get("code").is_some_and(|code| code == "certificate_invalid")
        });
        // A node that has applied its own removal stops.
        let stopped = cluster.nodes[2].client().status(v1::ClusterStatusRequest {}).await.is_err();
        if refused || stopped { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

/// R-NODE-2: a node whose address changes while it is off finds the leader, which calls it at its former address, and is
/// a voter that counts again. So does one that led before.
#[tokio::test(flavor = "multi_thread")]
async fn node_with_a_new_address_comes_back() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    has_voters(&cluster, 3).await;
    let leader = cluster.leader().await;
    for moved in [leader, (leader + 1) % 3] {
        let node = &mut cluster.nodes[moved];
        node.stop();
        // The leader that it remembers leads no more.
        let remembered = cluster.leader().await;
        cluster.nodes[remembered].stop();
        cluster.nodes[remembered].start();
        cluster.leader().await;
        let node = &mut cluster.nodes[moved];
        let (before, port) = node.address.rsplit_once(':').expect("host and port");
        let address = format!("{before}0:{port}");
        node.move_to(&address);
        node.start();
        let other = (moved + 1) % 3;
        eventually("its new address is known", || async {
            let status = cluster.nodes[other].client().status(v1::ClusterStatusRequest {}).await;
            let nodes = status.map_err(|error| error.to_string())?.nodes;
            let name = &cluster.nodes[moved].name;
            let found = nodes.into_iter().find(|node| node.hostname == *name).ok_or("no member")?;
            match (found.address == address, found.status.as_str()) {
                (true, "ready") => Ok(()),
                _ => Err(format!("{found:?}")),
            }
        })
        .await;
        // Without it there is no quorum.
        let third = (moved + 2) % 3;
        cluster.nodes[third].stop();
        eventually("a write is acknowledged", || async {
            let labels = [("moved".to_owned(), moved.to_string())].into_iter().collect();
            let hostname = cluster.nodes[moved].name.clone();
            let request = v1::SetLabelsRequest { hostname, set: labels, ..Default::default() };
            cluster.nodes[other].client().set_labels(request).await
        })
        .await;
        cluster.nodes[third].start();
        cluster.settled().await;
    }
}

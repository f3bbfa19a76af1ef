//! R-CLI-6: registries with authentication; the credentials are stored once in the cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine, eventually, eventually_within, fresh_request_id, v1};

use crate::files::on_disk;
use crate::registry::{Access, Registry, free_port, images_with_hello};
use crate::scenario::{apply, replicas};

const USER: &str = "robot-4711";

/// Docker gets it in base64; standard and URL-safe base64 differ on `?` and `~`.
const PASSWORD: &str = "hunter2???~~~";

/// [`PASSWORD`] as bcrypt at cost 5 makes it, with a salt that is the alphabet.
const BCRYPT: &str = "$2b$05$abcdefghijklmnopqrstuugEUmv4Po05NIhvfbRIo3ujbFmopG1Ly";

/// Less than the longest pull back-off: what runs by then was retried because of the login.
const SOON: Duration = Duration::from_secs(20);

/// Waits until all replicas of a deployment report the image's name and these words.
async fn refused(cluster: &Cluster, name: &str, image: &str, words: &str) {
    eventually_within(Duration::from_secs(240), "the registry's refusal is the reason", || async {
        let now = replicas(cluster, 0, name).await;
        let is_told = |one: &v1::ReplicaInfo| {
            let reason = one.details.get("reason");
            one.code == "image_pull_failed"
                && reason.is_some_and(|told| told.starts_with(image) && told.contains(words))
        };
        if !now.is_empty() && now.iter().all(is_told) { Ok(()) } else { Err(now) }
    })
    .await;
}

async fn log_in(cluster: &Cluster, registry: &str, password: &str) -> v1::RegistryInfo {
    let request = v1::StoreRegistryRequest {
        registry: registry.to_owned(),
        username: USER.to_owned(),
        password: password.to_owned(),
        request_id: fresh_request_id(),
        dry_run: false,
    };
    // Any node forwards it to the leader.
    let stored = cluster.nodes[2].client().store_registry(request).await;
    stored.expect("it is stored").registry.expect("it is shown")
}

/// Writes until each node has created a snapshot with the credentials.
async fn each_takes_a_snapshot(cluster: &Cluster) {
    for number in 1..=120 {
        let pairs = [("ram".to_owned(), format!("{number}M"))].into();
        let request = v1::SetConstraintsRequest { pairs, request_id: fresh_request_id() };
        cluster.client().set_constraints(request).await.expect("it is written");
    }
    eventually("each node takes a snapshot", || async {
        let logs = cluster.nodes.iter().map(|node| std::fs::read_to_string(node.log_path()));
        let taken = logs.flatten().filter(|log| log.contains("snapshot created")).count();
        if taken == cluster.nodes.len() { Ok(()) } else { Err(taken) }
    })
    .await;
}

/// R-CLI-6: without credentials the reason is the registry's refusal; with them each node pulls
/// automatically; a new login counts from then on; after logout the next image is refused. The
/// password is in no file of a node and in nothing that Docker shows.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_pulls_with_the_cluster_credentials() {
    let images = images_with_hello().await;
    let port = free_port();
    let _registry =
        Registry::start_for(Access::Users(&format!("{USER}:{BCRYPT}\n")), port, &images);
    let (registry, image) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{port}/hello:1"));
    let settings = "raft: {snapshot_entries: 100}\n";
    let cluster = Cluster::start_with(3, Engine::Docker, settings).await;
    // The nodes share an engine: with this pull policy each of them contacts the registry.
    apply(&cluster, "shop", &image, 3, r#","pull_policy":"always""#).await;
    refused(&cluster, "shop", &image, "no basic auth credentials").await;

    log_in(&cluster, &registry, "something else").await;
    refused(&cluster, "shop", &image, "unauthorized").await;
    let stored = log_in(&cluster, &registry, PASSWORD).await;
    assert_eq!((stored.registry.as_str(), stored.username.as_str()), (registry.as_str(), USER));
    eventually_within(SOON, "all nodes pull it", || async {
        let now = replicas(&cluster, 0, "shop").await;
        let running = now.iter().filter(|one| one.state == "running");
        let nodes: BTreeSet<&str> = running.map(|one| one.node.as_str()).collect();
        if nodes.len() == 3 { Ok(()) } else { Err(now.clone()) }
    })
    .await;
    let again = log_in(&cluster, &registry, PASSWORD).await;
    assert_eq!(again, stored, "the same again is nothing new");

    each_takes_a_snapshot(&cluster).await;
    assert!(on_disk(&cluster, USER).len() >= 3, "what is searched is where it is stored");
    assert_eq!(on_disk(&cluster, PASSWORD), Vec::<String>::new());
    for replica in replicas(&cluster, 0, "shop").await {
        let shown = docker(&["inspect", &replica.container_id]);
        assert!(shown.contains(&image) && !shown.contains("hunter2"), "{shown}");
    }

    let listed = cluster.cli(1, &["registry", "list", "-o", "json"]);
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.contains(USER) && !listed.contains("hunter2"), "{listed}");
    let removed = cluster.cli(0, &["registry", "logout", &registry]);
    let removed = String::from_utf8(removed.stdout).expect("text");
    assert_eq!(removed, format!("credentials of {USER} at {registry} removed\n"));
    let other = format!("127.0.0.1:{port}/hello:2");
    apply(&cluster, "blog", &other, 1, "").await;
    refused(&cluster, "blog", &other, "no basic auth credentials").await;
    drop(cluster);
    docker(&["rmi", "--force", &image]);
}

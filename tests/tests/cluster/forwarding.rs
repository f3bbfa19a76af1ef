//! Ports of containers, forwarded by any node.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use jaco_testkit::{Cluster, Engine, Forwarding, v1};

use crate::scenario::{apply_request, deploy};

/// Ports of fake containers (`jaco_agent::fake::transfer`).
const ECHO: u16 = 7;
const COUNT: u16 = 9;
const GREET: u16 = 13;
const FLOOD: u16 = 19;
const CLOSED: u16 = 21;

async fn events(cluster: &Cluster) -> Vec<v1::AuditEvent> {
    let kinds = vec!["forward_started".to_owned()];
    let mut events = cluster.client().events(v1::AuditRequest { kinds, ..Default::default() });
    let mut found = Vec::new();
    while let Some(event) = events.next().await.expect("events") {
        found.push(event);
    }
    found
}

/// R-CLI-6: whichever node is asked, bytes arrive unchanged on many connections at a time, and each side ends its direction
/// by itself. The audit log has who forwarded what, once for each command.
#[tokio::test(flavor = "multi_thread")]
async fn ports_are_forwarded_from_any_node() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let many: Vec<u8> = (0..2 << 20).map(|n: u32| n.to_le_bytes()[(n % 3) as usize]).collect();
    for node in 0..3 {
        let forwarding = Forwarding::start(
            &cluster.nodes[node],
            &format!("shop/web/{node}"),
            &[ECHO, COUNT, GREET],
        );
        let mut greeted = String::new();
        forwarding.connect(2).read_to_string(&mut greeted).expect("an end");
        assert_eq!(greeted, "good day\n");
        // More connections than one.
        let echoes: Vec<_> = (0..10)
            .map(|_| {
                let (mut stream, many) = (forwarding.connect(0), many.clone());
                std::thread::spawn(move || {
                    let mut writing = stream.try_clone().expect("it can be shared");
                    let sent = many.clone();
                    let sending = std::thread::spawn(move || {
                        writing.write_all(&sent).expect("it is taken");
                        writing.shutdown(Shutdown::Write).expect("it is open");
                    });
                    let mut back = Vec::new();
                    stream.read_to_end(&mut back).expect("an end");
                    sending.join().expect("it was sent");
                    assert!(back == many, "{} bytes of {}", back.len(), many.len());
                })
            })
            .collect();
        for echo in echoes {
            echo.join().expect("it came back");
        }
        // The answer follows the end of what is sent.
        let mut counting = forwarding.connect(1);
        counting.write_all(&many).expect("it is taken");
        counting.shutdown(Shutdown::Write).expect("it is open");
        let mut counted = String::new();
        counting.read_to_string(&mut counted).expect("an end");
        assert_eq!(counted, many.len().to_string());
    }
    let events = events(&cluster).await;
    assert!(events.iter().all(|event| event.kind == "forward_started"), "{events:?}");
    assert_eq!(events.len(), 3 * 3, "{events:?}");
    let first = &events[0];
    assert_eq!(
        (first.payload["replica"].as_str(), first.payload["port"].as_str()),
        ("shop-web-0", "7")
    );
    assert!(first.by.starts_with("local:") && first.payload.contains_key("node"), "{first:?}");
}

/// R-CLI-8: what cannot be forwarded is refused with a reason; a connection that is refused later is reset, and said.
#[tokio::test(flavor = "multi_thread")]
async fn refused_connections_have_a_reason() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let refused = |args: &[&str], code: i32, words: &str| {
        let out = cluster.cli(0, &[&["port-forward"], args].concat());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(code) && said.contains(words), "{args:?}: {said}");
    };
    refused(&["shop/wbe", "80"], 3, "error[service_not_found]");
    refused(&["shop/web/9", ":80"], 3, "error[replica_not_found]");
    refused(&["shop/web", "80/udp"], 2, "[LOCAL:]PORT");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port();
    refused(&["shop/web", &format!("{port}:80")], 1, "cannot listen on 127.0.0.1:");
    assert_eq!(events(&cluster).await, []);

    let forwarding = Forwarding::start(&cluster.nodes[0], "shop/web", &[CLOSED]);
    let reset = forwarding.connect(0).read(&mut [0; 1]).expect_err("no clean end");
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    forwarding.says("no connection to port 21 of replica shop-web-0");
}

/// R-CLI-6: a replica that moves is followed, and one of a service that is gone is replaced by another one.
#[tokio::test(flavor = "multi_thread")]
async fn successors_are_followed() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let status = cluster.overview(0).await.expect("it answers");
    let before = status.replicas.iter().find(|one| one.id == "shop-web-1").expect("there").clone();
    let of_replica = Forwarding::start(&cluster.nodes[0], "shop-web-1", &[GREET]);
    let drain = v1::SetAvailabilityRequest {
        hostname: before.node.clone(),
        availability: "draining".to_owned(),
        request_id: jaco_testkit::fresh_request_id(),
        ..Default::default()
    };
    cluster.client().set_availability(drain).await.expect("it drains");
    jaco_testkit::eventually("the replica has moved", || async {
        let status = cluster.overview(0).await?;
        let is_moved = status
            .replicas
            .iter()
            .any(|one| one.id == "shop-web-1" && one.node != before.node && one.state == "running");
        if is_moved { Ok(()) } else { Err(format!("{:?}", status.replicas)) }
    })
    .await;
    let greeted = |forwarding: &Forwarding| {
        let mut greeted = String::new();
        forwarding.connect(0).read_to_string(&mut greeted).expect("an end");
        assert_eq!(greeted, "good day\n");
    };
    greeted(&of_replica);
    of_replica.says("shop-web-1 has moved to");
    // Of a service, one that is gone is replaced.
    let of_service = Forwarding::start(&cluster.nodes[0], "shop/web", &[GREET]);
    greeted(&of_service);
    let disabled = cluster.cli(0, &["disable", "shop/web", "--replica", "0"]);
    assert!(disabled.status.success(), "{}", String::from_utf8_lossy(&disabled.stderr));
    greeted(&of_service);
    of_service.says("shop-web-0 is gone: connections go to shop-web-1");
}

/// R-CLI-6: connections whose reader stalls hold up neither other connections of the command nor other requests.
#[tokio::test(flavor = "multi_thread")]
async fn stalled_connections_hold_up_nobody() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let status = cluster.converged(leader, "shop").await;
    let at_leader = |one: &&v1::ReplicaInfo| one.node == cluster.nodes[leader].name;
    let replica = status.replicas.iter().find(at_leader).expect("they are spread").id.clone();
    let forwarding = Forwarding::start(&cluster.nodes[follower], &replica, &[FLOOD, GREET]);
    let mut stalled = Vec::new();
    for _ in 0..12 {
        let mut stream = forwarding.connect(0);
        stream.read_exact(&mut [0; 1]).expect("it floods");
        stalled.push(stream);
    }
    // No state shows that a reader stalled; its buffers fill within a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut greeted = String::new();
    forwarding.connect(1).read_to_string(&mut greeted).expect("an end");
    assert_eq!(greeted, "good day\n");
    for number in 0..5 {
        let request = apply_request(&format!("next-{number}"), "web:1", 1);
        let asked = cluster.nodes[follower].client();
        let applied = tokio::time::timeout(Duration::from_secs(5), asked.apply(request)).await;
        applied.expect("the leader is reached").expect("it is admitted");
    }
    drop(stalled);
}

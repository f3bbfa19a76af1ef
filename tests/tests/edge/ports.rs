//! Published ports that not every node can listen on.

use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::{eventually_within, namespace};

use crate::outside::{Outside, Replicas};

/// The port at the first machine's address alone, and one at all addresses.
const COMPOSE: &str = "
name: ports
services:
  web:
    image: jaco-hello:v1
    command: [serve]
    ports:
      - {target: 8080, published: '8081', host_ip: 10.99.0.1}
      - {target: 8080, published: '8082'}
";

/// Another program on a machine that listens there, until it is dropped.
fn other_program(namespace: PathBuf, address: (&'static str, u16)) -> TcpListener {
    let listening = thread::spawn(move || {
        namespace::enter(&namespace);
        TcpListener::bind(address).expect("the port is free")
    });
    listening.join().expect("it listens")
}

/// What the nodes say of their edges: `serves`, or why not.
async fn edges(outside: &Outside) -> Vec<String> {
    let nodes = outside.machines.cluster.overview(0).await.expect("it answers").nodes;
    let said = nodes.iter().map(|node| match node.edge.as_str() {
        "failing" => node.edge_reason.clone(),
        other => other.to_owned(),
    });
    said.collect()
}

async fn until(outside: &Outside, what: &str, wanted: [&str; 3]) {
    eventually_within(PATIENCE, what, || async {
        let said = edges(outside).await;
        if said == wanted { Ok(()) } else { Err(said) }
    })
    .await;
}

/// R-EDGE-2: a port that another program has on a node is named there, with what to do, and is listened on once it is free. A port
/// at the address of one node is answered there alone, and is no failure of the others.
#[tokio::test(flavor = "multi_thread")]
async fn ports_that_a_node_cannot_have_are_told_apart() {
    let outside = Outside::start(Replicas::Everywhere).await;
    let second = PathBuf::from(format!("/proc/{}/ns/net", outside.machines.engines[1].namespace()));
    let other = other_program(second, ("0.0.0.0", 8082));
    outside.machines.apply(COMPOSE, None);
    let taken = "listener tcp/8082: another program has it: stop that one, which `ss -ltnp 'sport = :8082'` names";
    until(&outside, "the second node says who has its port", ["serves", taken, "serves"]).await;
    drop(other);
    until(&outside, "all nodes serve", ["serves"; 3]).await;
    let asked = |at: usize, port: u16| {
        let url = format!("http://10.99.0.{}:{port}/", at + 1);
        let mut curl = outside.machines.at_switch();
        curl.args(["curl", "-sS", "--max-time", "10", &url]).output().expect("it can be run")
    };
    for at in 0..3 {
        let answer = asked(at, 8082);
        assert!(answer.stdout.starts_with(b"hello "), "{at}: {answer:?}");
        let answer = asked(at, 8081);
        assert_eq!(answer.stdout.starts_with(b"hello "), at == 0, "{at}: {answer:?}");
    }
}

//! A process of an edge that takes the place of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use jaco_edge::{Edge, Options};
use jaco_types::StateIndex;
use tokio::net::TcpStream;

use crate::instances::saying;
use crate::lab::{Lab, PATIENCE, route_key, until};
use crate::wire::ask;

/// Clients that come one after the other, each with a connection of its own, until they are told to stop. Gives how many
/// were served; none may be refused.
async fn clients(address: std::net::SocketAddr, served: &AtomicUsize, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let mut stream = TcpStream::connect(address).await.expect("one of both listens");
        let reply = ask(&mut stream, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        assert_eq!(reply.text(), "one");
        served.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_takes_the_sockets_and_nobody_is_refused() {
    let one = saying("one");
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    let (served, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (served, stop, address) = (Arc::clone(&served), Arc::clone(&stop), lab.clear);
        running.spawn(async move { clients(address, &served, &stop).await });
    }
    let more = async |number: usize| {
        let goal = served.load(Ordering::SeqCst) + number;
        until("clients are served", || served.load(Ordering::SeqCst) >= goal).await;
    };
    more(20).await;
    let successor = Edge::new(Options::default()).unwrap();
    for (key, socket) in lab.edge.clone_listeners().unwrap() {
        successor.add_listener(key, socket).unwrap();
    }
    // It does not know yet what they are for, and leaves everybody to the other one.
    more(100).await;
    let plan = Arc::new(lab.plan.clone());
    successor.apply(StateIndex(1), plan, Arc::new(lab.certificates.clone()));
    more(20).await;
    assert_eq!(successor.status().borrow().problems.len(), 0);
    assert_eq!(lab.edge.drain(PATIENCE).await.cut, 0);
    let before = successor.counters()[&route_key("a.example", "/")].requests();
    more(20).await;
    let after = successor.counters()[&route_key("a.example", "/")].requests();
    assert!(after >= before + 16, "all come to the successor: {before}, {after}");
    stop.store(true, Ordering::SeqCst);
    while let Some(ended) = running.join_next().await {
        ended.expect("no client is refused");
    }
    // Both are closed with the last of them.
    assert_eq!(lab.edge.clone_listeners().unwrap().len(), 0);
    successor.drain(PATIENCE).await;
    assert!(TcpStream::connect(lab.clear).await.is_err());
    let late = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let key = *lab.plan.listeners.keys().next().unwrap();
    assert!(successor.add_listener(key, late).is_err(), "it is ending");
}

//! An instance whose machine is gone: nobody closes its connections, and nobody answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::instances::{address, full, http1, saying};
use crate::lab::{Lab, PORT};
use crate::wire::{get, read_head};

/// A socket that few can wait in.
fn short_queue() -> (Ipv4Addr, TcpListener) {
    let address = address();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, PORT)).into()).unwrap();
    socket.listen(0).unwrap();
    socket.set_nonblocking(true).unwrap();
    (address, TcpListener::from_std(socket.into()).unwrap())
}

/// R-EDGE-1: a connection that was kept leads to a machine that is gone. The request is sent to another instance.
#[tokio::test]
async fn a_request_to_a_machine_that_is_gone_is_repeated() {
    let (gone, listener) = short_queue();
    let two = saying("two");
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[gone]);
    lab.apply();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none").await.unwrap();
        // From here on packets to its address are lost: nobody takes connections, and no more can wait.
        let mut waiting = Vec::new();
        let connect = || timeout(Duration::from_millis(100), TcpStream::connect((gone, PORT)));
        while let Ok(connected) = connect().await {
            waiting.push(connected.unwrap());
        }
        let asked = read_head(&mut stream).await;
        (asked, listener, stream, waiting)
    });
    assert_eq!(get(&lab, "a.example", "/").await.text(), "one");
    lab.ready(&[gone, two.address]);
    lab.apply();
    for _ in 0..100 {
        assert_eq!(get(&lab, "a.example", "/").await.text(), "two");
        if serving.is_finished() {
            break;
        }
    }
    let asked = serving.await.unwrap().0;
    assert!(asked.is_some_and(|head| head.starts_with("GET / ")), "it was asked first");
}

/// One that takes its time is waited for.
#[tokio::test]
async fn a_request_to_an_instance_that_is_slow_is_not_repeated() {
    let asked = Arc::new(AtomicUsize::new(0));
    let slow = http1({
        let asked = Arc::clone(&asked);
        move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            async {
                sleep(Duration::from_millis(3500)).await;
                full("slow")
            }
        }
    });
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[slow.address]);
    lab.apply();
    assert_eq!(get(&lab, "a.example", "/").await.text(), "slow");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

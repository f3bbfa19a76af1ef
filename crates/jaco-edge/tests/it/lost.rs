//! An instance whose machine is gone: nobody closes its connections, and nobody answers.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jaco_types::route::RouteProtocol;
use socket2::{Domain, Socket, Type};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::forwarding::upstream;
use crate::instances::{address, full, http1, http2, saying};
use crate::lab::{Lab, PATIENCE, PORT};
use crate::wire::{ask, get, read_head};

/// A socket that few can wait in.
fn short_queue() -> (Ipv4Addr, TcpListener) {
    let address = address();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, PORT)).into()).unwrap();
    socket.listen(0).unwrap();
    socket.set_nonblocking(true).unwrap();
    (address, TcpListener::from_std(socket.into()).unwrap())
}

/// From here on packets to the address are lost: nobody takes connections, and no more can wait.
async fn fill_queue(gone: Ipv4Addr) -> Vec<TcpStream> {
    let mut waiting = Vec::new();
    let connect = || timeout(Duration::from_millis(100), TcpStream::connect((gone, PORT)));
    while let Ok(connected) = connect().await {
        waiting.push(connected.unwrap());
    }
    waiting
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
        let waiting = fill_queue(gone).await;
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

/// R-EDGE-1: calls share a connection to a machine that is gone. One that cannot be repeated is not sent there once
/// nothing was heard for a second.
#[tokio::test]
async fn calls_do_not_follow_each_other_to_a_machine_that_is_gone() {
    let (gone, listener) = short_queue();
    let two = http2(|_| async { full("two") });
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| {
        upstream(route, |to| to.protocol = RouteProtocol::H2c);
    });
    lab.ready(&[gone]);
    lab.apply();
    let (end, ended) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service_fn(|_| async { Ok::<_, Infallible>(full("one")) });
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        // Who does not look at it any more does not close it.
        let mut connection = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            ended = &mut connection => panic!("the edge has closed it: {ended:?}"),
            ended = pin!(ended) => ended.unwrap(),
        }
        (fill_queue(gone).await, listener, connection)
    });
    let call = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(ask(&mut lab.connect().await, call).await.text(), "one");
    end.send(()).unwrap();
    let gone_for_good = serving.await.unwrap();
    lab.ready(&[gone, two.address]);
    lab.apply();
    sleep(Duration::from_millis(1100)).await;
    for _ in 0..20 {
        let reply = timeout(PATIENCE, async { ask(&mut lab.connect().await, call).await }).await;
        assert_eq!(reply.expect("it is answered").text(), "two");
    }
    // Each time that the other one is tried once more may take longer than a second.
    assert!(two.connections() < 10, "{} connections", two.connections());
    drop(gone_for_good);
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

//! Published ports: TCP and UDP as they are.

use std::net::SocketAddr;
use std::time::Duration;

use jaco_dataplane::edge::{Listener, ProxyProtocol};
use jaco_edge::wire::proxy::{Preamble, read as read_preamble};
use jaco_edge::{Limits, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinHandle;

use crate::instances::{address, raw, silent};
use crate::lab::{Lab, PATIENCE, PORT, forwarding, instance};
use crate::wire::is_closed;

async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let read = stream.read_to_end(&mut all);
    tokio::time::timeout(PATIENCE, read).await.expect("the other end closes").unwrap();
    all
}

#[tokio::test]
async fn each_direction_of_a_connection_ends_by_itself() {
    let counting = raw(|mut stream, _| async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        stream.write_all(format!("{} bytes", all.len()).as_bytes()).await.unwrap();
    });
    let mut lab = Lab::new();
    let port = lab.listen(5000, Listener::Forward(forwarding(ProxyProtocol::Off)));
    lab.ready(&[address(), counting.address, address()]);
    lab.apply();
    for size in [0, 1, 1_000_000] {
        let mut client = TcpStream::connect(port).await.unwrap();
        client.write_all(&vec![b'x'; size]).await.unwrap();
        client.shutdown().await.unwrap();
        let answer = String::from_utf8(read_all(&mut client).await).unwrap();
        assert_eq!(answer, format!("{size} bytes"));
    }
    lab.ready(&[address()]);
    lab.apply();
    let mut nobody = TcpStream::connect(port).await.unwrap();
    assert!(is_closed(&mut nobody, PATIENCE).await);
    lab.plan.listeners.clear();
    lab.apply();
    let mut unknown = TcpStream::connect(port).await.unwrap();
    assert!(is_closed(&mut unknown, PATIENCE).await, "a port without plan serves nobody");
}

/// R-EDGE-1: a connection waits for the only instance there is while that does not answer, as behind a router that is being replaced.
#[tokio::test]
async fn an_instance_that_does_not_answer_is_waited_for() {
    let silent = silent().await;
    let mut lab = Lab::new();
    let port = lab.listen(5000, Listener::Forward(forwarding(ProxyProtocol::Off)));
    lab.ready(&[silent.address]);
    lab.apply();
    let mut client = TcpStream::connect(port).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let _server = silent.answering("hello");
    let mut answer = [0; 5];
    let read = client.read_exact(&mut answer);
    tokio::time::timeout(PATIENCE, read).await.expect("it is answered").unwrap();
    assert_eq!(&answer, b"hello");
}

#[tokio::test]
async fn an_instance_is_told_who_the_client_is() {
    let (sender, mut received) = tokio::sync::mpsc::channel(1);
    let one = raw(move |mut stream, _| {
        let sender = sender.clone();
        async move {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            sender.send(all).await.unwrap();
        }
    });
    let mut lab = Lab::new();
    let port = lab.listen(5000, Listener::Forward(forwarding(ProxyProtocol::V2)));
    lab.ready(&[one.address]);
    lab.apply();
    let mut client = TcpStream::connect(port).await.unwrap();
    let own = client.local_addr().unwrap();
    client.write_all(b"hello").await.unwrap();
    client.shutdown().await.unwrap();
    let all = tokio::time::timeout(PATIENCE, received.recv()).await.unwrap().unwrap();
    let Preamble::Header { length, client } = read_preamble(&all) else { panic!("no header") };
    assert_eq!((client, &all[length..]), (Some(own), &b"hello"[..]));
}

#[tokio::test]
async fn a_connection_keeps_its_instance_busy_within_its_time() {
    let echo = || {
        raw(|mut stream, _| async move {
            let (mut reader, mut writer) = stream.split();
            let _ended = tokio::io::copy(&mut reader, &mut writer).await;
        })
    };
    let (one, two) = (echo(), echo());
    let mut lab = Lab::new();
    let port = lab.listen(5000, Listener::Forward(forwarding(ProxyProtocol::Off)));
    let mut say = [0; 2];
    lab.instances(PATIENCE, &[(1, one.address)], &[]);
    lab.apply();
    let mut client = TcpStream::connect(port).await.unwrap();
    client.write_all(b"hi").await.unwrap();
    client.read_exact(&mut say).await.unwrap();
    lab.instances(PATIENCE, &[(2, two.address)], &[(1, one.address)]);
    lab.apply();
    assert_eq!(lab.status().busy, [instance(1)].into());
    client.write_all(b"hi").await.unwrap();
    client.read_exact(&mut say).await.unwrap();
    drop(client);
    lab.wait_for(|status| status.busy.is_empty()).await;

    let mut client = TcpStream::connect(port).await.unwrap();
    client.write_all(b"hi").await.unwrap();
    client.read_exact(&mut say).await.unwrap();
    assert_eq!((one.connections(), two.connections()), (1, 1));
    lab.instances(Duration::from_millis(100), &[], &[(2, two.address)]);
    lab.apply();
    lab.wait_for(|status| status.busy.is_empty()).await;
    assert!(is_closed(&mut client, PATIENCE).await);
}

/// An instance that says its number before each datagram that it sends back.
struct Echo {
    address: std::net::Ipv4Addr,
    task: JoinHandle<()>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn udp_echo(number: u8) -> Echo {
    let address = address();
    let socket = UdpSocket::bind((address, PORT)).await.unwrap();
    let task = tokio::spawn(async move {
        let mut datagram = [0; 2048];
        loop {
            let (length, client) = socket.recv_from(&mut datagram).await.unwrap();
            let answer = [&[number], &datagram[..length]].concat();
            socket.send_to(&answer, client).await.unwrap();
        }
    });
    Echo { address, task }
}

/// Sends a datagram and gives the answer; nothing, if there is none within the time.
async fn exchange(client: &UdpSocket, port: SocketAddr, bytes: &[u8], limit: Duration) -> Vec<u8> {
    client.send_to(bytes, port).await.unwrap();
    let mut datagram = [0; 2048];
    match tokio::time::timeout(limit, client.recv_from(&mut datagram)).await {
        Ok(received) => {
            let (length, from) = received.unwrap();
            assert_eq!(from, port, "the answer comes from the published port");
            datagram[..length].to_vec()
        }
        Err(_) => Vec::new(),
    }
}

#[tokio::test]
async fn datagrams_of_a_client_stay_with_an_instance_and_move_when_it_leaves() {
    let (one, two) = (udp_echo(1).await, udp_echo(2).await);
    let addresses = [(1, one.address), (2, two.address)];
    let mut lab = Lab::new();
    let port = lab.listen_udp(5000, forwarding(ProxyProtocol::Off));
    lab.instances(PATIENCE, &addresses, &[]);
    lab.apply();
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let first = exchange(&client, port, b"a", PATIENCE).await;
    for _ in 0..10 {
        assert_eq!(exchange(&client, port, b"a", PATIENCE).await, first);
    }
    let (leaves, stays) = if first[0] == 1 { (0, 1) } else { (1, 0) };
    lab.instances(PATIENCE, &[addresses[stays]], &[addresses[leaves]]);
    lab.apply();
    assert_eq!(lab.status().busy, [].into(), "datagrams keep nobody busy");
    let moved = exchange(&client, port, b"b", PATIENCE).await;
    assert_eq!(moved, [u8::try_from(stays + 1).unwrap(), b'b']);
    // It is gone without a word: the client's next datagrams find the other one.
    lab.instances(PATIENCE, &addresses, &[]);
    lab.apply();
    let (gone, left) = if stays == 0 { (one, two) } else { (two, one) };
    drop(gone);
    let found = async {
        while exchange(&client, port, b"c", Duration::from_millis(50)).await.is_empty() {}
    };
    tokio::time::timeout(PATIENCE, found).await.expect("the session moves");
    drop(left);
}

/// A host has several addresses, and the socket of a published port is bound to none of them: clients drop an answer from
/// another address than they asked.
#[tokio::test]
async fn datagrams_are_answered_from_the_address_that_was_asked() {
    let one = udp_echo(1).await;
    for (bound, asked) in [
        ("0.0.0.0:0", &["127.0.0.2", "127.0.0.3", "127.0.0.1"][..]),
        ("[::]:0", &["127.0.0.2", "127.0.0.3", "::1"]),
    ] {
        let mut lab = Lab::new();
        let bound = lab.listen_udp_at(bound.parse().unwrap(), 5000, forwarding(ProxyProtocol::V2));
        lab.ready(&[one.address]);
        lab.apply();
        // One socket asks all of them by IPv4: sessions are told apart by the address, too.
        let v4 = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        let v6 = UdpSocket::bind("[::1]:0").await.unwrap();
        for address in asked.iter().chain(asked) {
            let port = SocketAddr::new(address.parse().unwrap(), bound.port());
            let client = if port.is_ipv4() { &v4 } else { &v6 };
            let answer = exchange(client, port, b"hello", PATIENCE).await;
            let Preamble::Header { length, .. } = read_preamble(&answer[1..]) else {
                panic!("no header from {port}")
            };
            assert_eq!(&answer[1 + length..], b"hello");
        }
    }
}

#[tokio::test]
async fn datagrams_say_who_sent_them_and_sessions_are_bounded() {
    let one = udp_echo(1).await;
    let limits = Limits {
        udp_sessions_per_source_max: 2,
        udp_idle: Duration::from_millis(200),
        ..Limits::default()
    };
    let mut lab = Lab::with(Options { limits, ..Options::default() });
    let port = lab.listen_udp(5000, forwarding(ProxyProtocol::V2));
    lab.ready(&[one.address]);
    lab.apply();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    }
    for client in &clients[..2] {
        let answer = exchange(client, port, b"hello", PATIENCE).await;
        let Preamble::Header { length, client: named } = read_preamble(&answer[1..]) else {
            panic!("no header")
        };
        assert_eq!(named, Some(client.local_addr().unwrap()));
        assert_eq!(&answer[1 + length..], b"hello");
    }
    // The third has no place until another is forgotten.
    let began = std::time::Instant::now();
    while exchange(&clients[2], port, b"hello", Duration::from_millis(20)).await.is_empty() {
        assert!(began.elapsed() < PATIENCE);
    }
    assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
}

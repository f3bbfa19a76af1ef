//! What strangers can make the accept loop do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use jaco_pki::listener::{self, Options, Wiring};
use jaco_pki::{
    AnonymousLimits, CertificateStore, Connections, Dialer, HandshakeReason, Loopback,
    PeerIdentity, SourceLimits, TlsListener,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use jaco_types::NodeId;

use crate::support::{EchoServer, OURS, authority, echoes, store, trust, within};

#[tokio::test]
async fn stuck_handshakes_time_out() {
    let ca = authority(OURS);
    let options = Options { handshake_timeout: Duration::from_millis(100), ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(server.next_failure().await, HandshakeReason::Timeout);
    assert_eq!(within(silent.read(&mut [0; 1])).await.unwrap(), 0, "the socket was closed");

    // The first bytes of a hello that never ends.
    let mut stuck = TcpStream::connect(server.address).await.unwrap();
    stuck.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).await.unwrap();
    assert_eq!(server.next_failure().await, HandshakeReason::Timeout);
}

#[tokio::test]
async fn garbage_is_refused_and_the_listener_continues() {
    let ca = authority(OURS);
    let mut server = EchoServer::start(store(&ca, 1)).await;
    for garbage in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), b"PRI * HTTP/2.0\r\n\r\n", &[0; 64]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let reason = server.next_failure().await;
        assert_eq!(reason, HandshakeReason::NotTls, "{garbage:?}");
    }
    let mut connection =
        Dialer::operator(trust(&ca)).unwrap().connect(server.address).await.unwrap();
    assert!(echoes(&mut connection).await);
}

/// Health checks connect and hang up; they must not get their source blocked.
#[tokio::test]
async fn connection_without_data_is_no_failure() {
    let ca = authority(OURS);
    let failures =
        SourceLimits { burst: 1, loopback: Loopback::Counted, ..SourceLimits::default() };
    let options = Options { failures, ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    for _ in 0..5 {
        drop(TcpStream::connect(server.address).await.unwrap());
        assert_eq!(server.next_failure().await, HandshakeReason::NothingSent);
    }
    let mut connection =
        Dialer::operator(trust(&ca)).unwrap().connect(server.address).await.unwrap();
    assert!(echoes(&mut connection).await);
}

#[tokio::test]
async fn failing_source_is_blocked_and_reported_once() {
    let ca = authority(OURS);
    let failures = SourceLimits {
        burst: 2,
        forgiven_every: Duration::from_secs(3600),
        loopback: Loopback::Counted,
        ..SourceLimits::default()
    };
    let options = Options { failures, ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"garbage that is not tls").await.unwrap();
        assert_eq!(server.next_failure().await, HandshakeReason::NotTls);
    }
    assert_eq!(server.next_failure().await, HandshakeReason::SourceBlocked);
    // Even the right credentials are of no use now, and nothing more is reported.
    let operator = Dialer::operator(trust(&ca)).unwrap();
    for _ in 0..3 {
        operator.connect(server.address).await.unwrap_err();
    }
    assert!(server.failures.try_recv().is_err());
}

/// The first bytes of a hello that does not end.
const HALF_A_HELLO: [u8; 7] = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00];

/// A socket of one of several sources.
async fn socket(source: [u8; 4], server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((source, 0))).unwrap();
    socket.connect(server).await.unwrap()
}

/// Waits until a socket is closed, with an answer or without one.
async fn closed(socket: &mut TcpStream) {
    within(socket.read_to_end(&mut Vec::new())).await.ok();
}

/// The first message of a handshake.
async fn hello(dialer: &Dialer) -> Vec<u8> {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (dialer, address) = (dialer.clone(), nobody.local_addr().unwrap());
    let dialing = tokio::spawn(async move { dialer.connect(address).await.map(drop) });
    let (mut socket, _) = nobody.accept().await.unwrap();
    let mut hello = vec![0; 1 << 14];
    let length = within(socket.read(&mut hello)).await.unwrap();
    dialing.abort();
    hello.truncate(length);
    hello
}

/// A socket with a complete hello, whose answer is there.
async fn greeted(server: &EchoServer, hello: &[u8], source: [u8; 4]) -> TcpStream {
    let mut socket = socket(source, server.address).await;
    socket.write_all(hello).await.unwrap();
    within(socket.peek(&mut [0])).await.unwrap();
    socket
}

/// R-FAULT-3: handshakes that are not gone on with make room for the next one of the same source, at once.
#[tokio::test]
async fn one_source_cannot_take_every_handshake() {
    let ca = authority(OURS);
    let handshake_grace = Duration::from_secs(3600);
    let options = Options { handshakes_per_source_max: 2, handshake_grace, ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    let second = TcpStream::connect(server.address).await.unwrap();
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let mut third = within(operator.connect(server.address)).await.unwrap();
    assert!(echoes(&mut third).await, "the newest is let in");
    assert_eq!(server.next_failure().await, HandshakeReason::TooManyAtOnce);
    closed(&mut first).await;
    drop(second);
}

/// R-FAULT-3: a stranger whose handshake made room for another one learns it a second later, so that one who connects again at
/// once does so once a second. A source that a credential came from is told at once.
#[tokio::test]
async fn strangers_that_are_refused_wait_for_the_end() {
    let ca = authority(OURS);
    let options = Options { handshakes_per_source_max: 1, ..Options::default() };
    let server = EchoServer::with_options(store(&ca, 1), options).await;
    let refused = async || {
        let mut first = TcpStream::connect(server.address).await.unwrap();
        let begun = Instant::now();
        let _second = TcpStream::connect(server.address).await.unwrap();
        closed(&mut first).await;
        begun.elapsed()
    };
    let stranger = refused().await;
    assert!(stranger >= Duration::from_millis(900), "{stranger:?}");
    let peer = Dialer::peer(store(&ca, 2), NodeId(1));
    let mut peer = within(peer.connect(server.address)).await.unwrap();
    assert!(echoes(&mut peer).await);
    let known = refused().await;
    assert!(known < Duration::from_millis(500), "{known:?}");
}

/// R-FAULT-3: handshakes of a stranger's address are answered at a pace, however many it begins; others wait for none of them.
#[tokio::test(flavor = "multi_thread")]
async fn handshakes_of_a_stranger_are_paced() {
    const FLOOD: usize = 32;
    let ca = authority(OURS);
    let server = EchoServer::with_options(store(&ca, 1), Options::default()).await;
    let (address, done) = (server.address, Arc::new(AtomicUsize::new(0)));
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let mut flood = JoinSet::new();
    for _ in 0..FLOOD {
        let (operator, done) = (operator.clone(), Arc::clone(&done));
        flood.spawn(async move {
            loop {
                let socket = socket([127, 0, 0, 2], address).await;
                if operator.over(socket).await.is_ok() {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let other = socket([127, 0, 0, 3], address).await;
        let asked = Instant::now();
        let mut other = within(operator.over(other)).await.unwrap();
        assert!(echoes(&mut other).await);
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    flood.shutdown().await;
    // 64 at once, and 20 a second.
    let seconds = begun.elapsed().as_secs_f64();
    let done = f64::from(u32::try_from(done.load(Ordering::Relaxed)).unwrap());
    assert!((70.0..=66.0 + 20.0 * seconds).contains(&done), "{done} in {seconds} s");
}

/// Few handshakes compute at a time, but that is nobody's failure: all the others wait for their turn.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_turn_is_no_failure() {
    let ca = authority(OURS);
    let options = Options { computing_max: 1, ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let dials = (0..64).map(|_| {
        let (operator, address) = (operator.clone(), server.address);
        tokio::spawn(async move { operator.connect(address).await.map(drop) })
    });
    for dial in dials.collect::<Vec<_>>() {
        within(dial).await.unwrap().unwrap();
    }
    assert!(server.failures.try_recv().is_err());
}

/// R-FAULT-3: strangers that stay silent make room for who comes after them, and nodes are never concerned.
#[tokio::test]
async fn silent_strangers_keep_nobody_out() {
    let ca = authority(OURS);
    for (total, per_source) in [(1, 9), (9, 1)] {
        let credential_timeout = Duration::from_secs(3600);
        let anonymous = AnonymousLimits { total, per_source, credential_timeout };
        let options = Options { anonymous, ..Options::default() };
        let mut server = EchoServer::with_options(store(&ca, 1), options).await;
        let operator = Dialer::operator(trust(&ca)).unwrap();
        let mut first = operator.connect(server.address).await.unwrap();
        assert!(echoes(&mut first).await);
        assert_eq!(server.next_peer().await, PeerIdentity::None);

        let mut second = operator.connect(server.address).await.unwrap();
        assert!(echoes(&mut second).await, "the newcomer is let in");
        assert_eq!(server.next_peer().await, PeerIdentity::None);
        assert!(!echoes(&mut first).await, "the oldest one made room");

        let peer = Dialer::peer(store(&ca, 2), NodeId(1));
        let mut member = peer.connect(server.address).await.unwrap();
        assert!(echoes(&mut member).await);
        assert_eq!(server.next_peer().await.node(), Some(NodeId(2)));
        for _ in 0..4 {
            let mut stranger = operator.connect(server.address).await.unwrap();
            assert!(echoes(&mut stranger).await);
        }
        assert!(echoes(&mut member).await, "a member does not make room");
        assert!(server.failures.try_recv().is_err(), "nobody is charged with it");
    }
}

/// R-FAULT-3: a connection that shows no credential ends by itself; a member's does not.
#[tokio::test]
async fn a_connection_without_credential_is_closed() {
    let ca = authority(OURS);
    let credential_timeout = Duration::from_millis(200);
    let anonymous = AnonymousLimits { credential_timeout, ..AnonymousLimits::default() };
    let options = Options { anonymous, ..Options::default() };
    let server = EchoServer::with_options(store(&ca, 1), options).await;
    let peer = Dialer::peer(store(&ca, 2), NodeId(1));
    let mut member = peer.connect(server.address).await.unwrap();
    assert!(echoes(&mut member).await);
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let mut stranger = operator.connect(server.address).await.unwrap();
    assert!(matches!(within(stranger.read(&mut [0; 1])).await, Ok(0) | Err(_)), "it was closed");
    assert!(echoes(&mut member).await);
}

async fn listener_of(store: Arc<CertificateStore>, options: Options) -> TlsListener {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (failures, _) = mpsc::channel(1);
    let wiring = Wiring { connections: Connections::new(&store), store, failures };
    TlsListener::start(tcp, wiring, options).unwrap()
}

/// R-FAULT-3: a connection that ends before anything was said on it never gets to the server of requests.
#[tokio::test]
async fn a_silent_connection_does_not_begin() {
    let ca = authority(OURS);
    let credential_timeout = Duration::from_millis(100);
    let anonymous = AnonymousLimits { credential_timeout, ..AnonymousLimits::default() };
    let mut listener =
        listener_of(store(&ca, 1), Options { anonymous, ..Options::default() }).await;
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let _silent = operator.connect(listener.local_addr()).await.unwrap();
    let mut cut_off = within(listener.accept()).await.unwrap();
    within(cut_off.begun()).await.unwrap_err();
    let left = operator.connect(listener.local_addr()).await.unwrap();
    let mut ended = within(listener.accept()).await.unwrap();
    drop(left);
    within(ended.begun()).await.unwrap_err();
    let mut greeting = operator.connect(listener.local_addr()).await.unwrap();
    greeting.write_all(b"hello").await.unwrap();
    greeting.flush().await.unwrap();
    let mut begun = within(listener.accept()).await.unwrap();
    within(begun.begun()).await.unwrap();
    let mut said = [0; 5];
    within(begun.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"hello");
}

/// A connection that was moved is read and written although the runtime that accepted it does nothing else any more.
#[test]
fn a_moved_connection_does_not_need_the_runtime_that_accepted_it() {
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (accepting, own) = (runtime(), runtime());
    let ca = authority(OURS);
    let mut listener = accepting.block_on(listener_of(store(&ca, 1), Options::default()));
    let peer = Dialer::peer(store(&ca, 2), NodeId(1));
    let mut peer = own.block_on(peer.connect(listener.local_addr())).unwrap();
    let mut connection = accepting.block_on(within(listener.accept())).unwrap();
    let (busy, is_busy) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    accepting.spawn(async move {
        busy.send(()).unwrap();
        released.recv().ok();
    });
    is_busy.recv().unwrap();
    own.block_on(async {
        connection.move_to_this_runtime().unwrap();
        let (mut heard, mut answer) = ([0; 5], [0; 3]);
        let saying = async {
            // The reader waits for it by then.
            sleep(Duration::from_millis(50)).await;
            peer.write_all(b"hello").await?;
            peer.flush().await
        };
        let (read, said) = within(async { join!(connection.read_exact(&mut heard), saying) }).await;
        assert_eq!((read.unwrap(), said.unwrap(), &heard), (5, (), b"hello"));
        connection.write_all(b"yes").await.unwrap();
        connection.flush().await.unwrap();
        within(peer.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"yes");
    });
    drop(release);
}

/// R-FAULT-3: of one who shows no credential no more is read at once than a join request may have, and a little in each
/// second; once the credential is there, all of it.
#[tokio::test]
async fn a_stranger_is_read_slowly_until_it_shows_a_credential() {
    const FLOOD_BYTES: usize = 1 << 20;
    const JOIN_REQUEST_BYTES: usize = 64 << 10;
    let ca = authority(OURS);
    let mut listener = listener_of(store(&ca, 1), Options::default()).await;
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let mut stranger = operator.connect(listener.local_addr()).await.unwrap();
    let flood = tokio::spawn(async move {
        stranger.write_all(&vec![7; FLOOD_BYTES]).await?;
        stranger.flush().await?;
        std::io::Result::Ok(stranger)
    });
    let mut connection = within(listener.accept()).await.unwrap();
    let (mut read, mut buffer) = (0, vec![0; 4 << 10]);
    let until = Instant::now() + Duration::from_secs(1);
    while let Ok(more) = timeout_at(until, connection.read(&mut buffer)).await {
        read += more.unwrap();
    }
    assert!((JOIN_REQUEST_BYTES..2 * JOIN_REQUEST_BYTES).contains(&read), "{read}");
    connection.standing().prove();
    within(connection.read_exact(&mut vec![0; FLOOD_BYTES - read])).await.unwrap();
    within(flood).await.unwrap().unwrap();
}

/// R-FAULT-3: half-open handshakes of many sources do not hold up a newcomer, however young they are: those of the
/// source with most of them are ended.
#[tokio::test]
async fn half_open_handshakes_keep_nobody_out() {
    let ca = authority(OURS);
    let hour = Duration::from_secs(3600);
    let options = Options {
        handshakes_max: 16,
        handshakes_per_source_max: 8,
        handshake_timeout: hour,
        handshake_grace: hour,
        ..Options::default()
    };
    let server = EchoServer::with_options(store(&ca, 1), options).await;
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let hello = hello(&operator).await;
    let mut open = Vec::new();
    for source in 2..6 {
        for _ in 0..4 {
            open.push(greeted(&server, &hello, [127, 0, 0, source]).await);
        }
    }
    let peer = Dialer::peer(store(&ca, 2), NodeId(1));
    assert!(echoes(&mut within(peer.connect(server.address)).await.unwrap()).await);
    let stranger = socket([127, 0, 0, 99], server.address).await;
    assert!(echoes(&mut within(operator.over(stranger)).await.unwrap()).await);
    open.push(greeted(&server, &hello, [127, 0, 0, 2]).await);
    let mut refused = socket([127, 0, 0, 5], server.address).await;
    refused.write_all(&HALF_A_HELLO).await.unwrap();
    // The places of others are not for one of those with most.
    closed(&mut refused).await;
    drop(open);
}

/// R-FAULT-3: who floods the node from several addresses, as fast as it can, holds up neither a member nor a stranger
/// of another address; and not even one of an address that floods for long, if it tries again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flood_of_sockets_holds_up_nobody() {
    const FLOODED: u64 = 5_000;
    let ca = authority(OURS);
    let hour = Duration::from_secs(3600);
    let options = Options {
        handshakes_max: 128,
        handshakes_per_source_max: 16,
        handshake_timeout: hour,
        handshake_grace: hour,
        // Or it would not be as fast as it can.
        tarpit: 0,
        ..Options::default()
    };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    let address = server.address;
    let sent = Arc::new(AtomicU64::new(0));
    let mut flood = JoinSet::new();
    for number in 0..=u8::MAX {
        let source = [127, 0, 0, 2 + number % 8];
        let sent = Arc::clone(&sent);
        flood.spawn(async move {
            loop {
                let mut socket = socket(source, address).await;
                socket.write_all(&HALF_A_HELLO).await.ok();
                sent.fetch_add(1, Ordering::Relaxed);
                socket.read_to_end(&mut Vec::new()).await.ok();
            }
        });
    }
    let peer = Dialer::peer(store(&ca, 2), NodeId(1));
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let mut let_in = 0;
    while let_in < 20 || sent.load(Ordering::Relaxed) < FLOODED {
        assert!(echoes(&mut within(peer.connect(address)).await.unwrap()).await);
        let stranger = socket([127, 0, 0, 99], address).await;
        let mut stranger = within(operator.over(stranger)).await.unwrap();
        assert!(echoes(&mut stranger).await);
        let beside = async {
            loop {
                let beside = socket([127, 0, 0, 2], address).await;
                if let Ok(mut beside) = operator.over(beside).await
                    && echoes(&mut beside).await
                {
                    break;
                }
            }
        };
        within(beside).await;
        let_in += 1;
        assert!(let_in < 1_000, "there is no flood: the test shows nothing");
    }
    flood.shutdown().await;
    assert_eq!(server.next_failure().await, HandshakeReason::TooManyAtOnce);
}

/// R-FAULT-3: sockets that come in one burst are kept until they are accepted. The kernel drops the first packet of those
/// it has no room for, and they connect a second later, or more.
#[tokio::test]
async fn bursts_of_sockets_are_kept() {
    const BURST: usize = 2_000;
    let most: usize =
        std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    assert!(most >= BURST, "this machine keeps fewer itself");
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let busy = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = busy.local_addr().unwrap();
    let connect = async {
        let mut kept = Vec::new();
        for _ in 0..BURST {
            kept.push(TcpStream::connect(address).await.unwrap());
        }
        kept
    };
    assert_eq!(within(connect).await.len(), BURST);
}

/// R-FAULT-3: a source that is blocked takes no place, not even for as long as it takes to refuse it.
#[tokio::test]
async fn blocked_sources_take_no_places() {
    let ca = authority(OURS);
    let hour = Duration::from_secs(3600);
    let failures = SourceLimits {
        burst: 0,
        forgiven_every: hour,
        loopback: Loopback::Counted,
        ..SourceLimits::default()
    };
    let options = Options {
        handshakes_max: 1,
        handshake_timeout: hour,
        handshake_grace: hour,
        failures,
        ..Options::default()
    };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    let mut garbage = socket([127, 0, 0, 2], server.address).await;
    garbage.write_all(b"garbage that is not tls").await.unwrap();
    assert_eq!(server.next_failure().await, HandshakeReason::NotTls);
    assert_eq!(server.next_failure().await, HandshakeReason::SourceBlocked);
    // It holds the only place.
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let honest = greeted(&server, &hello(&operator).await, [127, 0, 0, 3]).await;
    for _ in 0..10 {
        closed(&mut socket([127, 0, 0, 2], server.address).await).await;
    }
    assert!(server.failures.try_recv().is_err(), "nothing was ended for it");
    drop(honest);
}

/// A flood may fill the audit's channel, but not go unnoticed: everything is told or counted.
#[tokio::test]
async fn failures_that_found_the_channel_full_are_counted() {
    let ca = authority(OURS);
    let mut server = EchoServer::with_room_for(1, store(&ca, 1), Options::default()).await;
    let address = server.address;
    let fail = || async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"garbage that is not tls").await.unwrap();
        within(stream.read_to_end(&mut Vec::new())).await.ok();
    };
    for _ in 0..4 {
        fail().await;
    }
    let (mut sent, mut told) = (4, 0);
    loop {
        let failure = within(server.failures.recv()).await.unwrap();
        told += 1 + failure.unreported;
        assert!(told <= sent, "nothing is told twice");
        assert!(sent < 50, "only {told} of {sent} were told");
        if told == sent {
            break;
        }
        // One more, to carry the count.
        fail().await;
        sent += 1;
    }
}

//! What identity costs: `cargo run --release -p jaco-pki --example handshake`.
//!
//! Measures, on loopback and one core's worth of work: making a key with its request and signing it;
//! dialling a peer with mutual TLS until one byte has come back; the same byte on an open connection.
#![allow(clippy::print_stdout, reason = "an example's output is its purpose")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jaco_pki::ca::NODE_LIFE;
use jaco_pki::listener::{Options, Wiring};
use jaco_pki::{
    CertificateAuthority, CertificateStore, Connections, Credentials, DialedConnection, Dialer,
    NodeCsr, NodeKey, TlsListener, TrustBundle,
};
use jaco_types::{ClusterId, NodeId, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const ROUNDS: usize = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = Timestamp(u64::try_from(since.as_millis())?);
    let cluster = ClusterId::new("0123456789abcdef0123456789abcdef")?;
    let ca = CertificateAuthority::create(&cluster, now)?;

    let mut samples = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let csr = NodeCsr::from_der(&NodeKey::generate().request())?;
        ca.sign(&csr, NodeId(3), NODE_LIFE, now)?;
        samples.push(start.elapsed());
    }
    print("key, request, verify, sign", samples);

    let address = serve_echo(store(&ca, 1, now)?).await?;
    let dialer = Dialer::peer(store(&ca, 2, now)?, NodeId(1));
    let mut samples = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut connection = dialer.connect(address).await?;
        echo(&mut connection).await?;
        samples.push(start.elapsed());
    }
    print("mutual tls dial and one echo", samples);

    let mut connection = dialer.connect(address).await?;
    let mut samples = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        echo(&mut connection).await?;
        samples.push(start.elapsed());
    }
    print("echo on the open connection", samples);
    Ok(())
}

fn store(
    ca: &CertificateAuthority,
    node: u64,
    now: Timestamp,
) -> Result<Arc<CertificateStore>, Box<dyn Error>> {
    let key = NodeKey::generate();
    let csr = NodeCsr::from_der(&key.request())?;
    let certificate = ca.sign(&csr, NodeId(node), NODE_LIFE, now)?;
    let trust = TrustBundle::from(ca.certificate().clone());
    Ok(CertificateStore::new(Credentials::new(key, certificate, trust, now)?)?)
}

async fn serve_echo(store: Arc<CertificateStore>) -> Result<std::net::SocketAddr, Box<dyn Error>> {
    let (failures, _) = mpsc::channel(1);
    let connections = Connections::new(&store);
    let wiring = Wiring { store, connections, failures };
    let tcp = TcpListener::bind("127.0.0.1:0").await?;
    let mut listener = TlsListener::start(tcp, wiring, Options::default())?;
    let address = listener.local_addr();
    tokio::spawn(async move {
        while let Some(mut connection) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(byte) = connection.read_u8().await {
                    connection.write_u8(byte).await?;
                    connection.flush().await?;
                }
                connection.shutdown().await
            });
        }
    });
    Ok(address)
}

async fn echo(connection: &mut DialedConnection) -> std::io::Result<()> {
    connection.write_u8(7).await?;
    connection.flush().await?;
    connection.read_u8().await.map(drop)
}

fn print(what: &str, mut samples: Vec<Duration>) {
    samples.sort_unstable();
    let at = |percent: usize| samples[(samples.len() - 1) * percent / 100];
    println!("{what:<30} p50 {:>8.1?}  p99 {:>8.1?}", at(50), at(99));
}

//! Pebble, and the name server that it asks, each as a process of its own on an own address of the loopback.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use jaco_acme::{Authority, Terms, TrustedRoots};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const HTTP_PORT: u16 = 5002;
pub(crate) const TLS_PORT: u16 = 5001;

const DIRECTORY_PORT: u16 = 14000;
const DNS_PORT: u16 = 8053;
const DNS_CONTROL_PORT: u16 = 8055;

/// An authority that can be stopped and started again; then it has forgotten everything.
pub(crate) struct Pebble {
    /// Where it is, and where every name leads that has no other address.
    pub(crate) address: Ipv4Addr,
    folder: TempDir,
    root: String,
    settings: Vec<(&'static str, &'static str)>,
    /// Ends with this.
    _names: Process,
    server: Option<Process>,
}

/// A process that ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended by itself is no concern here.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// An address that no other test of this machine has: the ports need not be chosen then.
pub(crate) fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | (high & 63), low, NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Pebble {
    /// One that issues for so many seconds, not started yet.
    pub(crate) async fn stopped(
        validity_secs: u64,
        settings: &[(&'static str, &'static str)],
    ) -> Self {
        let (address, folder) = (own_address(), tempfile::tempdir().unwrap());
        let root = write_identity(folder.path(), address);
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "{address}:{DIRECTORY_PORT}", "managementListenAddress": "",
            "certificate": "{0}/server.pem", "privateKey": "{0}/server.key",
            "httpPort": {HTTP_PORT}, "tlsPort": {TLS_PORT}, "ocspResponderURL": "",
            "externalAccountBindingRequired": false, "certificateValidityPeriod": {validity_secs}}}}}"#,
            folder.path().display()
        );
        std::fs::write(folder.path().join("pebble.json"), config).unwrap();
        let mut command = Command::new("pebble-challtestsrv");
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""]);
        command.args(["-defaultIPv4", &address.to_string()]);
        command.args(["-dns01", &format!("{address}:{DNS_PORT}")]);
        command.args(["-management", &format!("{address}:{DNS_CONTROL_PORT}")]);
        let names = Process::start(&mut command);
        answering(address, DNS_CONTROL_PORT).await;
        let mut settings = settings.to_vec();
        settings.push(("PEBBLE_VA_NOSLEEP", "1"));
        // Every order has its domain proven: the tests are about that.
        settings.push(("PEBBLE_AUTHZREUSE", "0"));
        Self { address, folder, root, settings, _names: names, server: None }
    }

    /// One that issues for 90 days and takes all nonces.
    pub(crate) async fn started() -> Self {
        let mut pebble = Self::stopped(90 * 24 * 60 * 60, &[("PEBBLE_WFE_NONCEREJECT", "0")]).await;
        pebble.start().await;
        pebble
    }

    /// Starts it without anything that it knew.
    pub(crate) async fn start(&mut self) {
        let mut command = Command::new("pebble");
        command.arg("-config").arg(self.folder.path().join("pebble.json"));
        command.arg("-dnsserver").arg(format!("{}:{DNS_PORT}", self.address));
        command.envs(self.settings.iter().copied());
        self.server = Some(Process::start(&mut command));
        answering(self.address, DIRECTORY_PORT).await;
    }

    pub(crate) fn stop(&mut self) {
        self.server = None;
    }

    /// What a cluster is told of it.
    pub(crate) fn authority(&self) -> Authority {
        Authority {
            directory: format!("https://{}:{DIRECTORY_PORT}/dir", self.address),
            contact: Some("mailto:operator@example.org".into()),
            terms: Terms::Agreed,
            roots: TrustedRoots::Pem(self.root.clone().into_bytes()),
            challenge: None,
        }
    }

    /// Has a name lead to an address.
    pub(crate) async fn point(&self, name: &str, to: Ipv4Addr) {
        let body = format!(r#"{{"host": "{name}", "addresses": ["{to}"]}}"#);
        let request = format!(
            "POST /add-a HTTP/1.1\r\nhost: names\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect((self.address, DNS_CONTROL_PORT)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.expect("Debian's package pebble is installed"))
    }
}

/// A root, which is returned, and a server's certificate by it.
fn write_identity(folder: &Path, address: Ipv4Addr) -> String {
    let root_key = KeyPair::generate().unwrap();
    let mut root = CertificateParams::new([]).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = root.self_signed(&root_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new([address.to_string()]).unwrap();
    let server = server.signed_by(&key, &Issuer::new(root, root_key)).unwrap();
    std::fs::write(folder.join("server.pem"), server.pem()).unwrap();
    std::fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
    pem
}

/// Waits until something listens: only a connection shows that.
async fn answering(address: Ipv4Addr, port: u16) {
    let listens = async {
        while TcpStream::connect((address, port)).await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, listens).await.expect("the process listens");
}

//! Debian's pebble, an ACME authority for tests, and the name server that it asks: processes that end with their owner.
//! Shared by the test programs that order certificates.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jaco_testkit::eventually_within;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(90);

const DIRECTORY_PORT: u16 = 14000;
const DNS_PORT: u16 = 8053;
const DNS_CONTROL_PORT: u16 = 8055;

/// An authority that can be stopped and started again; then it has forgotten everything.
#[derive(Debug)]
pub(crate) struct Pebble {
    /// Where it is, and where every name leads.
    address: Ipv4Addr,
    /// The process whose network namespace it is in; the test's own if absent.
    pub(crate) namespace: Option<u32>,
    folder: TempDir,
    environment: Vec<(&'static str, &'static str)>,
    names: Option<Process>,
    server: Option<Process>,
}

#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended by itself is no concern here.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Pebble {
    /// One that does not run yet, issues for so long, and asks at ports 80 and 443.
    pub(crate) fn new(
        address: Ipv4Addr,
        validity: Duration,
        environment: &[(&'static str, &'static str)],
    ) -> Self {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        write_identity(folder.path(), address);
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "{address}:{DIRECTORY_PORT}", "managementListenAddress": "",
            "certificate": "{0}/server.pem", "privateKey": "{0}/server.key",
            "httpPort": 80, "tlsPort": 443, "ocspResponderURL": "",
            "externalAccountBindingRequired": false, "certificateValidityPeriod": {1}}}}}"#,
            folder.path().display(),
            validity.as_secs()
        );
        fs::write(folder.path().join("pebble.json"), config).expect("it is written");
        let mut environment = environment.to_vec();
        environment.push(("PEBBLE_WFE_NONCEREJECT", "0"));
        // Every order has its domain proven.
        environment.push(("PEBBLE_AUTHZREUSE", "0"));
        Self { address, namespace: None, folder, environment, names: None, server: None }
    }

    /// Starts it without anything that it knew.
    pub(crate) async fn start(&mut self) {
        if self.names.is_none() {
            self.names = Some(self.name_server().await);
        }
        let mut command = self.command("pebble");
        command.arg("-config").arg(self.folder.path().join("pebble.json"));
        command.arg("-dnsserver").arg(format!("{}:{DNS_PORT}", self.address));
        command.envs(self.environment.iter().copied());
        let at = SocketAddrV4::new(self.address, DIRECTORY_PORT);
        self.server = Some(Process::listening(&mut command, at).await);
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        self.server = None;
    }

    async fn name_server(&self) -> Process {
        let address = self.address;
        let mut command = self.command("pebble-challtestsrv");
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""]);
        command.args(["-defaultIPv4", &address.to_string()]);
        command.args(["-dns01", &format!("{address}:{DNS_PORT}")]);
        command.args(["-management", &format!("{address}:{DNS_CONTROL_PORT}")]);
        Process::listening(&mut command, SocketAddrV4::new(address, DNS_CONTROL_PORT)).await
    }

    /// A program where it is, which says nothing.
    fn command(&self, program: &str) -> Command {
        let mut command = match self.namespace {
            None => Command::new(program),
            Some(pid) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/proc/{pid}/ns/net")).arg(program);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// What a daemon is told of it: lines of `jacod.yaml`.
    pub(crate) fn settings(&self) -> String {
        format!(
            "edge: {{acme: {{directory: 'https://{}:{DIRECTORY_PORT}/dir', agree_terms: true, \
             contact: operator@example.org, ca_file: {}}}}}\n",
            self.address,
            self.folder.path().join("root.pem").display()
        )
    }
}

impl Process {
    /// Starts one and waits until it listens, as its own network namespace shows.
    async fn listening(command: &mut Command, at: SocketAddrV4) -> Self {
        let started = Self(command.spawn().expect("Debian's package pebble is installed"));
        let table = format!("/proc/{}/net/tcp", started.0.id());
        eventually_within(PATIENCE, "the process listens", || async {
            let text = fs::read_to_string(&table).unwrap_or_default();
            if text.lines().any(|line| is_listener(line, at)) { Ok(()) } else { Err(at) }
        })
        .await;
        started
    }
}

/// Whether a line of `/proc/net/tcp` is a socket that listens there. The kernel prints the address as the machine's number.
fn is_listener(line: &str, at: SocketAddrV4) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    let (local, state) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
    let address = u32::from_ne_bytes(at.ip().octets());
    local == format!("{address:08X}:{:04X}", at.port()) && state == "0A"
}

/// A root, and a server's certificate by it.
fn write_identity(folder: &Path, address: Ipv4Addr) {
    let root_key = KeyPair::generate().expect("there are random numbers");
    let mut root = CertificateParams::new([]).expect("no name is no bad name");
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = root.self_signed(&root_key).expect("it can be signed").pem();
    let key = KeyPair::generate().expect("there are random numbers");
    let server = CertificateParams::new([address.to_string()]).expect("an address is a name");
    let server = server.signed_by(&key, &Issuer::new(root, root_key)).expect("it can be signed");
    let write = |name: &str, text: String| {
        fs::write(folder.join(name), text).expect("the folder can be written");
    };
    write("root.pem", pem);
    write("server.pem", server.pem());
    write("server.key", key.serialize_pem());
}

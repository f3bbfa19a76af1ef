//! Clients that take their time, with slowhttptest: a thousand at once, and an honest one beside them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jaco_testkit::engines::Machines;
use jaco_testkit::memory::resident;
use jaco_testkit::namespace::enter;
use jaco_testkit::ran;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::edged;
use crate::smuggling::nginx;

/// Connections of each kind of attack: all of them together are just below what one source may have.
const CONNECTIONS: u64 = 250;

/// The honest client has an address of its own: the edge counts connections by source.
const HONEST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 99);

/// How soon 99 of 100 honest requests are answered, and all of them.
const ANSWER_USUAL: Duration = Duration::from_secs(1);
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How much more memory a slow connection may cost, of any kind.
const BYTES_MAX: u64 = 128 * 1024;

/// A way to be slow, and after how many seconds the last of its connections must be closed: the bound of the edge, and some
/// seconds until all are made and the tool has seen it.
struct Attack {
    name: &'static str,
    flags: &'static [&'static str],
    path: &'static str,
    /// `None`: whoever takes something now and then may go on, at the price of its memory.
    over_after_secs: Option<u64>,
}

const ATTACKS: &[Attack] = &[
    // The head is never complete, and a field of it comes every 3 s: 10 s.
    Attack { name: "headers", flags: &["-H", "-i", "3"], path: "", over_after_secs: Some(10 + 10) },
    // Nothing comes of the body after its begin: 30 s.
    Attack { name: "body", flags: &["-B", "-i", "100"], path: "", over_after_secs: Some(30 + 10) },
    // A few bytes of 16 MiB are read every 5 s.
    Attack {
        name: "read",
        flags: &["-X", "-n", "5", "-z", "32", "-w", "512", "-y", "1024"],
        path: "large",
        over_after_secs: None,
    },
    // Thousands of ranges are asked for, as one field.
    Attack {
        name: "range",
        flags: &["-R", "-a", "1", "-b", "3000"],
        path: "large",
        over_after_secs: Some(40),
    },
];

/// A tool that runs.
struct Running {
    attack: &'static Attack,
    report: PathBuf,
    process: Child,
}

impl Running {
    fn start(machines: &Machines, folder: &Path, attack: &'static Attack) -> Self {
        let (report, hosts) = (folder.join(attack.name), folder.join("hosts"));
        let mut tool = machines.at_switch();
        // It has no way to name a host other than by its address.
        let known = "mount --bind \"$0\" /etc/hosts && exec slowhttptest \"$@\"";
        tool.args(["unshare", "--mount", "sh", "-c", known]).arg(hosts).args(attack.flags);
        tool.args(["-c", &CONNECTIONS.to_string(), "-r", "50", "-l", "45", "-p", "3", "-v", "1"]);
        tool.args(["-u", &format!("http://shop.example.com/{}", attack.path), "-g", "-o"]);
        let log = fs::File::create(folder.join(format!("{}.log", attack.name))).expect("written");
        let process = tool.arg(&report).stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
        Self { attack, report, process: process.spawn().expect("nsenter is there") }
    }

    /// Waits until the tool ends; says after how many seconds that was.
    fn end(mut self) -> Result<u64, String> {
        let ended = self.process.wait().expect("it ends");
        let Attack { name, over_after_secs, .. } = *self.attack;
        let table = fs::read_to_string(self.report.with_extension("csv")).unwrap_or_default();
        let said = fs::read_to_string(self.report.with_extension("log")).unwrap_or_default();
        let last = table.lines().last().and_then(|row| row.split(',').next()?.parse().ok());
        // The tool ends in its time, or as soon as it has no connection any more.
        let is_over = said.contains("No open connections left");
        let in_time =
            |seconds: &u64| over_after_secs.is_none_or(|bound| is_over && *seconds <= bound);
        match last.filter(in_time) {
            Some(seconds) => Ok(seconds),
            None => Err(format!("{name}: {ended}\n{table}\n{said}")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.process.kill().is_err();
        let _gone = self.process.wait().is_err();
    }
}

/// What the honest client has met.
#[derive(Debug, Default)]
struct Met {
    answers: usize,
    slowest: Duration,
    failures: Vec<String>,
    /// The most memory that the edge had, in bytes.
    memory: u64,
    /// How many answers took longer than usual.
    late: usize,
}

/// A client that asks and asks.
struct Honest {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Met>,
}

impl Honest {
    fn start(namespace: PathBuf, edge: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            enter(&namespace);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let mut met = Met::default();
            runtime.expect("there is a runtime").block_on(async {
                while !is_over.load(Ordering::Relaxed) {
                    met.memory = met.memory.max(resident(edge));
                    let begun = Instant::now();
                    match tokio::time::timeout(ANSWER_MAX, ask()).await {
                        Ok(Ok(())) => met.answers += 1,
                        Ok(Err(error)) => met.failures.push(error),
                        Err(_) => met.failures.push("no answer in time".to_owned()),
                    }
                    met.late += usize::from(begun.elapsed() > ANSWER_USUAL);
                    met.slowest = met.slowest.max(begun.elapsed());
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
            met
        });
        Self { stop, thread }
    }

    fn end(self) -> Met {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

/// Asks over a connection of its own.
async fn ask() -> Result<(), String> {
    let request =
        "GET / HTTP/1.1\r\nHost: shop.example.com\r\nConnection: close\r\nX-Id: me\r\n\r\n";
    let asked = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(IpAddr::V4(HONEST), 0))?;
        let mut stream = socket.connect(SocketAddr::new(edged::EDGE, 80)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let answer = asked.await.map_err(|error: std::io::Error| error.to_string())?;
    if answer.ends_with("seen <GET / HTTP/1.1> <me>\n") { Ok(()) } else { Err(answer) }
}

/// R-IN-3, R-EDGE-2: clients that say their head or body slowly, or ask for thousands of ranges, are closed within the bounds that are
/// documented. Meanwhile, and beside clients that take an answer slowly, an honest client is answered, and the edge has the memory
/// that a thousand connections are worth.
#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_hurt_nobody() {
    let machines = nginx::behind_an_edge().await;
    let address = format!("{HONEST}/24");
    ran(machines.at_switch().args(["ip", "address", "add", &address, "dev", "switch"]));
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let hosts = format!("127.0.0.1 localhost\n{} shop.example.com\n", edged::EDGE);
    fs::write(folder.path().join("hosts"), hosts).expect("written");
    let edge = edged::process(&machines);
    let before = resident(edge);
    let namespace = PathBuf::from(format!("/proc/{}/ns/net", machines.switch()));
    let honest = Honest::start(namespace, edge);
    let start = |attack| Running::start(&machines, folder.path(), attack);
    let running: Vec<_> = ATTACKS.iter().map(start).collect();
    let ended = tokio::task::spawn_blocking(|| running.into_iter().map(Running::end).collect());
    let ended: Vec<Result<u64, String>> = ended.await.expect("it does not panic");
    let met = honest.end();
    let more = met.memory.saturating_sub(before);
    println!("seconds until all were closed: {ended:?}");
    println!(
        "{} honest requests, the slowest took {:?}; the edge had {} KiB before and at most {} KiB more",
        met.answers,
        met.slowest,
        before / 1024,
        more / 1024
    );
    let faults: Vec<String> = ended.into_iter().filter_map(Result::err).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(met.failures, Vec::<String>::new(), "of {} honest requests", met.answers);
    assert!(met.answers > 100, "only {} honest requests", met.answers);
    assert!(met.late * 100 <= met.answers, "{} of {} took longer", met.late, met.answers);
    let connections = CONNECTIONS * ATTACKS.len() as u64;
    assert!(more <= connections * BYTES_MAX, "{more} bytes more for {connections} connections");
}

//! The edge as a process of its own: plans and changes over its socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jaco_dataplane::edge::{EdgePlan, Listener, ListenerKey, ProxyProtocol, Transport};
use jaco_edge::service::{Control, EdgeClient, EdgeReport, ServiceOptions};
use jaco_edge::{Certificates, Connection, EdgeChange};
use jaco_types::StateIndex;
use jaco_types::route::{BodyLimit, RouteTls};
use jaco_types::unit::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::instances::{address, raw, saying};
use crate::lab::{Lab, PATIENCE, forwarding, instance, route_key, to_web};
use crate::tls::{certificate, get_tls};
use crate::wire::get;

/// An edge with its socket, in a folder of its own.
struct Process {
    dir: PathBuf,
    serving: JoinHandle<()>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.serving.abort();
        let _gone = std::fs::remove_dir_all(&self.dir);
    }
}

fn folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("jaco-edge-{}-{number}", std::process::id()))
}

fn start(lab: &Lab) -> Process {
    let dir = folder();
    let socket = ServiceOptions { runtime_dir: dir.clone() }.prepare().unwrap();
    let edge = Arc::clone(&lab.edge);
    let serving = Control::new(edge).serve(&socket, std::future::pending()).unwrap();
    Process { dir, serving }
}

async fn connect(dir: &Path) -> EdgeClient {
    let connected = tokio::time::timeout(PATIENCE, async {
        loop {
            match EdgeClient::connect(dir).await {
                Ok(client) => return client,
                // It does not listen yet.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    connected.await.expect("the edge listens")
}

async fn report(client: &EdgeClient, condition: impl FnMut(&EdgeReport) -> bool) -> EdgeReport {
    let mut status = client.status();
    let found = tokio::time::timeout(PATIENCE, status.wait_for(condition));
    found.await.expect("the edge says so").unwrap().clone()
}

async fn applied(client: &EdgeClient, index: u64) -> EdgeReport {
    report(client, |report| report.applied == Some(StateIndex(index))).await
}

/// A daemon that tells an edge what a lab without socket applies.
struct Daemon {
    client: EdgeClient,
    told: (EdgePlan, Certificates),
    index: u64,
}

impl Daemon {
    async fn hold(&mut self, lab: &Lab) {
        self.index += 1;
        self.told = (lab.plan.clone(), lab.certificates.clone());
        self.client.hold(StateIndex(self.index), &self.told.0, &self.told.1).await.unwrap();
        applied(&self.client, self.index).await;
    }

    async fn change(&mut self, lab: &Lab) -> EdgeReport {
        let new = (lab.plan.clone(), lab.certificates.clone());
        let change = EdgeChange::between((&self.told.0, &self.told.1), (&new.0, &new.1));
        let base = StateIndex(self.index);
        self.index += 1;
        self.client.change(base, StateIndex(self.index), &change).await.unwrap();
        self.told = new;
        applied(&self.client, self.index).await
    }
}

async fn daemon(process: &Process) -> Daemon {
    let client = connect(&process.dir).await;
    Daemon { client, told: Default::default(), index: 0 }
}

/// What both labs answer to the same requests.
async fn answers(lab: &Lab) -> Vec<(u16, String, String)> {
    let mut answers = Vec::new();
    for (host, path) in [("a.example", "/"), ("a.example", "/x"), ("b.example", "/")] {
        let reply = get(lab, host, path).await;
        answers.push((reply.status, reply.reason().to_owned(), reply.text().to_owned()));
    }
    let challenge = get(lab, "a.example", "/.well-known/acme-challenge/t").await;
    answers.push((challenge.status, challenge.reason().to_owned(), challenge.text().to_owned()));
    answers
}

#[tokio::test]
async fn plans_and_changes_over_the_socket_are_those_that_are_applied() {
    let (one, two) = (saying("one"), saying("two"));
    let told = Lab::new();
    let process = start(&told);
    let mut daemon = daemon(&process).await;
    assert_eq!(daemon.client.status().borrow().applied, None);
    // Its sockets stand for the same ports.
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    daemon.hold(&lab).await;
    assert_eq!(answers(&told).await, answers(&lab).await);
    let steps: [&dyn Fn(&mut Lab); 7] = [
        &|lab| lab.ready(&[two.address]),
        &|lab| lab.route("a.example", "/x", |route| route.tls = RouteTls::Auto),
        &|lab| lab.route("b.example", "/", |_| {}),
        &|lab| drop(lab.plan.challenges.insert("t".to_owned(), "t.key".to_owned())),
        &|lab| drop(lab.plan.routes.remove(&route_key("a.example", "/"))),
        &|lab| lab.plan.challenges.clear(),
        &|lab| lab.ready(&[]),
    ];
    let mut seen = vec![answers(&lab).await];
    for step in steps {
        step(&mut lab);
        lab.apply();
        daemon.change(&lab).await;
        let answers = [answers(&told).await, answers(&lab).await];
        assert_eq!(answers[0], answers[1]);
        assert!(!seen.contains(&answers[0]), "each step is seen: {answers:?}");
        seen.extend(answers.into_iter().take(1));
    }
}

#[tokio::test]
async fn certificates_and_keys_come_over_the_socket() {
    let one = saying("one");
    let lab = Lab::new();
    let process = start(&lab);
    let mut daemon = daemon(&process).await;
    let mut wanted = Lab::new();
    wanted.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    wanted.ready(&[one.address]);
    daemon.hold(&wanted).await;
    assert_eq!(get(&lab, "a.example", "/").await.reason(), "certificate_missing");
    let pem = certificate(&["a.example"]);
    wanted.certificates.by_domain.insert("a.example".parse().unwrap(), Arc::clone(&pem));
    daemon.change(&wanted).await;
    assert_eq!(get_tls(&lab, &pem, "a.example", "/").await.text(), "one");
    wanted.certificates.by_domain.clear();
    daemon.change(&wanted).await;
    assert_eq!(get(&lab, "a.example", "/").await.reason(), "certificate_missing");
}

#[tokio::test]
async fn a_change_of_another_plan_is_refused_and_a_whole_plan_repairs_it() {
    let one = saying("one");
    let lab = Lab::new();
    let process = start(&lab);
    let mut daemon = daemon(&process).await;
    let mut wanted = Lab::new();
    wanted.route("a.example", "/", |_| {});
    wanted.ready(&[one.address]);
    let change = EdgeChange::between(
        (&EdgePlan::default(), &Certificates::default()),
        (&wanted.plan, &wanted.certificates),
    );
    let tell = async |client: &mut EdgeClient, base| {
        client.change(StateIndex(base), StateIndex(9), &change).await.unwrap();
        report(client, |report| report.refused == Some(StateIndex(base))).await
    };
    assert_eq!(tell(&mut daemon.client, 3).await.applied, None, "it holds no plan");
    let empty = Lab::new();
    daemon.client.hold(StateIndex(5), &empty.plan, &empty.certificates).await.unwrap();
    assert_eq!(applied(&daemon.client, 5).await.refused, None);
    assert_eq!(tell(&mut daemon.client, 4).await.applied, Some(StateIndex(5)));
    assert_eq!(get(&lab, "a.example", "/").await.reason(), "no_route");
    daemon.index = 5;
    daemon.hold(&wanted).await;
    let said = applied(&daemon.client, 6).await;
    assert_eq!(said.refused, None);
    assert_eq!(get(&lab, "a.example", "/").await.text(), "one");
}

#[tokio::test]
async fn a_daemon_that_comes_again_goes_on_where_it_was() {
    let (one, two) = (saying("one"), saying("two"));
    let lab = Lab::new();
    let process = start(&lab);
    let mut wanted = Lab::new();
    wanted.route("a.example", "/", |_| {});
    wanted.ready(&[one.address]);
    let mut first = daemon(&process).await;
    first.hold(&wanted).await;
    let Daemon { client, told, index } = first;
    let mut ended = client.status();
    drop(client);
    assert!(ended.wait_for(|_| false).await.is_err(), "the sender is gone");
    assert_eq!(get(&lab, "a.example", "/").await.text(), "one", "it serves on without a daemon");
    let client = connect(&process.dir).await;
    assert_eq!(client.status().borrow().applied, Some(StateIndex(index)));
    let mut second = Daemon { client, told, index };
    wanted.ready(&[two.address]);
    second.change(&wanted).await;
    assert_eq!(get(&lab, "a.example", "/").await.text(), "two");
    // One that knows less than the edge, as it reads its log again, takes nothing back; it hears that there is more.
    let old = StateIndex(index);
    let mut behind = connect(&process.dir).await;
    behind.hold(old, &EdgePlan::default(), &Certificates::default()).await.unwrap();
    behind.change(StateIndex(7), StateIndex(8), &EdgeChange::default()).await.unwrap();
    let said = report(&behind, |report| report.refused.is_some()).await;
    assert_eq!(said.applied, Some(StateIndex(index + 1)));
    assert_eq!(get(&lab, "a.example", "/").await.text(), "two");
}

#[tokio::test]
async fn a_listener_without_socket_is_a_problem_until_it_has_one() {
    let lab = Lab::new();
    let process = start(&lab);
    let mut daemon = daemon(&process).await;
    let mut wanted = Lab::new();
    let key = ListenerKey { transport: Transport::Tcp, address: None, port: 5000 };
    wanted.plan.listeners.insert(key, Listener::Forward(forwarding(ProxyProtocol::Off)));
    daemon.hold(&wanted).await;
    let said = report(&daemon.client, |report| report.applied.is_some()).await;
    assert_eq!(said.problems.keys().collect::<Vec<_>>(), ["listener tcp/5000"]);
    assert!(!said.listeners.contains(&key));
    lab.edge.add_listener(key, std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let said = report(&daemon.client, |report| report.problems.is_empty()).await;
    assert!(said.listeners.contains(&key));
    lab.edge.remove_listener(&key);
    let said = report(&daemon.client, |report| !report.problems.is_empty()).await;
    assert!(!said.listeners.contains(&key));
    // The socket may be there before the plan.
    lab.edge.add_listener(key, std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    wanted.plan.listeners.clear();
    let said = daemon.change(&wanted).await;
    assert!(said.problems.is_empty() && said.listeners.contains(&key));
}

#[tokio::test]
async fn a_daemon_hears_who_is_busy_until_all_is_finished() {
    let waiting = raw(|mut stream, _| async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
    });
    let mut lab = Lab::new();
    let port = lab.listen(5000, Listener::Forward(forwarding(ProxyProtocol::Off)));
    let process = start(&lab);
    let mut daemon = daemon(&process).await;
    lab.instances(PATIENCE, &[(1, waiting.address)], &[]);
    daemon.hold(&lab).await;
    let mut client = tokio::net::TcpStream::connect(port).await.unwrap();
    client.write_all(b"x").await.unwrap();
    crate::lab::until("it came there", || waiting.connections() == 1).await;
    lab.instances(PATIENCE, &[], &[(1, waiting.address)]);
    assert_eq!(daemon.change(&lab).await.busy, [instance(1)].into());
    drop(client);
    report(&daemon.client, |report| report.busy.is_empty()).await;
}

#[tokio::test]
async fn counters_come_over_a_connection_of_their_own() {
    let one = saying("one");
    let lab = Lab::new();
    let process = start(&lab);
    let mut wanted = Lab::new();
    wanted.route("a.example", "/x", |_| {});
    wanted.route("b.example", "/", |_| {});
    wanted.ready(&[one.address]);
    let mut daemon = daemon(&process).await;
    daemon.hold(&wanted).await;
    for _ in 0..3 {
        assert_eq!(get(&lab, "a.example", "/x").await.text(), "one");
    }
    let counted = EdgeClient::counters(&process.dir).await.unwrap();
    let requests: Vec<_> =
        counted.routes.iter().map(|(key, counts)| (key.to_string(), counts.requests())).collect();
    assert_eq!(requests, [("a.example/x".to_owned(), 3)], "no word about idle routes");
    let counts = counted.routes[&route_key("a.example", "/x")];
    assert_eq!((counts.by_class, counts.latency.iter().sum::<u64>()), ([0, 3, 0, 0, 0], 3));
    assert!(!counted.is_stale);
}

/// R-EDGE-1: a daemon turns lines about requests on and off while requests come in, and it has no line before and after.
#[tokio::test]
async fn lines_about_requests_go_to_the_file_that_a_daemon_names() {
    let one = saying("one");
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    let process = start(&lab);
    let mut client = connect(&process.dir).await;
    assert!(client.status().borrow().takes_log);
    let file = process.dir.join("access.log");
    let lines = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect::<Vec<serde_json::Value>>()
    };
    client.log(Some((&file, 1.try_into().unwrap()))).await.unwrap();
    until("it writes lines", async || {
        get(&lab, "a.example", "/x?secret").await;
        !lines().is_empty()
    })
    .await;
    get(&lab, "b.example", "/last").await;
    until("each request has one", async || lines().last().unwrap()["host"] == "b.example").await;
    assert!(lines().iter().all(|line| !line.to_string().contains("secret")));
    assert_eq!((&lines()[0]["status"], &lines()[0]["path"]), (&200.into(), &"/x".into()));
    assert_eq!(lines().last().unwrap()["reason"], "no_route");
    client.log(None).await.unwrap();
    // Orders are carried out in turn: this one after that.
    client.hold(StateIndex(98), &lab.plan, &lab.certificates).await.unwrap();
    applied(&client, 98).await;
    get(&lab, "b.example", "/unseen").await;
    client.log(Some((&file, 1.try_into().unwrap()))).await.unwrap();
    client.hold(StateIndex(99), &lab.plan, &lab.certificates).await.unwrap();
    applied(&client, 99).await;
    get(&lab, "b.example", "/seen").await;
    until("it writes lines again", async || lines().last().unwrap()["path"] == "/seen").await;
    assert!(lines().iter().all(|line| line["path"] != "/unseen"));
}

/// R-OPS-1: a daemon turns traces on and off, and is said the spans of requests meanwhile.
#[tokio::test]
async fn spans_of_requests_are_said_to_the_daemon() {
    let one = saying("one");
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    let process = start(&lab);
    let mut client = connect(&process.dir).await;
    assert!(client.status().borrow().takes_traces);
    let mut said = client.take_spans().expect("nobody has taken them");
    get(&lab, "a.example", "/before").await;
    client.trace(Some(1 << 63)).await.unwrap();
    // Orders are carried out in turn: this one after that.
    client.hold(StateIndex(98), &lab.plan, &lab.certificates).await.unwrap();
    applied(&client, 98).await;
    get(&lab, "a.example", "/seen").await;
    get(&lab, "b.example", "/").await;
    let mut spans = Vec::new();
    while spans.len() < 2 {
        let next = tokio::time::timeout(PATIENCE, said.recv()).await.expect("spans are said");
        let next = next.expect("the connection is there");
        assert_eq!(next.dropped, 0);
        spans.extend(next.spans);
    }
    assert_eq!((spans[0].route.as_deref(), spans[0].status), (Some("a.example"), 200));
    assert_eq!((spans[1].route.as_deref(), spans[1].status), (None, 404));
    assert_eq!(spans[1].reason.as_deref(), Some("no_route"));
    client.trace(None).await.unwrap();
    client.hold(StateIndex(99), &lab.plan, &lab.certificates).await.unwrap();
    applied(&client, 99).await;
    get(&lab, "a.example", "/after").await;
    client.trace(Some(1 << 63)).await.unwrap();
    client.hold(StateIndex(100), &lab.plan, &lab.certificates).await.unwrap();
    applied(&client, 100).await;
    get(&lab, "b.example", "/").await;
    let next = tokio::time::timeout(PATIENCE, said.recv()).await.unwrap().unwrap();
    assert_eq!(next.spans.iter().map(|span| span.status).collect::<Vec<_>>(), [404]);
}

/// R-CLI-3: an edge says what a request would meet: the route, the certificate, and who accepts connections.
#[tokio::test]
async fn an_edge_explains_what_a_request_would_meet() {
    let one = saying("one");
    let mut lab = Lab::new();
    lab.route("a.example", "/x", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    let process = start(&lab);
    drop(connect(&process.dir).await);
    let explain = async |host: &str, path: &str| {
        EdgeClient::explain(&process.dir, host, path).await.unwrap().1
    };
    let explained = explain("A.example.", "/y/../x/%7e").await;
    assert_eq!(explained.route, Some(route_key("a.example", "/x")));
    assert!(!explained.has_certificate);
    let [found] = &explained.instances[..] else { panic!("{explained:?}") };
    assert_eq!((found.id.clone(), found.connection), (instance(1), Connection::Accepted));
    assert!(!found.is_passed_over);
    assert_eq!(explain("a.example", "/y").await.route, None);
    lab.ready(&[address()]);
    lab.apply();
    assert_eq!(get(&lab, "a.example", "/x").await.reason(), "connect_failed");
    let explained = explain("a.example", "/x").await;
    let [found] = &explained.instances[..] else { panic!("{explained:?}") };
    assert!(found.is_passed_over && found.connection == Connection::Refused, "{found:?}");
}

async fn until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_true().await {
            tokio::task::yield_now().await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("not so: {what}"));
}

/// Hands on what is said between a daemon and an edge, and counts the bytes that the daemon says.
fn counting(edge: &Path) -> (Process, Arc<AtomicUsize>) {
    let (dir, edge) = (folder(), edge.join("socket"));
    std::fs::create_dir(&dir).unwrap();
    let listener = UnixListener::bind(dir.join("socket")).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let serving = tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let (mut input, mut output) = client.into_split();
        let (mut said, mut told) = UnixStream::connect(edge).await.unwrap().into_split();
        let back = tokio::spawn(async move { tokio::io::copy(&mut said, &mut output).await });
        let mut buffer = vec![0; 65_536];
        while let Ok(length @ 1..) = input.read(&mut buffer).await {
            counter.fetch_add(length, Ordering::SeqCst);
            told.write_all(&buffer[..length]).await.unwrap();
        }
        back.abort();
    });
    (Process { dir, serving }, count)
}

#[tokio::test]
async fn one_change_of_ten_thousand_routes_is_a_small_message() {
    let lab = Lab::new();
    let process = start(&lab);
    drop(connect(&process.dir).await);
    let (relay, count) = counting(&process.dir);
    let mut daemon = daemon(&relay).await;
    let mut wanted = Lab::new();
    let many = (0..10_000)
        .map(|number| (route_key(&format!("shop-{number}.customers.example"), "/"), to_web()));
    wanted.plan.routes = many.collect();
    wanted.ready(&[]);
    daemon.hold(&wanted).await;
    let whole = count.swap(0, Ordering::SeqCst);
    assert!(whole <= 3_000_000, "{whole} bytes");
    wanted.route("shop-77.customers.example", "/", |route| {
        route.body_max = Some(BodyLimit::new(Bytes(1)).unwrap());
    });
    daemon.change(&wanted).await;
    let one = count.swap(0, Ordering::SeqCst);
    assert!(one <= 512, "{one} bytes");
    let large = "POST / HTTP/1.1\r\nHost: shop-77.customers.example\r\nContent-Length: 30\r\n\r\n";
    assert_eq!(crate::wire::once(&lab, large).await.reason(), "body_too_large");
    assert_eq!(get(&lab, "shop-9999.customers.example", "/").await.reason(), "no_endpoints");
}

//! Zero-downtime: a small proxy follows the endpoints under constant load.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jaco_testkit::{Cluster, Engine, eventually_within, v1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;

use crate::scenario::{apply, replicas};

/// An instance that is slow on a busy machine is not sick: a check may take ten times as long as its interval.
pub(crate) const CHECK: &str = r#","healthcheck":{"test":["CMD","/hello","check","http://127.0.0.1:8080/healthz"],"interval":"1s","timeout":"10s","retries":5}"#;

/// Concurrent requests.
const CLIENTS: usize = 8;

/// Pause of each client after an answer: up to 1,600 requests a second. Without one, three such tests at once would measure the machine.
const PAUSE: Duration = Duration::from_millis(5);

/// A proxy in this process that rotates over the endpoints.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// A request holds a read lock, so that a new list is acknowledged only once no request to a
    /// removed endpoint is in flight.
    endpoints: Arc<RwLock<Vec<SocketAddr>>>,
    /// Length of the shortest list since [`Proxy::start`].
    fewest: Arc<AtomicUsize>,
    follower: JoinHandle<()>,
}

impl Proxy {
    /// Follows `deployment` through this node, and waits for `size` endpoints.
    pub(crate) async fn start(
        cluster: &Cluster,
        node: usize,
        deployment: &str,
        size: usize,
    ) -> Self {
        let attach = v1::RoutingAttach {
            consumer: "edge".to_owned(),
            deployment: deployment.to_owned(),
            ..v1::RoutingAttach::default()
        };
        let mut routes = cluster.nodes[node].client().routes(attach).await.expect("attached");
        let endpoints = Arc::new(RwLock::new(Vec::new()));
        let fewest = Arc::new(AtomicUsize::new(usize::MAX));
        let (table, least) = (Arc::clone(&endpoints), Arc::clone(&fewest));
        let follower = tokio::spawn(async move {
            let mut addresses = Addresses::default();
            while let Ok(Some(version)) = routes.next().await {
                let listed = version.services.iter().flat_map(|service| &service.endpoints);
                let ids = listed.map(|endpoint| endpoint.container_id.clone()).collect();
                let listed;
                (addresses, listed) = addresses.of(ids).await;
                least.fetch_min(listed.len(), Ordering::Relaxed);
                *table.write().await = listed;
                routes.acknowledge(version.version).await;
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (table, turn) = (Arc::clone(&endpoints), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, Arc::clone(&table), Arc::clone(&turn)));
            }
        });
        eventually_within(Duration::from_secs(120), "the proxy knows all", || async {
            let known = endpoints.read().await.len();
            if known == size { Ok(()) } else { Err(known) }
        })
        .await;
        fewest.store(size, Ordering::Relaxed);
        Self { address, endpoints, fewest, follower }
    }

    pub(crate) fn fewest(&self) -> usize {
        self.fewest.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// The containers' own addresses: the tests run on the engine's machine.
///
/// A container keeps its address, so each is asked for once: an acknowledgement that waits for a process per endpoint and
/// version comes after the deadline of the release on a slow machine.
#[derive(Default)]
struct Addresses(HashMap<String, SocketAddr>);

impl Addresses {
    /// Those of some containers. One that is gone has none, so that the list is shorter.
    async fn of(mut self, ids: Vec<String>) -> (Self, Vec<SocketAddr>) {
        let look = move || {
            for id in &ids {
                if !self.0.contains_key(id)
                    && let Some(address) = address_of(id)
                {
                    self.0.insert(id.clone(), address);
                }
            }
            let listed = ids.iter().filter_map(|id| self.0.get(id).copied()).collect();
            (self, listed)
        };
        tokio::task::spawn_blocking(look).await.expect("looking does not panic")
    }
}

fn address_of(container: &str) -> Option<SocketAddr> {
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let asked = Command::new("docker").args(["inspect", "--format", format, container]).output();
    let ip = String::from_utf8(asked.expect("docker is there").stdout).ok()?;
    Some(SocketAddr::new(ip.trim().parse().ok()?, 8080))
}

async fn forward(
    mut client: TcpStream,
    table: Arc<RwLock<Vec<SocketAddr>>>,
    turn: Arc<AtomicUsize>,
) -> Option<()> {
    let endpoints = table.read().await;
    let next = turn.fetch_add(1, Ordering::Relaxed) % endpoints.len().max(1);
    let mut server = TcpStream::connect(endpoints.get(next)?).await.ok()?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.ok()?;
    Some(())
}

/// Constant load; [`Load::stop`] returns the result.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<(usize, Vec<String>)>>,
}

impl Load {
    pub(crate) fn start(address: SocketAddr) -> Self {
        Self::paced(address, PAUSE)
    }

    /// Pause of each client after an answer.
    pub(crate) fn paced(address: SocketAddr, pause: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |_| {
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let (mut served, mut failed) = (0, Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    match ask(address).await {
                        Ok(answer) if answer.starts_with("HTTP/1.1 200") => served += 1,
                        Ok(answer) => failed.push(answer),
                        Err(error) => failed.push(error.to_string()),
                    }
                    tokio::time::sleep(pause).await;
                }
                (served, failed)
            })
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { stop, clients }
    }

    /// Number of answered requests, and errors of the others.
    pub(crate) async fn stop(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut served, mut failed) = (0, Vec::new());
        for client in self.clients {
            let (ok, bad) = client.await.expect("a client does not panic");
            served += ok;
            failed.extend(bad);
        }
        (served, failed)
    }
}

pub(crate) async fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// What has happened, for who has to find out why a request failed.
fn story(cluster: &Cluster) -> String {
    let events = cluster.cli(0, &["audit", "-o", "wide"]);
    String::from_utf8_lossy(&events.stdout).into_owned()
}

/// R-ROLL-2: six replicas are replaced under constant load: no request fails, and there are always
/// at least six endpoints.
#[tokio::test(flavor = "multi_thread")]
async fn rollout_under_load_fails_no_request() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", "jaco-hello:v1", 6, CHECK).await;
    cluster.converged(0, "shop").await;
    let proxy = Proxy::start(&cluster, 1, "shop", 6).await;
    let load = Load::start(proxy.address);
    apply(&cluster, "shop", "jaco-hello:v2", 6, CHECK).await;
    eventually_within(Duration::from_secs(240), "all are replaced", || async {
        let now = replicas(&cluster, 0, "shop").await;
        let done = now.len() == 6
            && now.iter().all(|one| one.image == "jaco-hello:v2" && one.retiring.is_none());
        if done { Ok(()) } else { Err(now.len()) }
    })
    .await;
    let (served, failed) = load.stop().await;
    assert_eq!(failed, Vec::<String>::new(), "of {served} requests; {}", story(&cluster));
    assert!(served > 100, "only {served} requests were sent");
    assert_eq!(proxy.fewest(), 6);
    // The last update may still be in transit to the proxy.
    eventually_within(Duration::from_secs(120), "six endpoints are left", || async {
        let left = proxy.endpoints.read().await.len();
        if left == 6 { Ok(()) } else { Err(left) }
    })
    .await;
}

/// R-ROLL-3, R-CLI-7: a revision that never becomes healthy is stopped at the step timeout; the old
/// replicas keep serving, and `jaco apply` exits with 6, also when repeated.
#[tokio::test(flavor = "multi_thread")]
async fn unhealthy_revision_fails_its_rollout() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", "jaco-hello:v1", 3, CHECK).await;
    cluster.converged(0, "shop").await;
    let before: Vec<_> = containers_of(&cluster).await;
    let proxy = Proxy::start(&cluster, 1, "shop", 3).await;
    let load = Load::start(proxy.address);

    let folder = cluster.nodes[0].folder().join("project");
    std::fs::create_dir_all(&folder).expect("a folder");
    // Failures count from the end of the start period: until then it is neither healthy nor
    // unhealthy.
    let sick = CHECK.replace("/healthz", "/nowhere");
    let sick = sick.replace("\"retries\":5", "\"retries\":5,\"start_period\":\"300s\"");
    let compose = jaco_tests::compose_with("shop", "web", "jaco-hello:v2", 3, &sick);
    std::fs::write(folder.join("compose.yaml"), compose).expect("written");
    let overlay = "deployment: shop\nservices:\n- name: web\n  update: {step_timeout: 6s}\n";
    std::fs::write(folder.join("jaco.yaml"), overlay).expect("written");
    let folder = folder.to_str().expect("a path of ours");
    for attempt in 1..=2 {
        let applied = cluster.cli(0, &["apply", folder]);
        let told = String::from_utf8_lossy(&applied.stderr).into_owned();
        assert_eq!(applied.status.code(), Some(6), "attempt {attempt}: {told}");
        assert!(told.contains("was rolled back"), "attempt {attempt}: {told}");
        assert!(told.contains("step_timeout"), "attempt {attempt}: {told}");
        eventually_within(Duration::from_secs(120), "only the old replicas are left", || async {
            let left = jaco_testkit::docker::containers(&cluster.id).len();
            if left == 3 { Ok(()) } else { Err(left) }
        })
        .await;
        assert_eq!(containers_of(&cluster).await, before, "attempt {attempt}: none was replaced");
    }
    let (served, failed) = load.stop().await;
    assert_eq!(failed, Vec::<String>::new(), "of {served} requests; {}", story(&cluster));
    assert_eq!(proxy.fewest(), 3);
}

/// Serving containers of shop's replicas, and their images.
async fn containers_of(cluster: &Cluster) -> Vec<(String, String)> {
    let mut found: Vec<_> = replicas(cluster, 0, "shop")
        .await
        .into_iter()
        .map(|one| (one.image, one.container_id))
        .collect();
    found.sort();
    found
}

/// R-NODE-2, R-NODE-3: a node is drained under constant load without failed requests.
#[tokio::test(flavor = "multi_thread")]
async fn drain_under_load_fails_no_request() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", "jaco-hello:v1", 6, CHECK).await;
    cluster.converged(0, "shop").await;
    let proxy = Proxy::start(&cluster, 0, "shop", 6).await;
    let load = Load::start(proxy.address);
    let drain = v1::SetAvailabilityRequest {
        hostname: "n3".to_owned(),
        availability: "draining".to_owned(),
        ..v1::SetAvailabilityRequest::default()
    };
    cluster.client().set_availability(drain).await.expect("drained");
    eventually_within(Duration::from_secs(240), "nothing is left on n3", || async {
        let now = replicas(&cluster, 0, "shop").await;
        let left = now.iter().filter(|one| {
            one.node == "n3" || one.retiring.as_ref().is_some_and(|old| old.node == "n3")
        });
        let left = left.count();
        if left == 0 && now.len() == 6 { Ok(()) } else { Err(left) }
    })
    .await;
    let (served, failed) = load.stop().await;
    assert_eq!(failed, Vec::<String>::new(), "of {served} requests; {}", story(&cluster));
    assert!(served > 100, "only {served} requests were sent");
    assert_eq!(proxy.fewest(), 6);
}

/// A disconnected consumer is waited for until its lease expires, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn dead_consumer_delays_only_until_its_lease_expires() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    apply(&cluster, "shop", "jaco-hello:v1", 1, "").await;
    cluster.converged(0, "shop").await;
    let proxy = Proxy::start(&cluster, 0, "shop", 1).await;
    drop(proxy);
    apply(&cluster, "shop", "jaco-hello:v2", 1, "").await;
    // The lease, the grace period, and a busy engine.
    eventually_within(Duration::from_secs(240), "the old container is gone", || async {
        let left = jaco_testkit::docker::containers(&cluster.id).len();
        let is_new =
            replicas(&cluster, 0, "shop").await.iter().all(|one| one.image.ends_with("v2"));
        if left == 1 && is_new { Ok(()) } else { Err(left) }
    })
    .await;
}

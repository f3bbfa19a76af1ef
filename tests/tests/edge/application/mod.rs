//! An application of the usual kind on three machines: nginx before web, web before api, api before postgres and redis, a
//! worker, and a job that makes the tables.

mod image;
mod stream;
mod wire;

use std::process::Command;
use std::time::Duration;

use jaco_testkit::{eventually_within, router, v1};
use rustix::process::Signal;

use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::root::Root;
use jaco_testkit::{ran, succeeded};
use stream::Stream;
use wire::Capture;

/// The longest pause that an open connection may see.
const PAUSE_MAX: Duration = Duration::from_secs(1);

const COMPOSE: &str = r#"
name: shop
x-base: &base
  image: jaco-application:v1
  healthcheck: &health
    test: [CMD, wget, -qO-, "http://127.0.0.1:8080/health"]
    interval: 1s
    retries: 30
services:
  proxy:
    image: jaco-application:v1
    command: [nginx, -c, /etc/nginx.conf, -g, "daemon off;"]
    configs: [{source: nginx, target: /etc/nginx.conf}]
    ports: [{target: 80, published: "8080", mode: host}]
    networks: [front]
    depends_on: {web: {condition: service_healthy}}
  web:
    <<: *base
    command: [httpd, -f, -p, "8080", -h, /srv]
    networks: [front, back]
    deploy: {replicas: 2}
    depends_on: {api: {condition: service_healthy}}
  api:
    <<: *base
    command: [httpd, -f, -p, "8080", -h, /srv]
    networks: [back]
    deploy: {replicas: 2}
    depends_on:
      migrate: {condition: service_completed_successfully}
      cache: {condition: service_healthy}
  worker:
    image: jaco-application:v1
    command: [worker]
    networks: [back]
    depends_on:
      migrate: {condition: service_completed_successfully}
      cache: {condition: service_started}
  migrate:
    image: jaco-application:v1
    command: [psql, -h, db, -U, postgres, -c, "create table visits (id serial primary key)"]
    restart: "no"
    networks: [back]
    depends_on: {db: {condition: service_healthy}}
  db:
    image: jaco-application:v1
    command: [database]
    user: "70:70"
    volumes: ["data:/data"]
    networks: [back]
    healthcheck:
      <<: *health
      test: [CMD, psql, -h, 127.0.0.1, -U, postgres, -qtAc, select 1]
  cache:
    image: jaco-application:v1
    command: [redis-server, --bind, 0.0.0.0, --protected-mode, "no", --save, ""]
    networks: [back]
    healthcheck:
      <<: *health
      test: [CMD, redis-cli, ping]
networks: {front: {}, back: {}}
volumes: {data: {}}
configs: {nginx: {file: ./nginx.conf}}
"#;

const NGINX: &str = "
user root;
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;
  server {
    listen 80;
    location / { proxy_pass http://web:8080; }
  }
}
";

const SPREAD: &str = "
services:
  - {name: proxy, placement: spread}
  - {name: web, placement: spread}
  - {name: api, placement: spread}
  - {name: worker, placement: spread}
  - {name: migrate, placement: spread}
  - {name: db, placement: spread}
  - {name: cache, placement: spread}
";

/// Another deployment, on the machine of the database.
const OTHER: &str = "
name: other
services:
  spy: {image: 'jaco-application:v1', command: [sleep, infinity]}
";

/// A container, and the machine that it is on.
struct Container {
    at: usize,
    id: String,
}

struct Shop {
    machines: Machines,
    root: Root,
}

impl Shop {
    async fn start() -> Self {
        let path = std::env::var("PATH").expect("there is one");
        let root = tokio::task::spawn_blocking(image::build);
        let mut machines = Machines::start(3, &format!("{path}:/usr/sbin:/sbin")).await;
        machines.found(&["--name", "field"]).await;
        let root = root.await.expect("the image is built");
        for engine in &machines.engines {
            image::import(&root, &mut engine.command(&[]));
        }
        Self { machines, root }
    }

    async fn replicas(&self, service: &str) -> Vec<v1::ReplicaInfo> {
        let all = self.machines.cluster.overview(0).await.expect("it answers").replicas;
        all.into_iter().filter(|replica| replica.service == service).collect()
    }

    /// The first replica of a service.
    async fn container(&self, service: &str) -> Container {
        let replica = self.replicas(service).await.swap_remove(0);
        let at = replica.node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
        Container { at: at.expect("nodes are numbered") - 1, id: replica.container_id }
    }

    /// A container in the network of the cache, and the cache, on different machines.
    async fn apart(&self) -> (Container, Container) {
        let server = self.container("cache").await;
        let client = match self.container("db").await {
            same if same.at == server.at => self.container("worker").await,
            other => other,
        };
        assert_ne!(client.at, server.at, "they are on different machines");
        (client, server)
    }

    fn inspect(&self, container: &Container, format: &str) -> String {
        let engine = &self.machines.engines[container.at];
        ran(&mut engine.command(&["inspect", "--format", format, &container.id]))
    }

    fn address(&self, container: &Container) -> String {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        self.inspect(container, format)
    }

    fn exec(&self, container: &Container, args: &[&str]) -> Command {
        let engine = &self.machines.engines[container.at];
        engine.command(&[&["exec", &container.id], args].concat())
    }

    /// Asks through the published port of the proxy; `(rows, hits)` as both stores count them.
    async fn visit(&self) -> Result<(u64, u64), String> {
        let proxy = self.container("proxy").await;
        let url = format!("http://10.99.0.{}:8080/cgi-bin/web", proxy.at + 1);
        let mut client = self.machines.inside(proxy.at);
        self.root.busybox(client.args(["timeout", "15"]));
        let output = client.args(["wget", "-qO-", &url]).output();
        let output = output.expect("it can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse().ok())
        };
        number("rows").zip(number("hits")).ok_or_else(|| format!("{output:?}"))
    }
}

/// R-IN-1, NET-7, NET-8: the application works at its first apply, over all machines, by the names of its services; what one
/// request writes the next one reads, and nothing of it is in clear between machines (NET-10). Another deployment does not reach its database. While daemon, router and engine
/// of either end are killed, an open connection is not reset and pauses for less than a second.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_works_over_three_machines() {
    let mut shop = Shop::start().await;
    let folder = tempfile::tempdir().expect("temporary files can be made");
    for (name, text) in [("compose.yaml", COMPOSE), ("nginx.conf", NGINX), ("jaco.yaml", SPREAD)] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let path = folder.path().to_str().expect("a path in ASCII");
    succeeded(&shop.machines.cluster.cli(0, &["apply", path, "--timeout", "120s"]));

    let (rows, hits) = shop.visit().await.expect("it is answered");
    assert_eq!(shop.visit().await, Ok((rows + 1, hits + 1)));
    let mut nodes = Vec::new();
    for service in ["proxy", "web", "api", "db", "cache", "worker"] {
        nodes.extend(shop.replicas(service).await.into_iter().map(|replica| replica.node));
    }
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
    is_never_in_clear(&shop).await;
    let jobs = shop.replicas("migrate").await;
    assert!(jobs.iter().all(|job| job.state == "completed") && jobs.len() == 1, "{jobs:?}");
    is_hidden_from_others(&shop).await;
    outlives_kills(&mut shop).await;
    let (after, _) = shop.visit().await.expect("it is answered");
    assert!(after > rows + 1, "the rows are kept");
    let audit = shop.machines.cluster.cli(0, &["audit", "--type", "job_completed"]);
    assert_eq!(succeeded(&audit).matches("job_completed").count(), 1, "once: {audit:?}");
}

/// What a client on another machine says to the cache, and what it is answered.
async fn is_never_in_clear(shop: &Shop) {
    const MARK: &str = "a-word-that-is-said-nowhere-else";
    let (client, server) = shop.apart().await;
    let capture = Capture::start(&mut shop.machines.inside(client.at)).await;
    let cache = shop.address(&server);
    let said = ran(&mut shop.exec(&client, &["redis-cli", "-h", &cache, "echo", MARK]));
    assert_eq!(said, MARK);
    // The same word in a datagram of the machine itself, which the capture must have.
    let mut plain = shop.machines.inside(client.at);
    let to = format!("/dev/udp/10.99.0.{}/9", server.at + 1);
    ran(plain.args(["bash", "-c", &format!("echo in-clear-{MARK} > {to}")]));
    let known = format!("in-clear-{MARK}");
    let bytes = capture.end(known.as_bytes()).await;
    let count =
        |word: &str| bytes.windows(word.len()).filter(|part| *part == word.as_bytes()).count();
    assert_eq!(count(MARK), count(&known), "only the datagram and its refusal have it");
}

async fn is_hidden_from_others(shop: &Shop) {
    let db = shop.container("db").await;
    let places =
        format!("services:\n  - {{name: spy, placement: hosts, hosts: [n{}]}}\n", db.at + 1);
    shop.machines.apply(OTHER, Some(&places));
    let spy = shop.container("spy").await;
    assert_eq!(spy.at, db.at);
    let ask = |from: &Container, host: &str| {
        let text = format!("host={host} user=postgres connect_timeout=2");
        shop.exec(from, &["psql", &text, "-qtAc", "select 1"]).output().expect("docker runs")
    };
    let worker = shop.container("worker").await;
    for host in ["db", "db.shop", &shop.address(&db)] {
        succeeded(&ask(&worker, host));
    }
    for host in ["db", "db.shop", &shop.address(&db)] {
        let output = ask(&spy, host);
        assert!(!output.status.success(), "{host}: {output:?}");
    }
}

async fn outlives_kills(shop: &mut Shop) {
    let (client, server) = shop.apart().await;
    let pid = shop.inspect(&client, "{{.State.Pid}}");
    let mut inside = Command::new("nsenter");
    shop.root.busybox(inside.arg(format!("--net=/proc/{pid}/ns/net")));
    let stream = Stream::open(inside.args(["nc", &shop.address(&server), "6379"]));
    for at in [client.at, server.at] {
        let node = &mut shop.machines.cluster.nodes[at];
        node.kill();
        stream.flows_on(PAUSE_MAX, "a daemon was killed");
        shop.machines.restart(at).await;
        let before = router::pid(&shop.machines.router(at));
        router::kill(&shop.machines.router(at));
        eventually_within(PATIENCE, "another process keeps the router", || async {
            let now = router::pid(&shop.machines.router(at));
            if now.is_some() && now != before { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        stream.flows_on(PAUSE_MAX, "a router was killed");
        let engine = &mut shop.machines.engines[at];
        engine.end(Signal::KILL);
        engine.is_over().await;
        engine.boot().await;
        stream.flows_on(PAUSE_MAX, "an engine was killed");
    }
    shop.machines.cluster.settled().await;
}

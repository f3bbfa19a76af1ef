//! nginx as a client of a service that is rolled: it resolves the name in its configuration once, at its start.

use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};

use jaco_testkit::engines::Machines;
use jaco_testkit::{binary, ran};

use jaco_testkit::root::Root;

const IMAGE: &str = "jaco-proxy:v1";

/// How often the service behind it is rolled.
const ROLLS: u32 = 10;

/// The proxy reaches the service by the port that it publishes, at the address of a node: here its own.
fn compose(revision: u32) -> String {
    format!(
        "
name: shop
services:
  proxy:
    image: {IMAGE}
    command: [proxy]
    extra_hosts: ['edge:10.99.0.1']
    ports: [{{target: 80, published: '8080', mode: host}}]
    deploy: {{placement: {{constraints: ['node.hostname == n1']}}}}
  web:
    image: jaco-hello:v1
    command: [serve]
    environment: {{REVISION: '{revision}'}}
    ports: ['8081:8080']
    deploy: {{replicas: 6, update_config: {{parallelism: 3, monitor: 0s}}}}
    stop_grace_period: 2s
"
    )
}

/// `/published` goes to the published port, by a name that is resolved once; `/resolved` to the service by its name, which is
/// resolved again once the name server's word is too old.
const NGINX: &str = r#"
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
  resolver RESOLVER ipv6=off;
  server {
    listen 80;
    location /published { proxy_pass http://edge:8081/; }
    location /resolved { set $service web; proxy_pass http://$service:8080/; }
  }
}
"#;

/// The name server of the container, as the image of nginx itself finds it.
const START: &str = "#!/bin/sh
set -e
server=$(awk '/^nameserver/ {print $2; exit}' /etc/resolv.conf)
sed \"s/RESOLVER/$server/\" /etc/nginx.conf > /tmp/nginx.conf
exec nginx -c /tmp/nginx.conf -g 'daemon off;'
";

fn build() -> Root {
    let root = Root::of(&["nginx", "busybox-static"]);
    root.trim("nginx");
    fs::write(root.path("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n").expect("written");
    fs::write(root.path("etc/group"), "root:x:0:\n").expect("written");
    fs::write(root.path("etc/nsswitch.conf"), "hosts: files dns\n").expect("written");
    fs::write(root.path("etc/nginx.conf"), NGINX).expect("written");
    root.script("bin/proxy", START);
    root.applets(&["sh", "awk", "sed"]);
    root
}

/// A client outside that asks for a page again and again.
struct Watcher {
    path: &'static str,
    process: Child,
}

impl Watcher {
    fn start(machines: &Machines, path: &'static str) -> Self {
        let mut command = machines.at_switch();
        command.arg(binary("hello")).args(["watch", "--every", "10"]);
        command.arg(format!("http://10.99.0.1:8080{path}"));
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self { path, process: process.expect("it can be run") }
    }

    /// How many requests it made, none of which failed.
    fn end(mut self) -> usize {
        let mut input = self.process.stdin.take().expect("it is piped");
        input.flush().expect("it reads");
        drop(input);
        let output = self.process.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = text.lines().last().unwrap_or_default();
        let asked = last.strip_suffix(" asked, 0 failed").and_then(|count| count.parse().ok());
        asked.unwrap_or_else(|| panic!("{}: {text}", self.path))
    }
}

/// R-EDGE-1, R-IN-1: a proxy that resolves names once loses no request while the service behind it is rolled, if it goes to the
/// published port; nor does one that asks the name server again when its answer is too old.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_resolves_names_once_loses_nothing() {
    let path = std::env::var("PATH").expect("there is one");
    let root = tokio::task::spawn_blocking(build);
    let mut machines = Machines::start(3, &format!("{path}:/usr/sbin:/sbin")).await;
    let at_switch = ["ip", "address", "add", "10.99.0.100/24", "dev", "switch"];
    ran(machines.at_switch().args(at_switch));
    machines.found(&["--name", "proxy"]).await;
    machines.have_routers().await;
    let root = root.await.expect("the image is built");
    root.import(&mut machines.engines[0].command(&[]), IMAGE, "/usr/sbin:/usr/bin:/sbin:/bin");
    machines.apply(&compose(1), None);
    let watchers = ["/published", "/resolved"].map(|path| Watcher::start(&machines, path));
    for revision in 2..=ROLLS + 1 {
        machines.apply(&compose(revision), None);
    }
    for watcher in watchers {
        let path = watcher.path;
        let asked = watcher.end();
        println!("{path}: {asked} requests during {ROLLS} rolls");
        assert!(asked >= 500, "{path} was asked {asked} times only");
    }
}

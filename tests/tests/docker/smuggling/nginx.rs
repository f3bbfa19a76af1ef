//! nginx as the instance behind the edge: what it was asked, and what it finds wrong with it.

use std::fs;
use std::process::Command;

use jaco_testkit::engines::Machines;
use serde_json::Value;

use crate::edged;
use jaco_testkit::root::Root;

const IMAGE: &str = "jaco-nginx:v1";

const COMPOSE: &str = "
name: shop
services:
  web:
    image: jaco-nginx:v1
    command: [nginx, -c, /etc/nginx.conf, -g, 'daemon off;']
";

const ROUTES: &str = "
deployment: shop
routes:
  - {domain: shop.example.com, service: web, port: 8080, tls: off}
  - {domain: other.example.com, service: web, port: 8080, tls: off}
";

/// One process, so that the order of the log is that of the ends of requests. It reads each body to its end before it asks
/// another server for the answer, as an application would. Its connections to the edge stay: that is what makes
/// smuggling possible.
const NGINX: &str = r#"
user root;
pid /tmp/nginx.pid;
worker_processes 1;
error_log stderr info;
events { worker_connections 4096; }
http {
  log_format seen escape=json '{"connection":$connection,"number":$connection_requests,"status":$status,'
    '"request":"$request","host":"$http_host","id":"$http_x_id","for":"$http_x_forwarded_for","body":"$request_body"}';
  client_body_temp_path /tmp/body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;
  client_max_body_size 0;
  underscores_in_headers on;
  keepalive_timeout 600s;
  keepalive_requests 100000;
  server {
    listen 8080;
    access_log /dev/stdout seen;
    location / {
      proxy_pass http://unix:/tmp/inner:;
      proxy_set_header X-Seen $request;
    }
    location /large { root /srv; }
  }
  server {
    listen unix:/tmp/inner;
    access_log off;
    default_type text/plain;
    return 200 "seen <$http_x_seen> <$http_x_id>\n";
  }
}
"#;

/// A machine with nginx behind an edge.
pub(crate) async fn behind_an_edge() -> Machines {
    let root = tokio::task::spawn_blocking(build);
    let machines = edged::start().await;
    import(&root.await.expect("the image is built"), &mut machines.engines[0].command(&[]));
    machines.apply(COMPOSE, Some(ROUTES));
    edged::serves(&machines, 2).await;
    machines
}

/// Makes the image.
fn build() -> Root {
    let root = Root::of(&["nginx"]);
    root.trim("nginx");
    fs::write(root.path("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n").expect("written");
    fs::write(root.path("etc/group"), "root:x:0:\n").expect("written");
    fs::write(root.path("etc/nginx.conf"), NGINX).expect("written");
    fs::create_dir_all(root.path("srv")).expect("written");
    fs::write(root.path("srv/large"), vec![b'x'; 16 * 1024 * 1024]).expect("written");
    root
}

/// Gives the image to an engine: `docker` is the command line for it.
fn import(root: &Root, docker: &mut Command) {
    root.import(docker, IMAGE, "/usr/sbin:/usr/bin:/sbin:/bin");
}

/// A request as nginx has read it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) connection: u64,
    pub(super) status: u64,
    /// The first line.
    pub(super) request: String,
    pub(super) host: String,
    pub(super) id: String,
    pub(super) forwarded_for: String,
    pub(super) body: String,
}

/// What nginx has logged: the requests, in order, and what it found wrong with what clients sent.
pub(super) struct Log {
    pub(super) seen: Vec<Seen>,
    pub(super) complaints: Vec<String>,
}

impl Log {
    /// `docker` shows the logs of its container.
    pub(super) fn read(docker: &mut Command) -> Self {
        let shown = docker.output().expect("docker runs");
        assert!(shown.status.success(), "{shown:?}");
        let seen = String::from_utf8_lossy(&shown.stdout).lines().map(Seen::read).collect();
        let errors = String::from_utf8_lossy(&shown.stderr).into_owned();
        // All that nginx calls malformed begins so: "client sent invalid method", "client sent duplicate header line".
        let complaints = errors.lines().filter(|line| line.contains("client sent"));
        Self { seen, complaints: complaints.map(str::to_owned).collect() }
    }
}

impl Seen {
    fn read(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| {
            panic!("{error} in the log of nginx: {line}");
        });
        let number = |name: &str| line[name].as_u64().expect("it is a number");
        let text = |name: &str| line[name].as_str().expect("it is a text").to_owned();
        Self {
            connection: number("connection"),
            status: number("status"),
            request: text("request"),
            host: text("host"),
            id: text("id"),
            forwarded_for: text("for"),
            body: text("body"),
        }
    }
}

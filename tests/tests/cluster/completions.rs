//! What a shell is told when a word is completed: the names that the cluster has, in the time that a user waits for.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, binary, v1};
use tokio::net::TcpListener;

use crate::scenario::deploy;

/// The longest that a shell waits: the half second that the cluster is given, and a start on a busy machine.
const BOUND: Duration = Duration::from_millis(1500);

/// Where a line is completed: the environment that chooses the cluster.
struct Shell<'a> {
    home: &'a Path,
    variables: Vec<(&'a str, String)>,
}

impl Shell<'_> {
    /// The candidates for the word at the end, as fish gets them, and how long they took.
    ///
    /// # Panics
    /// If anything else is printed.
    fn complete(&self, line: &str) -> (Vec<String>, Duration) {
        let mut command = Command::new(binary("jaco"));
        command.env_clear().env("HOME", self.home).env("JACO_COMPLETE", "fish");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // From an empty folder: a path that could be meant is a candidate too.
        command.current_dir(self.home).args(["--", "jaco"]).args(line.split(' '));
        let begun = Instant::now();
        let out = command.output().expect("jaco can be started");
        let took = begun.elapsed();
        assert!(out.status.success(), "{line}: {out:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{line}");
        let text = String::from_utf8(out.stdout).expect("text");
        // What follows a tab explains.
        let names = text.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned());
        (names.collect(), took)
    }

    fn names(&self, line: &str) -> Vec<String> {
        let names = self.complete(line).0;
        names.into_iter().filter(|name| !name.starts_with('-')).collect()
    }
}

/// R-CLI-6: names of all kinds are completed, from whichever node, by socket and by context; typically in 50 ms.
#[tokio::test(flavor = "multi_thread")]
async fn names_come_from_the_cluster() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    deploy(&cluster, "blog", "web:1", 1).await;
    let home = tempfile::tempdir().expect("temporary files can be made");
    let secret = home.path().join("s");
    std::fs::write(&secret, "x").expect("written");
    let secret = secret.to_str().expect("text");
    for args in [
        &["secret", "set", "db-password", secret][..],
        &["config", "set", "nginx", secret],
        &["token", "issue", "ann", "--role", "operator"],
        &["token", "issue", "bob", "--role", "viewer"],
        &["token", "revoke", "bob"],
    ] {
        let out = cluster.cli(0, args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    std::fs::remove_file(secret).expect("it is there");
    for node in &cluster.nodes {
        let socket = node.socket().display().to_string();
        let shell = Shell { home: home.path(), variables: vec![("JACO_SOCKET", socket)] };
        let check = |line: &str, expected: &[&str]| {
            assert_eq!(shell.names(line), expected, "{}: jaco {line}", node.name);
        };
        check("delete ", &["blog", "shop"]);
        check("delete s", &["shop"]);
        check("restart ", &["blog", "shop"]);
        check("logs shop", &["shop", "shop/web"]);
        check("logs shop/", &["shop/web"]);
        check("logs shop-web-", &["shop-web-0", "shop-web-1"]);
        check("exec ", &["blog/web", "shop/web"]);
        check("cp sh", &["shop/web:"]);
        check("get replica sh", &["shop-web-"]);
        check("get replica shop-web-", &["shop-web-0", "shop-web-1"]);
        let nodes: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
        check("node drain ", &nodes);
        check("whatif --lose ", &nodes);
        check("secret get ", &["db-password"]);
        check("config rm n", &["nginx"]);
        check("token rotate a", &["ann"]);
        // The ids of join tokens, which are random, may be revoked too.
        let tokens = shell.names("token revoke ");
        assert!(tokens.contains(&"ann".to_owned()) && !tokens.contains(&"bob".to_owned()));
        check("audit --deployment ", &["blog", "shop"]);
        check("nod", &["node"]);
    }

    // As most users have it: a context, with TLS and a token.
    let request = v1::IssueOperatorTokenRequest { name: "eve".to_owned(), ..Default::default() };
    let issued = cluster.client().issue_operator_token(request).await.expect("issued");
    let ca = cluster.nodes[0].folder().join("data/node/ca.crt").display().to_string();
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(home.path().join("token"));
    file.and_then(|mut file| file.write_all(issued.token.as_bytes())).expect("written");
    let servers: Vec<&str> = cluster.nodes.iter().map(|node| node.address.as_str()).collect();
    let mut set = Command::new(binary("jaco"));
    set.env_clear().env("HOME", home.path()).current_dir(home.path());
    set.args(["context", "set", "prod", "--ca", &ca, "--token", "token"]);
    set.args(["--servers", &servers.join(",")]);
    jaco_testkit::ran(&mut set);
    let shell = Shell { home: home.path(), variables: Vec::new() };
    assert_eq!(shell.names("context use "), ["prod"]);
    assert_eq!(shell.names("--context pr"), ["prod"]);
    let mut times = Vec::new();
    for _ in 0..15 {
        let (names, took) = shell.complete("--context prod delete s");
        assert_eq!(names, ["shop"]);
        times.push(took);
    }
    times.sort();
    println!("names over TLS: {:?} typically, {:?} at worst", times[7], times[14]);
    let mut starts = Vec::new();
    for _ in 0..15 {
        starts.push(shell.complete("dele").1);
    }
    starts.sort();
    println!("commands, without the cluster: {:?} typically", starts[7]);
    assert!(times[7] < Duration::from_millis(500), "{times:?}");
}

/// R-CLI-6: daemons that hang, that are off, or that there are none of: nothing is printed, and no shell waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_cluster_holds_no_shell_up() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 1).await;
    let home = tempfile::tempdir().expect("temporary files can be made");
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let silent = silent.local_addr().expect("bound").to_string();
    let ca = cluster.nodes[0].folder().join("data/node/ca.crt").display().to_string();
    let request = v1::IssueOperatorTokenRequest { name: "ann".to_owned(), ..Default::default() };
    let token = cluster.client().issue_operator_token(request).await.expect("issued").token;
    for node in &cluster.nodes {
        node.pause();
    }
    let socket = cluster.nodes[1].socket().display().to_string();
    let nobody = home.path().join("no.sock").display().to_string();
    let over_tls = |servers: &str| {
        let (servers, ca) = (servers.to_owned(), ca.clone());
        vec![("JACO_SERVER", servers), ("JACO_CA_CERT", ca), ("JACO_TOKEN", token.clone())]
    };
    for variables in [
        vec![("JACO_SOCKET", socket)],
        vec![("JACO_SOCKET", nobody)],
        vec![("JACO_CONTEXT", "none".to_owned())],
        over_tls(&cluster.nodes[0].address),
        over_tls(&silent),
        over_tls("127.0.0.1:1"),
        over_tls("no-such-host.invalid:7000"),
    ] {
        let shell = Shell { home: home.path(), variables };
        for line in ["delete s", "logs shop-web-", "node drain n", "--token-file - delete s"] {
            let (names, took) = shell.complete(line);
            assert_eq!(names, [""; 0], "{line}: {:?}", shell.variables);
            assert!(took < BOUND, "{line}: {took:?}, {:?}", shell.variables);
        }
    }
    for node in &cluster.nodes {
        node.resume();
    }
}

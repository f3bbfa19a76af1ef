//! Contexts of the command line: which servers a command tries, and what it costs that one of them is off.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, binary, v1};
use tokio::net::TcpListener;
use tokio::process::Command;

/// The longest that a command may take while its first server is off.
const BOUND: Duration = Duration::from_millis(1500);

/// A home directory with the certificate of a cluster and an operator token of this name.
async fn home(cluster: &Cluster, name: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("temporary files can be made");
    let request = v1::IssueOperatorTokenRequest { name: name.to_owned(), ..Default::default() };
    let issued = cluster.client().issue_operator_token(request).await.expect("issued");
    let ca = cluster.nodes[0].folder().join("data/node/ca.crt");
    std::fs::copy(ca, home.path().join("ca")).expect("a member has it");
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).mode(0o600).open(home.path().join("token"));
    file.and_then(|mut file| file.write_all(issued.token.as_bytes())).expect("written");
    home
}

/// Runs `jaco` with this home directory and the context in it. Returns its output, and how long it took.
async fn jaco(home: &Path, line: &str) -> (String, Duration) {
    let mut command = Command::new(binary("jaco"));
    command.env_clear().env("HOME", home).current_dir(home).args(line.split_whitespace());
    let begun = Instant::now();
    let done = command.output().await.expect("jaco can be started");
    let took = begun.elapsed();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    (String::from_utf8(done.stdout).expect("text"), took)
}

/// R-CLI-4: the first server of a context refuses, or takes connections and never answers: commands of all kinds
/// are as good as with another order.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_server_that_is_off_costs_nothing() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let silent_address = silent.local_addr().expect("bound").to_string();
    let refusing = {
        let gone = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        gone.local_addr().expect("bound").to_string()
    };
    for (name, off) in [("ann", silent_address), ("bob", refusing)] {
        let home = home(&cluster, name).await;
        let servers = format!("{off},{}", cluster.nodes[1].address);
        jaco(home.path(), &format!("context set c --servers {servers} --ca ca --token token"))
            .await;
        for line in ["status", "cluster status", "audit --last 1", "node cordon n1"] {
            let (_, took) = jaco(home.path(), line).await;
            assert!(took < BOUND, "{off}: {line} took {took:?}");
        }
        let (_, took) = jaco(home.path(), "node uncordon n1").await;
        assert!(took < BOUND, "{took:?}");
    }
}

/// R-CLI-4: a context learns the members from the answers of its cluster, so it works when the only server that
/// it was given is off; and it needs none of the files any more that it was made from.
#[tokio::test(flavor = "multi_thread")]
async fn a_context_learns_the_members() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let given = (cluster.leader().await + 1) % 3;
    let home = home(&cluster, "ann").await;
    let server = cluster.nodes[given].address.clone();
    jaco(home.path(), &format!("context set c --servers {server} --ca ca --token token")).await;
    for file in ["ca", "token"] {
        std::fs::remove_file(home.path().join(file)).expect("it is there");
    }
    jaco(home.path(), "status").await;
    cluster.nodes[given].pause();
    for line in ["status", "cluster status", "audit --last 1"] {
        let (_, took) = jaco(home.path(), line).await;
        assert!(took < BOUND, "{line} took {took:?}");
    }
    cluster.nodes[given].resume();
    cluster.nodes[given].kill();
    let (_, took) = jaco(home.path(), "status").await;
    assert!(took < BOUND, "{took:?}");
    let (shown, _) = jaco(home.path(), "context get c").await;
    assert!(shown.contains(&server), "what was given stays: {shown}");
}

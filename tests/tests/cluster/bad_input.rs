//! R-IN-3, issue behaviour 6: bad input of any kind gets a clear, positioned error within a bound
//! on time, and changes nothing.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, Node, binary, eventually};

/// An unoptimised build is several times slower than what users run.
const TIME_LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 2 });

/// What the command may allocate, in KiB; the largest file of the cases has 10 MiB.
const MEMORY_LIMIT: &str = "131072";

/// Applies a file with bounded memory: beyond it the command is aborted, and has another exit code.
fn apply(node: &Node, file: &str) -> Output {
    let mut command = Command::new("sh");
    let script = format!("ulimit -d {MEMORY_LIMIT} && exec \"$@\"");
    command.args(["-c", &script, "sh"]).arg(binary("jaco"));
    command.args(["apply", "--detach", "-f", file]);
    command.env("JACO_SOCKET", node.socket()).env_remove("JACO_SERVER").env_remove("JACO_CONTEXT");
    command.output().expect("sh can be started")
}

struct Case {
    name: &'static str,
    text: String,
    /// What the error must say.
    says: &'static str,
}

fn cases() -> Vec<Case> {
    let case = |name, text: &str, says| Case { name, text: text.to_owned(), says };
    let service = "services:\n  web:\n    image: web:1\n";
    let bomb = {
        let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
        for (name, of) in ('b'..='i').zip('a'..='h') {
            let list = vec![format!("*{of}"); 9].join(", ");
            text.push_str(&format!("{name}: &{name} [{list}]\n"));
        }
        format!("x-bomb:\n  {}\n{service}", text.replace('\n', "\n  ").trim_end())
    };
    vec![
        case("malformed", "services:\n  web:\n    image: [unclosed\n", "compose.yaml:"),
        case("unknown-key", &format!("{service}    imagee: web:2\n"), "compose.yaml:4:"),
        Case {
            name: "huge",
            text: format!("# {}\n{service}", "x".repeat(10 << 20)),
            says: "compose.yaml",
        },
        Case {
            name: "deep",
            text: format!("services: {}{}\n", "[".repeat(10_000), "]".repeat(10_000)),
            says: "compose.yaml:",
        },
        Case { name: "bomb", text: bomb, says: "compose.yaml:" },
        case("not-text", "services:\n  web:\n    image: \"\0\"\n", "compose.yaml"),
    ]
}

/// R-IN-3, R-CLI-1, R-CLI-7: exit 3 in bounded time and memory with a place, and the state is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn bad_manifests_are_refused_with_a_position() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let before = cluster.overview(0).await.unwrap();
    for case in cases() {
        let folder = cluster.nodes[0].folder().join(case.name);
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("compose.yaml");
        std::fs::write(&file, &case.text).unwrap();
        let start = Instant::now();
        let out = apply(&cluster.nodes[0], file.to_str().unwrap());
        let took = start.elapsed();
        let said = String::from_utf8_lossy(&out.stderr);
        let shown: String = said.chars().take(600).collect();
        assert_eq!(out.status.code(), Some(3), "{}: {shown}", case.name);
        assert!(said.contains(case.says), "{}: {shown}", case.name);
        assert!(took < TIME_LIMIT, "{}: {took:?}", case.name);
    }
    let after = cluster.overview(0).await.unwrap();
    assert_eq!(after.deployments, before.deployments);
    assert_eq!(after.raft_index, before.raft_index, "nothing was written");
}

/// R-PLACE-3, R-IN-1: pinning to a host that is no member is refused by the cluster, and audited.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_host_is_refused() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let folder = cluster.nodes[0].folder().join("pinned");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("compose.yaml"), "services:\n  web:\n    image: web:1\n").unwrap();
    let overlay =
        "deployment: pinned\nservices:\n  - name: web\n    placement: hosts\n    hosts: [n1, n9]\n";
    let file = folder.join("jaco.yaml");
    std::fs::write(&file, overlay).unwrap();
    let out = cluster.cli(0, &["apply", "--detach", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("unknown_host") && said.contains("n9"), "{said}");
    assert!(cluster.overview(0).await.unwrap().deployments.is_empty());
}

/// A daemon without a container engine starts, because one may be installed later, and says so instead of `ready`;
/// `--check` fails.
#[tokio::test(flavor = "multi_thread")]
async fn missing_engine_is_not_ready() {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let path = folder.path().display();
    let config = folder.path().join("jacod.yaml");
    let text = format!(
        "node_name: n1\ndata_dir: {path}/data\nsecrets_dir: {path}/secrets\nlisten: 127.0.0.1:7999\n\
         socket: {path}/s\nengine: docker\ndocker_host: unix://{path}/docker.sock\n"
    );
    std::fs::write(&config, text).expect("the folder was just made");
    let mut jacod = Command::new(binary("jacod"));
    jacod.arg("--config").arg(&config);
    let checked =
        Command::new(binary("jacod")).arg("--check").arg("--config").arg(&config).output();
    let checked = checked.expect("the daemon can be started");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success() && said.contains("docker.sock"), "{said}");

    let log = folder.path().join("log");
    let file = std::fs::File::create(&log).expect("the folder was just made");
    let mut daemon = jacod.stderr(file).spawn().expect("the daemon can be started");
    let said = eventually("the daemon tells", || async {
        let said = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
        if said.contains("container engine") || said.contains("ready") {
            Ok(said)
        } else {
            Err(said)
        }
    })
    .await;
    daemon.kill().expect("an own child can be killed");
    daemon.wait().expect("an own child can be waited for");
    assert!(said.contains("started without a container engine"), "{said}");
    assert!(
        said.contains("docker.sock") && !said.contains("\"ready\"") && !said.contains(" ready "),
        "{said}"
    );
}

/// R-OPS-1: a copy of the daemon's program alone names the programs that it lacks, with the places where it looked.
#[test]
fn a_program_alone_names_what_it_lacks() {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let (own, lib) = (folder.path().join("bin/jacod"), folder.path().join("lib/jaco"));
    std::fs::create_dir(folder.path().join("bin")).expect("the folder was just made");
    std::fs::copy(binary("jacod"), &own).expect("there is room");
    let config = folder.path().join("jacod.yaml");
    let path = folder.path().to_str().expect("it is UTF-8");
    let text = format!("listen: 127.0.0.1:7999\nnet: {{runtime_dir: {path}}}\n");
    std::fs::write(&config, text).expect("the folder was just made");
    for (part, program) in
        [(&["net"][..], "jacod-net"), (&["edge", "--runtime-dir", path], "jacod-edge")]
    {
        let ended = Command::new(&own).arg("--config").arg(&config).args(part).output();
        let ended = ended.expect("it can be started");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{said}");
        for place in [own.with_file_name(program), lib.join(program)] {
            assert!(said.contains(&*place.to_string_lossy()), "{said}");
        }
        let left = std::fs::read_to_string(folder.path().join("error")).expect("for the daemon");
        assert!(left.contains(program), "{left}");
    }
}

//! Commands in containers, sent to any node.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use jaco_testkit::{Cluster, Engine, binary, eventually, v1};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::scenario::{apply_request, deploy};

/// Runs `jaco` against one node with this standard input.
fn cli(cluster: &Cluster, node: usize, args: &[&str], stdin: &[u8]) -> Output {
    let mut command = Command::new(binary("jaco"));
    command.args(args).env("JACO_SOCKET", cluster.nodes[node].socket());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("jaco can be started");
    let mut input = process.stdin.take().expect("it is a pipe");
    let writing = {
        let stdin = stdin.to_vec();
        // A command that does not read its input closes the pipe.
        std::thread::spawn(move || input.write_all(&stdin).ok())
    };
    let output = process.wait_with_output().expect("jaco ends");
    writing.join().expect("writing does not panic");
    output
}

/// R-CLI-6: a command runs in the replica's container whichever node is asked; input, output and
/// exit code arrive unchanged; the audit log has who ran which program, without its arguments.
#[tokio::test(flavor = "multi_thread")]
async fn command_runs_on_the_node_of_the_replica() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let status = cluster.converged(0, "shop").await;
    // More than any message or buffer holds.
    let many: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[(n % 3) as usize]).collect();
    for node in 0..3 {
        for replica in &status.replicas {
            let out = cli(&cluster, node, &["exec", &replica.id, "--", "/hello", "cat"], &many);
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(out.status.success() && out.stdout == many, "{}: {said}", out.stdout.len());
        }
        let out = cli(&cluster, node, &["exec", "shop/web", "/hello", "exit", "42"], b"");
        assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(42), &b""[..]));
        let secret = ["exec", "-n", "shop/web", "/hello", "dance", "--password=hunter2"];
        let out = cli(&cluster, node, &secret, b"");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), said.as_str()), (Some(2), "unknown command\n"));
    }
    let json = ["exec", "-o", "json", "shop-web-0", "--", "/hello", "echo", "a"];
    let out = cli(&cluster, 1, &json, b"");
    let lines = String::from_utf8(out.stdout).expect("text");
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let node = &status.replicas.iter().find(|one| one.id == "shop-web-0").expect("there").node;
    let line = serde_json::json!({
        "replica": "shop-web-0", "node": node, "stream": "stdout", "text": "a"
    });
    let end = serde_json::json!({ "replica": "shop-web-0", "node": node, "exit_code": 0 });
    assert_eq!(lines, [line, end]);

    let events = events(&cluster, "exec_started").await;
    assert_eq!(events.len(), 3 * 5 + 1);
    for event in &events {
        assert_eq!(event.payload.get("program").map(String::as_str), Some("/hello"), "{event:?}");
        assert!(event.payload.contains_key("replica") && event.payload.contains_key("node"));
        assert!(event.by.starts_with("local:"), "{event:?}");
        assert!(!format!("{event:?}").contains("hunter2"), "{event:?}");
    }
    for node in &cluster.nodes {
        let log = std::fs::read_to_string(node.log_path()).expect("its log");
        assert!(!log.contains("hunter2"));
    }
}

async fn events(cluster: &Cluster, kind: &str) -> Vec<v1::AuditEvent> {
    let request = v1::AuditRequest { kinds: vec![kind.to_owned()], ..Default::default() };
    let mut events = cluster.client().events(request);
    let mut found = Vec::new();
    while let Some(event) = events.next().await.expect("events") {
        found.push(event);
    }
    found
}

/// R-JOB-2: a command runs in a container of its own whichever node is asked; input, output and exit code arrive unchanged, and
/// the audit log tells it from one in the replica's container.
#[tokio::test(flavor = "multi_thread")]
async fn commands_run_beside_replicas() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let status = cluster.converged(0, "shop").await;
    let said = |out: &Output| String::from_utf8_lossy(&out.stderr).into_owned();
    let many: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[(n % 3) as usize]).collect();
    for node in 0..3 {
        for replica in &status.replicas {
            let out = cli(&cluster, node, &["run", &replica.id, "--", "/hello", "cat"], &many);
            assert!(out.status.success() && out.stdout == many, "{}", said(&out));
            assert_eq!(said(&out), "a container of its own, entry point the service's\n");
        }
    }
    let args = ["run", "shop/web", "--entrypoint", "sh", "-n", "--", "/hello", "exit", "42"];
    let out = cli(&cluster, 1, &args, b"");
    assert_eq!(out.status.code(), Some(42), "{}", said(&out));
    assert_eq!(said(&out), "a container of its own, entry point sh\n");
    let events = events(&cluster, "exec_started").await;
    assert_eq!(events.len(), 3 * 3 + 1);
    let own = |event: &v1::AuditEvent| event.payload.get("container").is_some_and(|of| of == "own");
    assert!(events.iter().all(own), "{events:?}");

    let wrong = [
        (&["run", "shop/web", "-u", "root"][..], "the following required arguments"),
        (&["run", "shop/web", "--detach", "--", "sh"], "cannot be used with"),
        (&["run", "shop/web"], "`jaco run shop/web -- COMMAND` runs a command"),
        (&["run", "shop/wbe", "--", "sh"], "error[service_not_found]"),
        (&["run", "shop-web-9", "--", "sh"], "error[replica_not_found]"),
    ];
    for (args, words) in wrong {
        let out = cli(&cluster, 0, args, b"");
        assert!(!out.status.success() && said(&out).contains(words), "{args:?}: {}", said(&out));
    }
    // An entry point that is not started would be written into the audit log in place of what is.
    let start = v1::ExecStart {
        replica: "shop-web-0".to_owned(),
        command: vec!["/hello".to_owned()],
        entrypoint: "harmless".to_owned(),
        ..v1::ExecStart::default()
    };
    let refusal = cluster.client().exec(start).await.expect_err("it is refused").to_string();
    assert!(refusal.contains("entry point"), "{refusal}");
    let status = cluster.overview(0).await.expect("a status");
    assert_eq!(status.replicas.len(), 3, "a command is no replica");
}

/// R-CLI-6, R-CLI-8: a command that cannot run is refused with a reason and not audited.
#[tokio::test(flavor = "multi_thread")]
async fn refused_command_has_a_reason() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let request = apply_request("shop", "web:1", 1);
    let labels = r#""labels":{"jaco.fake.pull_error":"no such image"},"image""#;
    let compose_json = request.compose_json.replacen(r#""image""#, labels, 1);
    let request = v1::ApplyRequest { compose_json, ..request };
    cluster.client().apply(request).await.expect("it is admitted");
    let refused = |args: &[&str], code: i32, words: &str| {
        let out = cli(&cluster, 0, &[&["exec"], args].concat(), b"");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(code) && said.contains(words), "{args:?}: {said}");
    };
    eventually("a replica waits", || async {
        let status = cluster.overview(0).await?;
        if status.replicas.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
    refused(&["shop/web", "sh"], 3, "error[replica_not_running]: replica shop-web-0 is p");
    refused(&["shop-web-9", "sh"], 3, "error[replica_not_found]");
    refused(&["shop/wbe", "sh"], 3, "error[service_not_found]: deployment shop has no service wbe");
    refused(&["nothing/web", "sh"], 3, "error[deployment_not_found]");
    refused(&["-e", "SECRET", "shop-web-0", "sh"], 3, "KEY=value");
    assert_eq!(events(&cluster, "exec_started").await, []);
}

/// A pseudo-terminal of this size: both of its ends.
fn terminal(columns: u16, rows: u16) -> (File, File) {
    let seat = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal can be made");
    grantpt(&seat).expect("it is ours");
    unlockpt(&seat).expect("it is ours");
    let path = ptsname(&seat, Vec::new()).expect("it has a name");
    let path = path.into_string().expect("it is text");
    let programs = OpenOptions::new().read(true).write(true).open(path).expect("it is there");
    tcsetwinsize(&programs, size(columns, rows)).expect("it is a terminal");
    (seat.into(), programs)
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Forwards the output of a terminal until it is closed.
fn watch(mut seat: File) -> Receiver<Vec<u8>> {
    let (sender, seen) = mpsc::channel();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = seat.read(&mut piece) {
            if sender.send(piece[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    seen
}

/// Waits until this text was printed.
fn appears(seen: &Receiver<Vec<u8>>, wanted: &str) {
    let mut text = String::new();
    while !text.contains(wanted) {
        let piece = seen.recv_timeout(Duration::from_secs(30));
        let piece = piece.unwrap_or_else(|_| panic!("no {wanted:?} in {text:?}"));
        text += &String::from_utf8_lossy(&piece);
    }
}

/// R-CLI-6: at a terminal the command gets a terminal of the same size, also after a resize; keys
/// go to the command, not to `jaco`; afterwards the terminal has its previous mode.
#[tokio::test(flavor = "multi_thread")]
async fn command_gets_a_terminal_and_it_is_restored() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let (mut seat, programs) = terminal(101, 37);
    let seen = watch(seat.try_clone().expect("it can be shared"));
    let of_programs = || Stdio::from(programs.try_clone().expect("it can be shared"));
    let mut command = Command::new(binary("jaco"));
    command.args(["exec", "shop-web-1", "/hello", "size"]);
    command.env("JACO_SOCKET", cluster.nodes[0].socket());
    command.stdin(of_programs()).stdout(of_programs()).stderr(of_programs());
    let mut jaco = command.spawn().expect("jaco can be started");
    appears(&seen, "101x37");
    let modes = tcgetattr(&programs).expect("a terminal").local_modes;
    assert!(!modes.intersects(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG));
    tcsetwinsize(&programs, size(55, 20)).expect("a terminal");
    // `jaco` does not own this terminal, so the kernel sends it no SIGWINCH.
    let pid = Pid::from_raw(i32::try_from(jaco.id()).expect("a process id")).expect("not 0");
    kill_process(pid, Signal::WINCH).expect("it runs");
    appears(&seen, "55x20");
    // Ctrl-D.
    seat.write_all(&[4]).expect("it is open");
    assert_eq!(jaco.wait().expect("it ends").code(), Some(0));
    let modes = tcgetattr(&programs).expect("a terminal").local_modes;
    assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG));
}

/// R-CLI-6: readers that stop reading block neither the nodes in between nor other requests.
#[tokio::test(flavor = "multi_thread")]
async fn t90_stalled_readers_do_not_block_other_requests() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let status = cluster.converged(leader, "shop").await;
    let at_leader = |one: &&v1::ReplicaInfo| one.node == cluster.nodes[leader].name;
    let replica = status.replicas.iter().find(at_leader).expect("they are spread").id.clone();
    let stalled = cluster.nodes[follower].client();
    let mut readers = Vec::new();
    // Each reads 2 MiB before it stalls, and a connection buffers 5 MiB for all its streams.
    for _ in 0..8 {
        let start = v1::ExecStart {
            replica: replica.clone(),
            command: vec!["/hello".to_owned(), "flood".to_owned()],
            ..v1::ExecStart::default()
        };
        readers.push(stalled.exec(start).await.expect("it is started"));
    }
    // No state shows that a reader stalled; its buffers fill within a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for number in 0..5 {
        let request = apply_request(&format!("next-{number}"), "web:1", 1);
        let asked = cluster.nodes[follower].client();
        let applied = tokio::time::timeout(Duration::from_secs(5), asked.apply(request)).await;
        applied.expect("the leader is reached").expect("it is admitted");
    }
    drop(readers);
}

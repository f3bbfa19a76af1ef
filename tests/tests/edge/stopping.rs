//! Processes of the edge are stopped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jaco_testkit::{binary, eventually_within, router};
use rustix::process::{Pid, Signal, kill_process};

/// How long an edge may take to start its successor: it waits 5 s for a router that has copies of its listeners.
const REPLACING: Duration = Duration::from_secs(12);

/// How soon both end. The edge would wait 15 s for a successor that does not serve.
const STOPPED: Duration = Duration::from_secs(5);

/// R-EDGE-1: an edge that waits for its successor ends when it is stopped, and the successor with it. Nobody gives this
/// one the plan without which it does not serve.
#[tokio::test(flavor = "multi_thread")]
async fn an_edge_that_waits_for_its_successor_ends_when_it_is_stopped() {
    let folder = tempfile::tempdir().expect("there is room");
    let router = folder.path().join("router");
    let mut edge = Running::start(&router);
    eventually_within(REPLACING, "the edge listens", || async {
        let socket = folder.path().join("router-edge/listeners");
        if socket.exists() { Ok(()) } else { Err("no socket") }
    })
    .await;
    signal(edge.process.id(), Signal::HUP);
    eventually_within(REPLACING, "it starts its successor", || async {
        let edges = router::edges(&router);
        if edges.len() == 2 { Ok(()) } else { Err(format!("{edges:?}")) }
    })
    .await;
    signal(edge.process.id(), Signal::TERM);
    eventually_within(STOPPED, "no edge runs", || {
        // A process that has ended stays in the table until its parent waits for it.
        let ended = edge.process.try_wait().expect("it is ours");
        let edges = router::edges(&router);
        let gone = ended.is_some_and(|status| status.success()) && edges.is_empty();
        async move { if gone { Ok(()) } else { Err(format!("{ended:?} {edges:?}")) } }
    })
    .await;
}

/// An edge without daemon and router.
struct Running {
    process: Child,
    router: PathBuf,
}

impl Running {
    fn start(router: &Path) -> Self {
        let mut folder = router.as_os_str().to_owned();
        folder.push("-edge");
        let mut command = Command::new(binary("jacod"));
        command.args(["edge", "--runtime-dir"]).arg(folder).stdout(Stdio::null());
        Self { process: command.spawn().expect("it starts"), router: router.to_owned() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        router::edges(&self.router).into_iter().for_each(router::end);
        let _waited = self.process.wait().is_err();
    }
}

fn signal(process: u32, signal: Signal) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process has a number"), signal).expect("it is ours");
}

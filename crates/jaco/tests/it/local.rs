//! `jaco dev` and `jaco context` without a daemon.

use std::os::unix::fs::PermissionsExt;

use crate::fixture::Session;
use crate::queries::certificate;

/// A daemon that exits at once is reported with its last log lines, and no files stay.
#[test]
fn daemon_that_does_not_start_is_reported() {
    let session = Session::alone();
    session.write("jacod", "#!/bin/sh\necho no disk today >&2\nexit 1\n");
    let program = session.folder.path().join("jacod");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let name = format!("it-{}", std::process::id());
    let run = session.run(&format!("dev up --nodes 1 --engine fake --name {name} --jacod ./jacod"));
    assert_eq!(run.code, Some(9), "{run:?}");
    assert!(run.err.contains("because: no disk today"), "{run:?}");
    let left = session.folder.path().join(".local/state/jaco/dev").join(&name);
    assert!(!left.exists());
    let run = session.run(&format!("dev down --name {name}"));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
}

#[test]
fn contexts_are_stored_and_used() {
    let session = Session::alone();
    let without_socket = |line: &str| {
        let output = session.command(line).env_remove("JACO_SOCKET").output().unwrap();
        session.result(output)
    };
    assert_eq!(session.run("context set a --unix /nowhere/a.sock").code, Some(0));
    let add = "context add b --servers b:7000 --ca b.crt --token b.token";
    assert_eq!(session.run(add).code, Some(1), "there is no certificate");
    session.write("b.crt", &certificate());
    session.write("b.token", &jaco_pki::OperatorToken::mint().reveal());
    assert_eq!(session.run(add).code, Some(2), "others can read the token");
    let token = session.folder.path().join("b.token");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(session.run(add).code, Some(0));
    assert_eq!(session.run(&add.replace(" b ", " ../b ")).code, Some(2), "a name is no path");
    let listed = session.run("context ls").out;
    assert_eq!(
        listed,
        "CONTEXT  CURRENT  CLUSTER\na        yes      /nowhere/a.sock\nb        -        b:7000\n"
    );
    let shown = session.run("context get b").out;
    assert_eq!(session.run("context show b").out, shown, "an alias");
    assert!(shown.contains("HOME/.config/jaco/contexts/b/token"), "{shown}");
    // The files that it was made from may go.
    for file in ["b.crt", "b.token"] {
        std::fs::remove_file(session.folder.path().join(file)).unwrap();
    }
    let run = without_socket("--context b status");
    assert_eq!(run.code, Some(9), "{run:?}");
    assert!(run.err.contains("b:7000"), "{run:?}");
    let kept = session.folder.path().join(".config/jaco/contexts/b");
    for file in ["ca.crt", "token"] {
        let mode = std::fs::metadata(kept.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(session.run("context rm b").code, Some(0));
    assert!(!kept.exists());
    let run = without_socket("status");
    assert_eq!(run.code, Some(9));
    assert!(run.err.contains("/nowhere/a.sock"), "{run:?}");
    assert_eq!(session.run("context use nope").code, Some(2));
    assert_eq!(session.run("context rm a").code, Some(0));
    assert!(without_socket("status").err.contains("/run/jaco/jaco.sock"));
}

/// A process that looks like the daemon of a node. Ended when dropped.
struct Daemon(std::process::Child);

impl Daemon {
    fn start(config: &std::path::Path) -> Self {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "while :; do sleep 0.1; done", "jacod", "--config"]).arg(config);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have been stopped by the command under test.
        let _gone = self.0.kill().is_err();
        self.0.wait().unwrap();
    }
}

/// Daemons that a user started again are the cluster's: `ls` shows them and `down` stops them; `start` starts
/// those that have stopped, and no others.
#[test]
fn restarted_daemons_are_found() {
    let session = Session::alone();
    let data = session.folder.path().join("data");
    let node = |name: &str| {
        let file = |file: &str| data.join(name).join(file).display().to_string();
        serde_json::json!({
            "name": name,
            "address": "127.9.9.9:7000",
            "socket": file("jaco.sock"),
            "config": file("jacod.yaml"),
            "log": file("jacod.log"),
            "pid": 4_194_304,
        })
    };
    let record = serde_json::json!({
        "name": "it", "engine": "fake", "data": data.display().to_string(),
        "nodes": [node("n1"), node("n2")],
    });
    session.write(".local/state/jaco/dev/it/cluster.json", &record.to_string());
    session.write("data/n2/jacod.log", "");
    let mut daemon = Daemon::start(&data.join("n1/jacod.yaml"));
    let listed = || -> serde_json::Value {
        serde_json::from_str(&session.run("dev ls --name it -o json").out).unwrap()
    };
    let nodes = listed();
    assert_eq!((&nodes[0]["running"], &nodes[0]["pid"]), (&true.into(), &daemon.0.id().into()));
    assert_eq!(nodes[1]["running"], false);

    session.write("jacod", "#!/bin/sh\necho no disk today >&2\nexit 1\n");
    let program = session.folder.path().join("jacod");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(session.run("dev start n3 --name it --jacod ./jacod").code, Some(2));
    let run = session.run("dev start n1 --name it --jacod ./jacod");
    assert_eq!(run.code, Some(0), "it runs: {}", run.err);
    let run = session.run("dev start --name it --jacod ./jacod");
    assert_eq!(run.code, Some(9), "{run:?}");
    assert!(run.err.contains("the daemon of n2") && run.err.contains("no disk today"), "{run:?}");

    let run = session.run("dev down --name it");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(daemon.0.try_wait().unwrap().is_some(), "it was stopped");
    assert!(!data.join("n1").exists());
}

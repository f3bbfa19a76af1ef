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

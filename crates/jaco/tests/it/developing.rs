//! `jaco dev` and `jaco context`, as far as they go without a daemon.

use std::os::unix::fs::PermissionsExt;

use crate::session::Session;

/// A daemon that ends at once is told with its last words, and nothing stays behind.
#[test]
fn a_daemon_that_does_not_start_is_told() {
    let session = Session::alone();
    session.write("jacod", "#!/bin/sh\necho no disk today >&2\nexit 1\n");
    let program = session.folder.path().join("jacod");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let name = format!("it-{}", std::process::id());
    let did = session.run(&format!("dev up --nodes 1 --engine fake --name {name} --jacod ./jacod"));
    assert_eq!(did.code, Some(9), "{did:?}");
    assert!(did.err.contains("because: no disk today"), "{did:?}");
    let left = session.folder.path().join(".local/state/jaco/dev").join(&name);
    assert!(!left.exists());
    let did = session.run(&format!("dev down --name {name}"));
    assert_eq!((did.code, did.err.as_str()), (Some(0), ""), "{did:?}");
}

#[test]
fn contexts_are_kept_and_used() {
    let session = Session::alone();
    let without_socket = |line: &str| {
        let output = session.command(line).env_remove("JACO_SOCKET").output().unwrap();
        session.did(output)
    };
    assert_eq!(session.run("context add a --unix /nowhere/a.sock").code, Some(0));
    assert_eq!(
        session.run("context add b --servers b:7000 --ca b.crt --token b.token").code,
        Some(0)
    );
    let listed = session.run("context ls").out;
    assert_eq!(
        listed,
        "CONTEXT  CURRENT  CLUSTER\na        yes      /nowhere/a.sock\nb        -        b:7000\n"
    );
    let shown = session.run("context show b").out;
    assert!(
        shown.contains("token_file: HOME/b.token") || shown.contains("HOME/b.token"),
        "{shown}"
    );
    let did = without_socket("status");
    assert_eq!(did.code, Some(9));
    assert!(did.err.contains("/nowhere/a.sock"), "{did:?}");
    assert_eq!(session.run("context use nope").code, Some(2));
    assert_eq!(session.run("context rm a").code, Some(0));
    assert!(without_socket("status").err.contains("/run/jaco/jaco.sock"));
}

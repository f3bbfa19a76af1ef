//! `jaco registry`: where a password comes from, and that it is never printed.

use std::io::{Read, Write};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::fixture::{Run, Session};

/// A cluster that records the credentials it stores.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<Vec<v1::StoreRegistryRequest>>>);

impl Script for Cluster {
    fn store_registry(
        &self,
        request: v1::StoreRegistryRequest,
        _: Option<&str>,
    ) -> Answer<v1::StoreRegistryResponse> {
        let registry = Some(info(&request));
        self.0.lock().unwrap().push(request);
        Ok(v1::StoreRegistryResponse { registry, change: "created".to_owned() })
    }

    fn remove_registry(
        &self,
        request: v1::RemoveRegistryRequest,
        _: Option<&str>,
    ) -> Answer<v1::RemoveRegistryResponse> {
        assert!(!request.request_id.is_empty());
        let mut stored = self.0.lock().unwrap();
        let before = stored.iter().find(|one| one.registry == request.registry);
        let username = before.map(|one| one.username.clone()).unwrap_or_default();
        stored.retain(|one| one.registry != request.registry);
        Ok(v1::RemoveRegistryResponse { registry: request.registry, username })
    }

    fn list_registries(
        &self,
        _: v1::ListRegistriesRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListRegistriesResponse> {
        let registries = self.0.lock().unwrap().iter().map(info).collect();
        Ok(v1::ListRegistriesResponse { registries })
    }
}

fn info(request: &v1::StoreRegistryRequest) -> v1::RegistryInfo {
    v1::RegistryInfo {
        registry: request.registry.clone(),
        username: request.username.clone(),
        stored_at_ms: 1_700_000_000_000,
        by: "local:0".to_owned(),
    }
}

fn cluster() -> (Session, Cluster) {
    let cluster = Cluster::default();
    (Session::with(cluster.clone()), cluster)
}

fn piped(session: &Session, line: &str, input: &[u8]) -> Run {
    let mut command = session.command(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that is refused early does not read it.
    child.stdin.take().unwrap().write_all(input).ok();
    session.result(child.wait_with_output().unwrap())
}

/// R-CLI-6: a password is read from stdin, stored under the canonical name of the registry, and never
/// printed.
#[test]
fn login_is_stored_listed_and_removed() {
    let (session, cluster) = cluster();
    let login = "registry login https://GHCR.io/ -u robot --password-stdin";
    let run = piped(&session, login, b"hunter2\n");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert_eq!(run.out, "credentials of robot at ghcr.io stored\n");
    {
        let stored = cluster.0.lock().unwrap();
        let one = &stored[0];
        let sent = (one.registry.as_str(), one.username.as_str(), one.password.as_str());
        assert_eq!(sent, ("ghcr.io", "robot", "hunter2"));
        assert!(!one.request_id.is_empty());
    }
    let json = piped(&session, &format!("{login} -o json"), b"hunter2");
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let expected = serde_json::json!({
        "registry": "ghcr.io",
        "username": "robot",
        "stored_at": "2023-11-14T22:13:20Z",
        "by": "local:0",
    });
    assert_eq!(json, expected);
    let listed = session.run("registry list");
    let row: Vec<&str> = listed.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], *row.last().unwrap()), ("ghcr.io", "robot", "local:0"));
    let listed = session.run("registry ls -o yaml");
    assert!(listed.out.contains("username: robot") && !listed.out.contains("hunter2"));
    let removed = session.run("registry logout GHCR.io");
    assert_eq!(removed.out, "credentials of robot at ghcr.io removed\n");
    let again = session.run("registry logout ghcr.io -o json");
    let json: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(json, serde_json::json!({"registry": "ghcr.io", "outcome": "absent"}));
    assert_eq!(again.code, Some(0), "removal is idempotent");
}

/// R-CLI-6: an invalid login is refused with advice before anything is sent; a password cannot be given on
/// the command line.
#[test]
fn invalid_login_is_refused() {
    let (session, cluster) = cluster();
    for (line, input, expected) in [
        ("login ghcr.io -u robot", "hunter2", "--password-stdin"),
        ("login ghcr.io -u robot --password-stdin", "", "is empty"),
        ("login ghcr.io -u robot --password-stdin", "\n", "is empty"),
        ("login ghcr.io --password-stdin", "hunter2", "--username"),
        ("login ghcr.io/team -u robot --password-stdin", "hunter2", "leave out what follows"),
        ("login ghcr -u robot --password-stdin", "hunter2", "no image can name it"),
        ("login ghcr.io -u robot -p hunter2", "", "unexpected argument"),
        ("login ghcr.io -u robot --password hunter2", "", "unexpected argument"),
        ("login ghcr.io -u robot hunter2", "", "unexpected argument"),
        ("logout nowhere/team", "", "leave out what follows"),
    ] {
        let run = piped(&session, &format!("registry {line}"), input.as_bytes());
        assert_eq!(run.code, Some(2), "{line}: {}", run.err);
        assert!(run.err.contains(expected), "{line}: {}", run.err);
    }
    assert!(cluster.0.lock().unwrap().is_empty());
}

/// Runs `line` on a new terminal and types `typed` at the prompt. Returns the output of the command and
/// what the terminal echoed.
fn at_terminal(session: &Session, line: &str, typed: &[u8]) -> (Output, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let keyboard = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut command = session.command(line);
    command.stdin(keyboard.try_clone().unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut asked = [0; "Password of ".len()];
    child.stderr.as_mut().unwrap().read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"Password of ");
    let mut terminal = std::fs::File::from(terminal);
    terminal.write_all(typed).unwrap();
    let run = child.wait_with_output().unwrap();
    // Echoed in any case, as the mode is restored: marks the end of the output to read.
    terminal.write_all(b"!\n").unwrap();
    let mut shown = Vec::new();
    let mut byte = [0];
    while !shown.ends_with(b"!") {
        terminal.read_exact(&mut byte).unwrap();
        shown.push(byte[0]);
    }
    drop(keyboard);
    (run, String::from_utf8(shown).unwrap())
}

/// R-CLI-6: on a terminal the password is prompted for without echo; afterwards the echo is restored, also
/// after Ctrl-C, which stores nothing.
#[test]
fn password_is_typed_without_echo() {
    let (session, cluster) = cluster();
    let line = "registry login ghcr.io -u robot";
    let (run, shown) = at_terminal(&session, line, b"hunter2\n");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert_eq!(String::from_utf8(run.stderr).unwrap(), "robot at ghcr.io: \n");
    assert_eq!(shown, "!", "nothing is echoed before the mode is restored");
    assert_eq!(cluster.0.lock().unwrap()[0].password, "hunter2");
    let (run, shown) = at_terminal(&session, line, b"hunt\x03");
    assert_eq!((run.status.code(), shown.as_str()), (Some(130), "!"));
    assert_eq!(cluster.0.lock().unwrap().len(), 1);
}

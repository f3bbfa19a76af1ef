//! `jaco compose-import`, with a program that answers as the container engine did.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::fixture::{Run, Session};

/// The password of the recorded project.
const PASSWORD: &str = "kept-out-of-sight";

/// Answers `ls` with one id, and `inspect` with what was recorded of each kind.
const ENGINE: &str = r#"#!/bin/sh
echo "$*" >> HOME/asked
case "$1 $2" in
  "container ls") case "$*" in *project=none*) ;; *) echo 1;; esac;;
  "info --format") echo false;;
  "container inspect") cat HOME/containers;;
  "image inspect") cat HOME/images;;
  "network inspect") cat HOME/networks;;
  "volume inspect") cat HOME/volumes;;
  *) echo "not answered: $*" >&2; exit 1;;
esac
"#;

fn session() -> Session {
    let session = Session::alone();
    let recorded = include_str!("../../src/import/tests/recorded/compose_v1.json");
    let mut recorded: Value = serde_json::from_str(recorded).unwrap();
    for kind in ["containers", "images", "networks", "volumes"] {
        session.write(kind, &recorded[kind].take().to_string());
    }
    session.write("docker", &ENGINE.replace("HOME", &session.folder.path().display().to_string()));
    let program = session.folder.path().join("docker");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    session
}

fn command(session: &Session, line: &str) -> Command {
    let mut command = session.command(line);
    command.env("JACO_DOCKER", session.folder.path().join("docker")).env("PATH", "/usr/bin:/bin");
    command
}

fn run(session: &Session, line: &str) -> Run {
    session.result(command(session, line).output().unwrap())
}

/// R-IN-1, R-IN-5: the written folder is one that `jaco validate` accepts; the password is in the file, which only its owner can
/// read, and nowhere else. Of the engine, nothing but `ls`, `info` and `inspect` is asked.
#[test]
fn a_project_becomes_a_folder() {
    let session = session();
    let told = run(&session, "compose-import shop");
    assert_eq!(told.code, Some(0), "{}{}", told.out, told.err);
    let valid = session.run("validate shop");
    assert_eq!(valid.code, Some(0), "{}", valid.err);
    let path = session.folder.path().join("shop/compose.yaml");
    assert!(fs::read_to_string(&path).unwrap().contains(PASSWORD));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let again = run(&session, "compose-import shop");
    assert_eq!(again.code, Some(2), "{}", again.err);
    assert!(again.err.contains("shop exists and is not empty"), "{}", again.err);
    let replaced = run(&session, "compose-import shop --force -o json");
    assert_eq!(replaced.code, Some(0), "{}", replaced.err);
    for said in [&told.out, &told.err, &again.err, &replaced.out, &replaced.err] {
        assert!(!said.contains(PASSWORD), "{said}");
    }
    let report: Value = serde_json::from_str(&replaced.out).unwrap();
    assert_eq!((&report["valid"], &report["name"]), (&Value::from(true), &Value::from("shop")));
    let asked = fs::read_to_string(session.folder.path().join("asked")).unwrap();
    let only_reads =
        |line: &str| ["ls", "inspect", "--format"].contains(&line.split(' ').nth(1).unwrap());
    assert!(asked.lines().all(only_reads), "{asked}");
}

/// R-CLI-6: the compose file goes to stdout, and what is to be known about it to stderr; not both into JSON.
#[test]
fn the_compose_file_is_printed() {
    let session = session();
    let printed = run(&session, "compose-import shop --folder -");
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    session.write("printed/compose.yaml", &printed.out);
    assert_eq!(session.run("validate printed").code, Some(0));
    assert!(printed.err.contains("Does not carry over"), "{}", printed.err);
    assert_eq!(run(&session, "compose-import shop --folder - -o json").code, Some(2));
}

/// R-CLI-6: without a name, what can be imported is listed; a name that nothing has is refused with that advice.
#[test]
fn projects_are_listed() {
    let session = session();
    let listed = run(&session, "compose-import");
    assert!(listed.out.contains("project  shop"), "{}{}", listed.out, listed.err);
    let json: Value = serde_json::from_str(&run(&session, "compose-import -o json").out).unwrap();
    assert_eq!(
        (&json[0]["kind"], &json[0]["name"]),
        (&Value::from("project"), &Value::from("shop"))
    );
    let refused = run(&session, "compose-import none");
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("without a name lists"), "{}", refused.err);
    assert!(!session.folder.path().join("none").exists());
    let stack = run(&session, "compose-import --stack shop");
    assert!(stack.code == Some(2) && stack.err.contains("no manager of a swarm"), "{}", stack.err);
    assert_eq!(run(&session, "compose-import shop --stack shop").code, Some(2));
}

/// R-IN-5: a compose file with secrets is not printed where it is seen.
#[test]
fn secrets_are_not_printed_on_a_terminal() {
    let session = session();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let mut screen = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut command = command(&session, "compose-import shop --folder -");
    let refused = command.stdout(screen.try_clone().unwrap()).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("stdout is a terminal") && !said.contains(PASSWORD), "{said}");
    // Behind whatever was printed.
    screen.write_all(b"!").unwrap();
    let mut first = [0];
    File::from(terminal).read_exact(&mut first).unwrap();
    assert_eq!(&first, b"!");
}

/// R-IN-1: what a cluster would refuse is said with what to change, and by the exit code.
#[test]
fn errors_of_the_compose_file_are_listed() {
    let session = session();
    let containers = session.folder.path().join("containers");
    let mut recorded: Value = serde_json::from_slice(&fs::read(&containers).unwrap()).unwrap();
    for container in recorded.as_array_mut().unwrap() {
        container["HostConfig"]["Privileged"] = true.into();
    }
    fs::write(containers, recorded.to_string()).unwrap();
    let told = run(&session, "compose-import shop");
    assert_eq!(told.code, Some(3), "{}{}", told.out, told.err);
    assert!(told.out.contains("until the errors below are corrected"), "{}", told.out);
    assert!(
        told.out.contains("add the label `jaco.io/allow-privileged: \"true\"`"),
        "{}",
        told.out
    );
    let json = run(&session, "compose-import shop --force -o json");
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, &report["valid"]), (Some(3), &Value::from(false)));
    assert_eq!(session.run("validate shop").code, Some(3));
}

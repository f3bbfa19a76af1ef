//! Runs `jaco` with its own home folder, socket, and a daemon that answers from a script.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use jaco_client::scripted::{Running, Script, listen};
use jaco_proto::v1;

pub(crate) struct Session {
    pub(crate) folder: tempfile::TempDir,
    daemon: Option<Running>,
}

/// The result of a command: exit code, stdout, stderr.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Session {
    /// Without a daemon.
    pub(crate) fn alone() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), daemon: None }
    }

    /// With a daemon that answers from this script.
    pub(crate) fn with(script: impl Script) -> Self {
        let mut session = Self::alone();
        session.daemon = Some(listen(&session.socket(), Arc::new(script)));
        session
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A `jaco` command without the environment of the machine.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jaco"));
        command
            .env_clear()
            .env("HOME", self.folder.path())
            .env("JACO_SOCKET", self.socket())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .args(line.split_whitespace());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Run {
        self.result(self.command(line).output().unwrap())
    }

    /// The result of a command, without what differs between runs.
    pub(crate) fn result(&self, output: Output) -> Run {
        let folder = self.folder.path().display().to_string();
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap().replace(&folder, "HOME");
            text.lines().map(without_time).collect::<String>()
        };
        Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// A line without its elapsed time.
fn without_time(line: &str) -> String {
    match line.strip_prefix('[').and_then(|rest| rest.split_once("s] ")) {
        Some((_, rest)) => format!("[time] {rest}\n"),
        None => format!("{line}\n"),
    }
}

/// A deployment `shop` at revision 2 with one service `web` of two replicas.
pub(crate) fn shop(status: &str, states: [&str; 2]) -> v1::StatusResponse {
    let running = states.iter().filter(|state| **state == "running").count();
    let service = v1::ServiceInfo {
        name: "web".to_owned(),
        image: "web:2".to_owned(),
        placement: "spread".to_owned(),
        desired: 2,
        running: u32::try_from(running).unwrap(),
        ..Default::default()
    };
    let replica = |(number, state): (usize, &&str)| v1::ReplicaInfo {
        id: format!("shop-web-{number}"),
        deployment: "shop".to_owned(),
        service: "web".to_owned(),
        node: format!("n{}", number + 1),
        state: (*state).to_owned(),
        image: "web:2".to_owned(),
        revision: 2,
        ..Default::default()
    };
    v1::StatusResponse {
        raft_index: 40,
        leader: "n1".to_owned(),
        answered_by: "n2".to_owned(),
        deployments: vec![v1::DeploymentInfo {
            name: "shop".to_owned(),
            revision: 2,
            status: status.to_owned(),
            services: vec![service],
            ..Default::default()
        }],
        replicas: states.iter().enumerate().map(replica).collect(),
        nodes: vec![node("n1", "active", 1), node("n2", "draining", 1)],
        staleness: None,
        more: false,
        past: None,
    }
}

pub(crate) fn node(name: &str, availability: &str, replicas: u32) -> v1::NodeInfo {
    v1::NodeInfo {
        id: 1,
        hostname: name.to_owned(),
        address: format!("{name}:7000"),
        status: "ready".to_owned(),
        availability: availability.to_owned(),
        suffrage: "voter".to_owned(),
        replicas,
        ..Default::default()
    }
}

/// The plan of revision 2 of `shop`: one change of each kind.
pub(crate) fn preview() -> v1::Preview {
    let change =
        |action: &str, number: u32, from: &str, node: &str, reason: &str| v1::PlannedChange {
            action: action.to_owned(),
            replica: format!("shop-web-{number}"),
            node: node.to_owned(),
            reason: reason.to_owned(),
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            from_node: from.to_owned(),
            ..Default::default()
        };
    let replaced = v1::PlannedChange {
        order: "start_first".to_owned(),
        fields: vec!["image web:1 → web:2".to_owned(), "environment.PORT".to_owned()],
        ..change("replace", 0, "n1", "n1", "spec_changed")
    };
    let survival =
        |of: &str, known, losses| v1::Survival { of: of.to_owned(), known, tried: true, losses };
    let loss = v1::Loss {
        lost: "n2".to_owned(),
        waiting: [("shop/web".to_owned(), 2)].into(),
        ..v1::Loss::default()
    };
    v1::Preview {
        services: vec![v1::PlannedService {
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            change: "updated".to_owned(),
            fields: vec!["image web:1 → web:2".to_owned(), "replicas 3 → 4".to_owned()],
            ..Default::default()
        }],
        changes: vec![
            replaced,
            change("move", 1, "n3", "n2", "moved"),
            change("stop", 2, "n2", "n2", "surplus"),
            change("create", 3, "", "n2", "spread"),
        ],
        survival: vec![survival("node", 3, vec![loss]), survival("zone", 0, Vec::new())],
        ports: Vec::new(),
        digest: "d1".to_owned(),
        based_on: 39,
        complete: true,
        waits: Vec::new(),
        stays: Vec::new(),
        routes: Vec::new(),
    }
}

//! What a machine sends and receives on its wire.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use jaco_testkit::eventually_within;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use jaco_testkit::engines::PATIENCE;

/// A capture that runs.
pub(super) struct Capture {
    folder: TempDir,
    process: Child,
}

impl Capture {
    /// `inside` runs what is appended on the machine.
    pub(super) async fn start(inside: &mut Command) -> Self {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        let file = folder.path().join("packets");
        // As root, or it could not write there; each packet at once.
        inside.args(["tcpdump", "-Z", "root", "-U", "-s", "0", "-i", "wire", "-w"]).arg(&file);
        let process = inside.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = process.spawn().expect("tcpdump can be run");
        let capture = Self { folder, process };
        eventually_within(PATIENCE, "the capture has begun", || async {
            // Its head is written once the interface is open.
            let length = capture.bytes().len();
            if length >= 24 { Ok(()) } else { Err(length) }
        })
        .await;
        capture
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("packets")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap_or_default()
    }

    /// All that was captured, once this is part of it.
    pub(super) async fn end(self, last: &[u8]) -> Vec<u8> {
        eventually_within(PATIENCE, "the last packet is captured", || async {
            let bytes = self.bytes();
            let is_there = bytes.windows(last.len()).any(|window| window == last);
            if is_there { Ok(bytes) } else { Err(bytes.len()) }
        })
        .await
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let _gone = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_err());
        let _gone = self.process.wait().is_err();
    }
}

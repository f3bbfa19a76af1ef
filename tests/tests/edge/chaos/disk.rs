//! Where daemons have their data: a file system of each machine's own, which can be full.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::{ran, v1};

/// Between two looks at a daemon whose disk has space again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long it may take to answer; without an answer it is asked again.
const ANSWER: Duration = Duration::from_secs(3);

/// What a machine's data may take.
const SIZE: &str = "size=192m";

/// The file systems. Dropping them takes them away.
pub(crate) struct Disks {
    folders: Vec<PathBuf>,
}

impl Disks {
    /// Moves the data of each daemon, one after the other, to a file system of its own.
    pub(crate) async fn give(machines: &mut Machines) -> Self {
        let mut disks = Self { folders: Vec::new() };
        for at in 0..machines.cluster.nodes.len() {
            let node = &mut machines.cluster.nodes[at];
            let (data, before) = (node.folder().join("data"), node.folder().join("before"));
            node.stop();
            fs::rename(&data, &before).expect("it is ours");
            fs::create_dir(&data).expect("it is ours");
            ran(Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(&data));
            disks.folders.push(data.clone());
            ran(Command::new("cp").arg("-a").arg(before.join(".")).arg(&data));
            machines.restart(at).await;
            machines.cluster.settled().await;
        }
        disks
    }

    fn filler(&self, at: usize) -> PathBuf {
        self.folders[at].join("filler")
    }

    /// Leaves no space.
    pub(crate) fn fill(&self, at: usize) {
        let mut file = File::create(self.filler(at)).expect("there is space");
        for block in [1 << 20, 4096, 1] {
            let block = vec![1; block];
            while is_written(&mut file, &block) {}
        }
    }

    /// Makes space again.
    pub(crate) fn empty(&self, at: usize) {
        fs::remove_file(self.filler(at)).expect("it is ours");
    }

    /// Waits for a daemon whose disk was full, once nothing else is wrong with its machine. One that could not write has ended
    /// or is about to, and is started as its unit does; one that had nothing to write follows the leader, which takes writing.
    pub(crate) async fn has_recovered(at: usize, machines: &mut Machines) {
        let begun = Instant::now();
        loop {
            if machines.cluster.nodes[at].has_ended() {
                let ended = machines.cluster.nodes[at].ended();
                assert!(ended.is_some_and(|status| status.code().is_some()), "{ended:?}");
                machines.restart(at).await;
                return;
            }
            let client = machines.cluster.nodes[at].client();
            let request = v1::StatusRequest { linearizable: true, ..v1::StatusRequest::default() };
            let read = tokio::time::timeout(ANSWER, client.read_status(request)).await;
            match read.map_err(|error| error.to_string()) {
                Ok(Ok(_)) => return,
                Ok(Err(error)) => assert!(begun.elapsed() < PATIENCE, "{error}"),
                Err(late) => assert!(begun.elapsed() < PATIENCE, "{late}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Whether there was space.
fn is_written(file: &mut File, block: &[u8]) -> bool {
    match file.write_all(block) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::StorageFull => false,
        Err(error) => panic!("{error}"),
    }
}

fn unmount(folder: &Path) {
    // Lazily: a daemon may still run there.
    let _gone = Command::new("umount").arg("--lazy").arg(folder).status().is_err();
}

impl Drop for Disks {
    fn drop(&mut self) {
        self.folders.iter().for_each(|folder| unmount(folder));
    }
}

//! Packets between machines that are not the product's own: there are none, as all traffic of containers is encrypted.

use std::process::{Child, Command, Stdio};

use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::{eventually_within, ran};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Between two machines, and neither the tunnel nor the members of the cluster.
const STRANGE: &str = "ip and src net 10.99.0.0/29 and dst net 10.99.0.0/29 and not (udp port 51820 or tcp port 7000)";

/// The packet that shows that the capture sees, and what answers it.
const OURS: &str = "udp port 9 or icmp[0] == 3";

/// What is captured of each packet, in bytes.
const HEADERS: &str = "96";

/// A capture that runs at the switch.
pub(crate) struct Wire {
    folder: TempDir,
    process: Child,
}

impl Wire {
    pub(crate) async fn start(machines: &Machines) -> Self {
        ran(machines.at_switch().args(["ip", "link", "set", "switch", "promisc", "on"]));
        let folder = tempfile::tempdir().expect("temporary files can be made");
        let mut command: Command = machines.at_switch();
        // As root, or it could not write there; each packet at once.
        command.args(["tcpdump", "-Z", "root", "-U", "-s", HEADERS, "-i", "switch", "-w"]);
        command.arg(folder.path().join("packets")).arg(STRANGE);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("tcpdump can be run");
        let wire = Self { folder, process };
        eventually_within(PATIENCE, "the capture sees a packet in clear text", || async {
            let hello = "echo hello > /dev/udp/10.99.0.2/9";
            ran(machines.inside(0).args(["bash", "-c", hello]));
            let seen = wire.shown(OURS);
            if seen.contains("10.99.0.2.9") { Ok(()) } else { Err(seen) }
        })
        .await;
        wire
    }

    /// What was captured and matches.
    fn shown(&self, filter: &str) -> String {
        let file = self.folder.path().join("packets");
        let shown = Command::new("tcpdump").arg("-nr").arg(&file).arg(filter).output();
        let shown = shown.expect("tcpdump is there");
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    /// # Panics
    /// When there was such a packet.
    pub(crate) fn end(self) {
        assert_eq!(self.shown(&format!("not ({OURS})")), "", "in clear text");
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let _gone = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_err());
        let _gone = self.process.wait().is_err();
    }
}

//! Three machines on a network of their own, and the machine of a user who is outside.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use jaco_testkit::{Machines, said};
use tempfile::TempDir;

use crate::built::built;
use crate::debian::Debian;
use crate::machine::{Machine, Network};

/// The addresses that the guide has, which nothing else has where they are used.
const ADDRESSES: [u8; 3] = [10, 0, 0];

/// How many machines the guide is about.
pub(crate) const COUNT: usize = 3;

/// The port that the service of the guide is published at.
const PUBLISHED: u16 = 8080;

/// Where lines are typed.
pub(crate) struct Places {
    /// Ended before their network is.
    pub(crate) machines: Vec<Machine>,
    network: Machines,
    own: OwnMachine,
}

/// The packages unpacked, as nothing can be installed on the machine that runs the tests, and a home.
struct OwnMachine {
    packages: TempDir,
    home: TempDir,
}

impl Places {
    /// Starts machines `n1`, `n2` and `n3`.
    pub(crate) async fn start(debian: &Debian) -> Self {
        let network = Machines::start_in(ADDRESSES, COUNT).await;
        network.have_outside();
        let machines = thread::scope(|scope| {
            let starting: Vec<_> = (0..COUNT)
                .map(|at| {
                    let wire = Network::Namespace(network.namespace(at));
                    scope.spawn(move || Machine::start(debian, &format!("n{}", at + 1), &wire))
                })
                .collect();
            starting.into_iter().map(|each| each.join().expect("it starts")).collect()
        });
        let home = tempfile::tempdir().expect("temporary files can be made");
        let own = OwnMachine { packages: built().unpacked(), home };
        Self { machines, network, own }
    }

    /// The home of who is outside.
    pub(crate) fn home(&self) -> &Path {
        self.own.home.path()
    }

    /// What types the appended line outside of all machines.
    pub(crate) fn outside(&self) -> Command {
        let mut command = self.network.at_switch();
        let chdir = format!("--chdir={}", self.home().display());
        command.args(["env", &chdir, "--ignore-environment"]);
        command.arg(format!("HOME={}", self.home().display()));
        let programs = self.own.packages.path().join("usr/bin");
        command.arg(format!("PATH={}:/usr/bin:/bin", programs.display()));
        command
    }

    /// The network namespace of who is outside.
    pub(crate) fn outside_namespace(&self) -> PathBuf {
        self.network.switch()
    }

    /// Where the service of the guide answers, on each machine.
    pub(crate) fn published(&self) -> Vec<SocketAddr> {
        let address = |at| format!("{}:{PUBLISHED}", self.network.address(at));
        (0..COUNT).map(|at| address(at).parse().expect("an address")).collect()
    }
}

/// Types a line in a shell, on a terminal and with answers where it asks something, and returns what is seen.
///
/// # Panics
/// When it fails.
pub(crate) fn type_line(mut shell: Command, line: &str, answers: &str) -> String {
    match answers {
        "" => shell.args(["sh", "-c", line]),
        _ => shell.args(["script", "--quiet", "--return", "--command", line, "/dev/null"]),
    };
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut typed = shell.spawn().expect("nsenter is there");
    let mut keyboard = typed.stdin.take().expect("it is piped");
    // What asks nothing may have ended before.
    let _unread = keyboard.write_all(answers.as_bytes()).is_err();
    drop(keyboard);
    let output = typed.wait_with_output().expect("it ends");
    let seen = said(&output);
    assert!(output.status.success(), "{line}: {}\n{seen}", output.status);
    seen
}

/// Copies a file of a machine's administrator to the home of who is outside, with its mode.
pub(crate) fn carry(from: &Machine, name: &str, places: &Places) {
    let to = places.home().join(name);
    fs::copy(from.path("/root").join(name), to).expect("both are there");
}

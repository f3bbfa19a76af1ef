//! QEMU with the kernel, and what is said in there.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::contents::{Modules, contents};
use super::packages::Kernel;

/// The longest that a machine may run: some times as long as it takes on two cores.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Lines of the kernel that are shown where it ended without a result.
const LAST_LINES: usize = 30;

/// A machine that was never started.
#[derive(Debug)]
pub(super) struct Machine {
    kernel: PathBuf,
    files: PathBuf,
    log: PathBuf,
}

/// What is known of a machine that ran.
#[derive(Debug)]
pub(super) struct Ended {
    /// The lines of the tests.
    pub(super) said: Vec<String>,
    /// What the kernel wrote.
    pub(super) kernel: String,
    /// Whether it ended by itself.
    pub(super) in_time: bool,
}

/// The process of QEMU, which ends with this value.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Machine {
    /// Makes its files in a folder.
    pub(super) fn new(folder: &Path, kernel: &Kernel, modules: Modules) -> Self {
        let files = folder.join("files");
        let mut to = BufWriter::new(File::create(&files).unwrap());
        contents(kernel, modules).write(&mut to).unwrap();
        to.flush().unwrap();
        Self { kernel: kernel.image.clone(), files, log: folder.join("log") }
    }

    /// Runs tests in it, and tells each line that they say when they say it.
    pub(super) fn run(&self, filter: Option<&str>, mut tell: impl FnMut(&str)) -> Ended {
        let begun = Instant::now();
        let mut qemu = Qemu(self.command(filter).spawn().expect("setpriv is on each Debian"));
        let output = BufReader::new(qemu.0.stdout.take().unwrap());
        let (send, lines) = channel();
        thread::spawn(move || {
            // A line that is cut off in a character is still told.
            let lines = output.split(b'\n').map_while(Result::ok);
            lines.map_while(|line| send.send(line).ok()).for_each(drop);
        });
        let mut said = Vec::new();
        // Until it closes its line, as it does when it ends.
        while let Ok(line) = lines.recv_timeout(LIMIT.saturating_sub(begun.elapsed())) {
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            tell(&line);
            said.push(line);
        }
        let in_time = begun.elapsed() < LIMIT;
        drop(qemu);
        let kernel = fs::read(&self.log).unwrap_or_default();
        Ended { said, kernel: String::from_utf8_lossy(&kernel).into_owned(), in_time }
    }

    fn command(&self, filter: Option<&str>) -> Command {
        // The machine ends with this process, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        command.args(["-accel", "tcg,thread=multi", "-smp", "2", "-m", "1024"]);
        // Wide registers cost more than they save where each is emulated; numbers at random it needs.
        command.args(["-cpu", "Nehalem,+rdrand"]);
        command.args(["-nodefaults", "-no-user-config", "-display", "none"]);
        // A kernel that panics restarts the machine at once, which ends it.
        command.arg("-no-reboot").arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.files);
        let arguments = filter.unwrap_or_default();
        // What protects one program from another costs much there, and they are all ours. A machine that gets little
        // time from its host may not see its timer tick while the kernel looks whether it does, and stops there.
        let kernel = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off no_timer_check";
        let line = format!("{kernel} -- guest {arguments}");
        command.args(["-append", line.trim_end()]);
        let mut log = std::ffi::OsString::from("file:");
        log.push(&self.log);
        command.arg("-serial").arg(log).args(["-serial", "stdio"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }
}

/// Whether a machine has proved what it was started for, or why not.
pub(super) fn verdict(ended: &Ended) -> Result<(), String> {
    let lines: Vec<&str> = ended.kernel.lines().map(str::trim_end).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    if !ended.in_time {
        return Err(format!("it took too long: {last}"));
    }
    if ended.kernel.contains("Kernel panic") {
        return Err(format!("its kernel panicked: {last}"));
    }
    let result = ended.said.iter().find_map(|line| line.strip_prefix("test result: "));
    let Some(result) = result else {
        return Err(format!("it ended without a result: {last}"));
    };
    let count = |what: &str| {
        let words: Vec<&str> = result.split_whitespace().collect();
        let number = words.windows(2).find(|pair| pair[1].trim_end_matches(';') == what);
        number.and_then(|pair| pair[0].parse::<usize>().ok())
    };
    match (count("passed"), count("failed")) {
        (Some(1..), Some(0)) => Ok(()),
        (Some(passed), Some(failed)) => Err(format!("{passed} tests passed and {failed} failed")),
        _ => Err(format!("its result cannot be read: {result}")),
    }
}

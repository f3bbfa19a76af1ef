//! The built program, from outside: its exit codes, its signals, its health. What the tests of the product lean on.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// A running program that is killed if a test forgets it.
struct Hello {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Hello {
    fn start(args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hello"));
        command.args(args).envs(env.iter().copied()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was built");
        let stdout = BufReader::new(child.stdout.take().expect("asked for"));
        Self { child, stdout }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it writes text");
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    /// Its exit code; panics if it does not end soon.
    fn code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts a server on a free port and returns it with its URL.
    fn serve(env: &[(&str, &str)]) -> (Self, String) {
        let mut server = Self::start(&["serve", "--port", "0"], env);
        let line = server.line();
        let port = line.rsplit(':').next().expect("split yields something");
        (server, format!("http://127.0.0.1:{port}"))
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        // Most have ended by themselves, which is no failure.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn check(url: &str) -> Option<i32> {
    Hello::start(&["check", url], &[]).code()
}

#[test]
fn a_healthy_server_passes_its_check_and_stops_when_asked() {
    let (mut server, url) = Hello::serve(&[]);
    assert_eq!(check(&format!("{url}/healthz")), Some(0));
    server.signal(Signal::TERM);
    assert_eq!(server.code(), Some(0));
    assert_eq!(server.line(), "SIGTERM received, leaving");
    assert_eq!(check(&format!("{url}/healthz")), Some(1), "nothing listens any more");
}

#[test]
fn server_can_start_unhealthy() {
    let (_server, url) = Hello::serve(&[("HELLO_UNHEALTHY_AFTER_MS", "0")]);
    assert_eq!(check(&format!("{url}/healthz")), Some(1));
    assert_eq!(check(&url), Some(0), "it still answers");
}

#[test]
fn exit_codes_are_what_was_asked_for() {
    let code = |args: &[&str]| Hello::start(args, &[]).code();
    assert_eq!(code(&["exit", "7"]), Some(7));
    assert_eq!(code(&["exit", "0", "--after", "10"]), Some(0));
    assert_eq!(code(&["crash-loop", "--after", "0"]), Some(1));
    assert_eq!(code(&["sleep", "0"]), Some(0));
    assert_eq!(code(&["dance"]), Some(2));
}

#[test]
fn stop_signals_are_distinguished() {
    for (signal, name) in [
        (Signal::TERM, "SIGTERM"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::HUP, "SIGHUP"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::USR2, "SIGUSR2"),
    ] {
        let mut program = Hello::start(&["grace", "0"], &[]);
        assert_eq!(program.line(), "ready, needs 0 s to stop");
        program.signal(signal);
        assert_eq!(program.line(), format!("{name} received, stopping in 0 s"));
        assert_eq!(program.line(), "stopped");
        assert_eq!(program.code(), Some(0));
    }
}

#[test]
fn short_grace_period_ends_in_a_kill() {
    let mut program = Hello::start(&["grace", "60"], &[]);
    program.line();
    program.signal(Signal::TERM);
    assert_eq!(program.line(), "SIGTERM received, stopping in 60 s");
    program.signal(Signal::TERM);
    assert!(
        program.child.try_wait().expect("it is our child").is_none(),
        "a second one is not obeyed"
    );
    program.signal(Signal::KILL);
    assert_eq!(program.code(), None);
}

#[test]
fn log_lines_are_numbered() {
    let mut program = Hello::start(&["log", "--every", "1", "--count", "3"], &[]);
    assert_eq!((program.line().as_str(), program.line().as_str()), ("line 1", "line 3"));
    program.signal(Signal::TERM);
    assert_eq!(program.code(), Some(0));
}

//! The terminal view, on a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::fixture::Session;

/// More than a busy machine needs to start a process.
const PATIENCE: Duration = Duration::from_secs(30);

struct Shop;

impl Script for Shop {
    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        let service = v1::ServiceInfo {
            name: "web".to_owned(),
            image: "web:1".to_owned(),
            running: 1,
            desired: 1,
            ..Default::default()
        };
        let node = v1::NodeInfo {
            hostname: "n1".to_owned(),
            status: "ready".to_owned(),
            availability: "active".to_owned(),
            ..Default::default()
        };
        let status = v1::StatusResponse {
            answered_by: "n1".to_owned(),
            leader: "n1".to_owned(),
            deployments: vec![v1::DeploymentInfo {
                name: "shop".to_owned(),
                services: vec![service],
                ..Default::default()
            }],
            nodes: vec![node],
            ..Default::default()
        };
        Ok(Feed::open(vec![status]))
    }

    fn explain(&self, request: v1::ExplainRequest, _: Option<&str>) -> Answer<v1::ExplainResponse> {
        assert_eq!((request.deployment.as_str(), request.service.as_str()), ("shop", "web"));
        Ok(v1::ExplainResponse {
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            ..Default::default()
        })
    }
}

/// A cluster whose only node is gone once it has shown its status.
struct Gone(AtomicBool);

impl Script for Gone {
    fn watch(
        &self,
        request: v1::StatusRequest,
        token: Option<&str>,
    ) -> Answer<Feed<v1::StatusResponse>> {
        if self.0.swap(true, Ordering::Relaxed) {
            return Err(Rejection::new(ErrorCode::Unavailable, "it is gone"));
        }
        let Feed { items, .. } = Shop.watch(request, token)?;
        Ok(Feed::of(items))
    }
}

/// A command on a terminal of 80 by 24.
struct Terminal {
    keyboard: File,
    /// The other end, whose modes are those that the command sets.
    own: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(session: &Session, line: &str) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let own = File::options().read(true).write(true).open(name).unwrap();
        let mut command = session.command(line);
        let stream = || own.try_clone().unwrap();
        command.stdin(stream()).stdout(stream()).stderr(stream()).env("TERM", "xterm-256color");
        let child = command.spawn().unwrap();
        let keyboard = File::from(terminal);
        let mut shown = keyboard.try_clone().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 4096];
            while let Ok(length) = shown.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { keyboard, own, child, output, seen: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.seen.clear();
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a text was written since the last key.
    fn shows(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.seen.contains(text) {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let more = self.output.recv_timeout(left);
            let more = more.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
    }

    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.own).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}

/// R-OPS-1: the cluster on the whole screen, with its lists and the reasons; the terminal is as it was afterwards, however the
/// view ends.
#[test]
fn the_cluster_is_shown_and_the_terminal_given_back() {
    let session = Session::with(Shop);
    for end in ["q", "\x03"] {
        let mut terminal = Terminal::start(&session, "ui --terminal");
        terminal.shows("shop/web");
        terminal.shows("quit");
        assert!(!terminal.is_cooked());
        terminal.press("3");
        terminal.shows("AVAILABILITY");
        terminal.press("1");
        terminal.shows("shop/web");
        terminal.press("\r");
        terminal.shows("eligible");
        terminal.press("\x1b");
        terminal.shows("web:1");
        terminal.press(end);
        // Leaves the alternate screen.
        terminal.shows("\x1b[?1049l");
        assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
        assert!(terminal.is_cooked());
    }
}

/// R-CLI-10: a pipe gets lines that programs read.
#[test]
fn a_pipe_gets_lines() {
    let session = Session::with(Shop);
    let mut command = session.command("ui --terminal");
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = Vec::new();
    let mut out = child.stdout.take().unwrap();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        out.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let line = String::from_utf8(line).unwrap();
    assert!(line.contains("deployment shop:") && !line.contains('\x1b'), "{line:?}");
}

/// R-CLI-10: a status that is followed on a terminal ends where no node answers any more, as it does in a pipe: its clock would
/// go on beside what is not so any more.
#[test]
fn a_status_on_a_terminal_ends_with_its_daemon() {
    let session = Session::with(Gone(AtomicBool::new(false)));
    let mut terminal = Terminal::start(&session, "status -w");
    terminal.shows("q quits");
    terminal.shows("n1");
    let begun = Instant::now();
    let ended = loop {
        match terminal.child.try_wait().unwrap() {
            Some(ended) => break ended,
            None => assert!(begun.elapsed() < PATIENCE, "it goes on: {:?}", terminal.seen),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(ended.code(), Some(9));
    terminal.shows("it is gone");
}

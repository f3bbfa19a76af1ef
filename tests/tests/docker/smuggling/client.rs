//! A client that says bytes to the edge, and takes in what comes until the connection ends.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// How long the edge may say nothing: less than it waits for the rest of a body.
const PATIENCE: Duration = Duration::from_secs(8);

/// What comes after all bytes are said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The edge has the word.
    Listen,
    /// The client has nothing more to say, ever.
    GoAway,
}

/// What was heard on a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// What nginx says in its answers, but for that to the fence: the first line of the request, and its id.
    pub(super) answers: Vec<String>,
    /// What the edge refused by itself.
    pub(super) refusals: Vec<String>,
    pub(super) fence: Fence,
    /// The end did not come in time.
    pub(super) is_late: bool,
}

/// What became of the last request of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    Answered,
    Unanswered,
    /// It has nothing to do with what was said before, as with HTTP/2.
    Apart,
}

/// A connection to the edge.
pub(super) fn connect(edge: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(edge).expect("the edge listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not 0");
    stream
}

/// Says this over a connection of its own with HTTP/1.
pub(super) fn say(edge: SocketAddr, bytes: &[u8], then: Then) -> Heard {
    let mut stream = connect(edge);
    // The edge may have closed the connection before it is all said.
    let _closed = stream.write_all(bytes).is_err();
    if then == Then::GoAway {
        let _closed = stream.shutdown(Shutdown::Write).is_err();
    }
    let (mut all, mut part, mut is_late) = (Vec::new(), [0; 4096], false);
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => all.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                is_late = true;
                break;
            }
            Err(_) => break,
        }
    }
    Heard { is_late, ..Heard::of(&String::from_utf8_lossy(&all)) }
}

impl Heard {
    pub(super) fn nothing(fence: Fence) -> Self {
        Self { answers: Vec::new(), refusals: Vec::new(), fence, is_late: false }
    }

    /// Answers that follow each other.
    fn of(text: &str) -> Self {
        let mut heard = Self::nothing(Fence::Unanswered);
        // To a client of HTTP/1.0 the edge speaks that.
        let text = text.replace("HTTP/1.0 ", "HTTP/1.1 ");
        for answer in text.split("HTTP/1.1 ").skip(1) {
            let reason = answer.lines().find_map(|line| line.strip_prefix("x-jaco-reason: "));
            match reason {
                Some(reason) => heard.refusals.push(reason.to_owned()),
                None if answer.starts_with("100 ") => {}
                None => heard.note(answer.split("\r\n\r\n").nth(1).unwrap_or("")),
            }
        }
        heard
    }

    /// An answer that is not the edge's own.
    pub(super) fn note(&mut self, body: &str) {
        let said = body.trim_end();
        let said = said.strip_prefix("seen ").unwrap_or(said);
        if said.contains("/fence ") {
            self.fence = Fence::Answered;
        } else {
            self.answers.push(said.to_owned());
        }
    }
}

//! An open connection from one container to another, on which something is asked all the time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long it is watched after something has happened.
const WATCHED: Duration = Duration::from_secs(2);

/// A connection to a redis, from the network namespace of a container. Dropping it closes it.
pub(super) struct Stream {
    client: Child,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    answers: AtomicU64,
    /// The longest time between two answers since it was looked at, in milliseconds.
    pause: AtomicU64,
    /// Why it ended.
    end: Mutex<Option<String>>,
}

impl Stream {
    /// The command connects its input and output with the server.
    pub(super) fn open(command: &mut Command) -> Self {
        let client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut client = client.expect("it can be run");
        let mut input = client.stdin.take().expect("it is piped");
        let mut output = BufReader::new(client.stdout.take().expect("it is piped"));
        let seen = Arc::<Seen>::default();
        let notes = Arc::clone(&seen);
        thread::spawn(move || {
            let mut last = Instant::now();
            let end = loop {
                let mut line = String::new();
                match input.write_all(b"PING\r\n").and_then(|()| output.read_line(&mut line)) {
                    Ok(_) if line.starts_with("+PONG") => {}
                    Ok(_) => break format!("the connection ended: {line:?}"),
                    Err(error) => break error.to_string(),
                }
                let pause = u64::try_from(last.elapsed().as_millis()).unwrap_or(u64::MAX);
                last = Instant::now();
                notes.pause.fetch_max(pause, Ordering::SeqCst);
                notes.answers.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(5));
            };
            *notes.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        });
        Self { client, seen }
    }

    /// It goes on, and did not pause for as long as this since it was looked at last.
    ///
    /// # Panics
    /// If it ended or paused.
    pub(super) fn flows_on(&self, pause_max: Duration, what: &str) {
        let before = self.seen.answers.load(Ordering::SeqCst);
        thread::sleep(WATCHED);
        let end = self.seen.end.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert_eq!(end, None, "{what}");
        let answers = self.seen.answers.load(Ordering::SeqCst) - before;
        let pause = Duration::from_millis(self.seen.pause.swap(0, Ordering::SeqCst));
        assert!(pause < pause_max && answers > 0, "{what}: {pause:?}, {answers} answers");
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _gone = self.client.kill().is_err();
        let _gone = self.client.wait().is_err();
    }
}

//! `hello watch URL`: a client that asks again and again, each time on a new connection, and says what failed.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::check::{ask, bad, split};
use crate::say;

/// How long the addresses of a name are used before it is resolved again: as long as a name server of the
/// cluster says that they may be.
const REMEMBERED: Duration = Duration::from_secs(1);

/// Asks until stdin ends; fails if any request did.
pub(crate) fn run(url: &str, every: Duration) -> ExitCode {
    let (authority, path) = match split(url) {
        Ok(parts) => parts,
        Err(error) => {
            say::error(&format!("{url}: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        end.store(true, Ordering::SeqCst);
    });
    let mut name = Name { authority, addresses: Vec::new(), resolved: None };
    let (mut asked, mut failed) = (0_usize, 0_usize);
    while !ended.load(Ordering::SeqCst) {
        if let Err(error) = name.ask(&path, asked) {
            failed += 1;
            say::line(&format!("request {asked} failed: {error}"));
        }
        asked += 1;
        thread::sleep(every);
    }
    say::line(&format!("{asked} asked, {failed} failed"));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A name, and the addresses that it had when it was resolved last.
struct Name {
    authority: String,
    addresses: Vec<SocketAddr>,
    resolved: Option<Instant>,
}

impl Name {
    /// The addresses take turns.
    fn ask(&mut self, path: &str, turn: usize) -> io::Result<()> {
        if self.resolved.is_none_or(|at| at.elapsed() >= REMEMBERED) {
            self.resolved = None;
            // The answer may be remembered from when it was given, so from then on it counts.
            let asked = Instant::now();
            self.addresses = self.authority.to_socket_addrs()?.collect();
            self.resolved = Some(asked);
        }
        let next = turn.checked_rem(self.addresses.len()).and_then(|at| self.addresses.get(at));
        let address = next.ok_or_else(|| bad("name has no address"))?;
        let because =
            |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        let answer = ask(address, &self.authority, path).map_err(because)?;
        match answer.status {
            200..300 => Ok(()),
            status => Err(io::Error::other(format!("{address}: status {status}"))),
        }
    }
}

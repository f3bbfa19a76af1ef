//! What each path answers, and the health that can be bent from outside.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::check;
use crate::http::{Request, Response};
use crate::say;

/// Longest time that `/burn` and `/slow` take, whatever is asked for.
const WORK_MAX_MS: u64 = 60_000;
/// Most of a processor that `/cpu` uses, in thousandths: there is one thread for it.
const WORK_MAX_PERMILLE: u64 = 900;
/// Most memory that `/memory` holds, in MiB.
const MEMORY_MAX_MIB: u64 = 1024;

/// How long the ledger may take.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(10);

/// The workload that the server pretends to be.
#[derive(Debug)]
pub(super) struct Workload {
    /// `HELLO_DRAIN_MS`: how long a stop waits for unanswered requests.
    pub(super) drain: Option<Duration>,
    env: BTreeMap<String, String>,
    started: Instant,
    healthy_after: Duration,
    unhealthy_after: Option<Duration>,
    /// What `/control/…` said last; it overrides the clock.
    ordered: Mutex<Option<Health>>,
    held: Mutex<Vec<u8>>,
    /// The share of a processor that is used for nothing, in thousandths.
    working: Arc<AtomicU64>,
    answered: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Healthy,
    Unhealthy,
}

impl Workload {
    /// Reads the process environment once.
    pub(super) fn from_env() -> Self {
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        Self::new(std::env::vars_os().map(|(key, value)| (text(key), text(value))).collect())
    }

    pub(super) fn new(env: BTreeMap<String, String>) -> Self {
        let millis = |name| env.get(name)?.parse().ok().map(Duration::from_millis);
        Self {
            drain: millis("HELLO_DRAIN_MS"),
            started: Instant::now(),
            healthy_after: millis("HELLO_HEALTHY_AFTER_MS").unwrap_or_default(),
            unhealthy_after: millis("HELLO_UNHEALTHY_AFTER_MS"),
            ordered: Mutex::new(None),
            held: Mutex::new(Vec::new()),
            working: Arc::default(),
            answered: AtomicU64::new(0),
            env,
        }
    }

    /// `hello <version> from <replica>`: the replica's id where the orchestrator tells it, else the host name.
    pub(super) fn name(&self) -> String {
        let var = |name: &str| self.env.get(name).map(String::as_str);
        let version = var("HELLO_VERSION").unwrap_or("unversioned");
        let replica = var("JACO_REPLICA").or_else(|| var("HOSTNAME")).unwrap_or("nowhere");
        format!("hello {version} from {replica}")
    }

    /// Does what the request asks for and says what to answer.
    pub(super) fn answer(&self, request: &Request) -> Response {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let takes_post = request.path.starts_with("/control/") || request.path == "/record";
        let expected = if takes_post { "POST" } else { "GET" };
        if request.method != expected {
            return Response::new(405, format!("{} takes {expected}\n", request.path));
        }
        match request.path.as_str() {
            "/" => Response::ok(self.name() + "\n"),
            "/healthz" => self.health(),
            "/env" => Response::ok(self.environment()),
            "/stats" => Response::ok(self.stats()),
            "/burn" => burn(request.number("ms").unwrap_or(100)),
            "/upstream" => self.ask_upstream(),
            "/slow" => slow(request.number("ms").unwrap_or(100)),
            "/cpu" => self.work(request.number("millis").unwrap_or(0)),
            "/memory" => self.hold(request.number("mib").unwrap_or(0)),
            "/record" => self.record(request.number("id").unwrap_or(0)),
            "/control/healthy" => self.order(Health::Healthy),
            "/control/unhealthy" => self.order(Health::Unhealthy),
            "/control/exit" => exit(request.number("code").unwrap_or(1)),
            path => Response::new(404, format!("nothing at {path}\n")),
        }
    }

    fn health(&self) -> Response {
        let ordered = *self.ordered.lock().expect("nothing panics while it holds the lock");
        match ordered.unwrap_or_else(|| self.health_at(self.started.elapsed())) {
            Health::Healthy => Response::ok("healthy\n"),
            Health::Unhealthy => Response::new(503, "unhealthy\n"),
        }
    }

    fn health_at(&self, age: Duration) -> Health {
        let sick = self.unhealthy_after.is_some_and(|limit| age >= limit);
        if sick || age < self.healthy_after { Health::Unhealthy } else { Health::Healthy }
    }

    fn order(&self, health: Health) -> Response {
        *self.ordered.lock().expect("nothing panics while it holds the lock") = Some(health);
        say::line(&format!("told to be {health:?}"));
        Response::ok("done\n")
    }

    fn environment(&self) -> String {
        self.env.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
    }

    fn stats(&self) -> String {
        let answered = self.answered.load(Ordering::Relaxed);
        format!("uptime_ms {}\nanswered {answered}\n", self.started.elapsed().as_millis())
    }

    /// Tells the ledger, a server elsewhere, that this arrived, before it is answered.
    pub(super) fn record(&self, id: u64) -> Response {
        let Some(ledger) = self.env.get("HELLO_LEDGER") else {
            return Response::new(404, "there is no HELLO_LEDGER\n");
        };
        match tell(ledger, id) {
            Ok(()) => Response::ok(format!("recorded {id}\n")),
            Err(error) => Response::new(503, format!("{ledger}: {error}\n")),
        }
    }

    /// Asks another server, and passes its answer along.
    fn ask_upstream(&self) -> Response {
        let Some(url) = self.env.get("HELLO_UPSTREAM") else {
            return Response::new(404, "there is no HELLO_UPSTREAM\n");
        };
        match check::probe(url) {
            Ok(answer) if (200..300).contains(&answer.status) => Response::ok(answer.body),
            Ok(answer) => Response::new(502, format!("{url}: {}\n", answer.status)),
            Err(error) => Response::new(502, format!("{url}: {error}\n")),
        }
    }

    /// Uses so many thousandths of a processor from now on; `millis=0` ends it.
    fn work(&self, millis: u64) -> Response {
        let millis = millis.min(WORK_MAX_PERMILLE);
        if self.working.swap(millis, Ordering::Relaxed) == 0 && millis > 0 {
            let share = Arc::clone(&self.working);
            thread::spawn(move || work_on(&share));
        }
        Response::ok(format!("using {millis} thousandths of a processor\n"))
    }

    /// Holds that much memory, written once so that it is resident; `mib=0` gives it back.
    fn hold(&self, mib: u64) -> Response {
        let mib = mib.min(MEMORY_MAX_MIB);
        let bytes = usize::try_from(mib * 1024 * 1024).expect("a GiB fits the address space");
        *self.held.lock().expect("nothing panics while it holds the lock") = vec![1; bytes];
        Response::ok(format!("holding {mib} MiB\n"))
    }
}

/// How long the worker sleeps between two looks at what it has used.
const WORK_PAUSE: Duration = Duration::from_millis(10);
/// What it is behind by more than this is dropped: a machine that is busy with other things is not
/// made up for in one burst.
const WORK_BEHIND_MAX: Duration = Duration::from_millis(100);

/// Uses that share of a processor by the kernel's count of this thread's time, until it is zero: who
/// else wants the processors changes when it runs, and not how much.
fn work_on(share: &AtomicU64) {
    let (mut begun, mut before) = (Instant::now(), time_used());
    loop {
        let permille = share.load(Ordering::Relaxed);
        if permille == 0 {
            return;
        }
        let due = begun.elapsed().mul_f64(permille as f64 / 1000.0);
        let until = Instant::now() + WORK_BEHIND_MAX;
        while time_used().saturating_sub(before) < due {
            if Instant::now() > until {
                (begun, before) = (Instant::now(), time_used());
                break;
            }
            for _ in 0..20_000 {
                std::hint::spin_loop();
            }
        }
        thread::sleep(WORK_PAUSE);
    }
}

/// The processor time of this thread; nothing on a kernel that does not count it.
fn time_used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

/// One line, and one byte that says that it is written down.
fn tell(ledger: &str, id: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(ledger)?;
    stream.set_read_timeout(Some(LEDGER_TIMEOUT))?;
    stream.write_all(format!("{id}\n").as_bytes())?;
    stream.read_exact(&mut [0])
}

fn burn(ms: u64) -> Response {
    let ms = ms.min(WORK_MAX_MS);
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    Response::ok(format!("burnt {ms} ms\n"))
}

fn slow(ms: u64) -> Response {
    let ms = ms.min(WORK_MAX_MS);
    thread::sleep(Duration::from_millis(ms));
    Response::ok(format!("waited {ms} ms\n"))
}

fn exit(code: u64) -> ! {
    say::line(&format!("told to exit with {code}"));
    std::process::exit(i32::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(vars: &[(&str, &str)]) -> Workload {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Workload::new(vars.iter().map(own).collect())
    }

    #[test]
    fn health_has_a_beginning_and_an_end() {
        let subject =
            workload(&[("HELLO_HEALTHY_AFTER_MS", "100"), ("HELLO_UNHEALTHY_AFTER_MS", "500")]);
        let at = |ms| subject.health_at(Duration::from_millis(ms));
        assert_eq!(at(99), Health::Unhealthy);
        assert_eq!(at(100), Health::Healthy);
        assert_eq!(at(499), Health::Healthy);
        assert_eq!(at(500), Health::Unhealthy);
    }

    /// It uses what it is asked for, by the kernel's own count, and nothing once it is told to end.
    #[test]
    fn a_share_of_a_processor_is_used() {
        let share = Arc::new(AtomicU64::new(200));
        let worker = Arc::clone(&share);
        let worker = thread::spawn(move || {
            let begun = (Instant::now(), time_used());
            work_on(&worker);
            (begun.0.elapsed(), time_used().saturating_sub(begun.1))
        });
        thread::sleep(Duration::from_secs(1));
        share.store(0, Ordering::Relaxed);
        let (elapsed, used) = worker.join().expect("it ends");
        // What a busy machine kept from it is dropped, so only the upper bound is strict.
        assert!(
            used <= elapsed.mul_f64(0.3) && used >= elapsed.mul_f64(0.05),
            "{used:?}/{elapsed:?}"
        );
    }

    #[test]
    fn the_environment_is_listed_in_order() {
        assert_eq!(workload(&[("B", "2"), ("A", "1")]).environment(), "A=1\nB=2\n");
    }

    #[test]
    fn the_host_stands_in_for_an_unknown_replica() {
        assert_eq!(workload(&[("HOSTNAME", "c0ffee")]).name(), "hello unversioned from c0ffee");
    }
}

//! What each path answers, and the health that can be bent from outside.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::http::{Request, Response};
use crate::say;

/// Longest time that `/burn` and `/slow` take, whatever is asked for.
const WORK_MAX_MS: u64 = 60_000;
/// Most memory that `/memory` holds, in MiB.
const MEMORY_MAX_MIB: u64 = 1024;

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
        let expected = if request.path.starts_with("/control/") { "POST" } else { "GET" };
        if request.method != expected {
            return Response::new(405, format!("{} takes {expected}\n", request.path));
        }
        match request.path.as_str() {
            "/" => Response::ok(self.name() + "\n"),
            "/healthz" => self.health(),
            "/env" => Response::ok(self.environment()),
            "/stats" => Response::ok(self.stats()),
            "/burn" => burn(request.number("ms").unwrap_or(100)),
            "/slow" => slow(request.number("ms").unwrap_or(100)),
            "/memory" => self.hold(request.number("mib").unwrap_or(0)),
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

    /// Holds that much memory, written once so that it is resident; `mib=0` gives it back.
    fn hold(&self, mib: u64) -> Response {
        let mib = mib.min(MEMORY_MAX_MIB);
        let bytes = usize::try_from(mib * 1024 * 1024).expect("a GiB fits the address space");
        *self.held.lock().expect("nothing panics while it holds the lock") = vec![1; bytes];
        Response::ok(format!("holding {mib} MiB\n"))
    }
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

    #[test]
    fn the_environment_is_listed_in_order() {
        assert_eq!(workload(&[("B", "2"), ("A", "1")]).environment(), "A=1\nB=2\n");
    }

    #[test]
    fn the_host_stands_in_for_an_unknown_replica() {
        assert_eq!(workload(&[("HOSTNAME", "c0ffee")]).name(), "hello unversioned from c0ffee");
    }
}

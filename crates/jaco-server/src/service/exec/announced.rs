//! Which connections of users have been written into the audit log: all of one command are one event.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long the connections of a command belong to one event.
const PERIOD: Duration = Duration::from_secs(3600);

/// Commands that are remembered. One that is forgotten is written once more.
const COMMANDS_MAX: usize = 1024;

/// What an event says: who, which command of theirs, which replica on which node, which port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Announcement {
    pub(super) by: String,
    pub(super) session: Vec<u8>,
    pub(super) instance: String,
    pub(super) port: u16,
}

/// The events of the last hour.
#[derive(Debug, Default)]
pub(super) struct Announced(Mutex<BTreeMap<Announcement, Instant>>);

impl Announced {
    /// Whether an event says this already.
    pub(super) fn includes(&self, announcement: &Announcement, now: Instant) -> bool {
        let known = self.0.lock().expect("no holder of the lock panics");
        known.get(announcement).is_some_and(|at| now.duration_since(*at) < PERIOD)
    }

    /// An event that says this was written.
    pub(super) fn note(&self, announcement: Announcement, now: Instant) {
        let mut known = self.0.lock().expect("no holder of the lock panics");
        known.retain(|_, at| now.duration_since(*at) < PERIOD);
        if known.len() >= COMMANDS_MAX
            && let Some(oldest) = known.iter().min_by_key(|(_, at)| **at)
        {
            let oldest = oldest.0.clone();
            known.remove(&oldest);
        }
        known.insert(announcement, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(session: u16) -> Announcement {
        Announcement {
            by: "operator:ann".to_owned(),
            session: session.to_be_bytes().to_vec(),
            instance: "shop-db-0@7".to_owned(),
            port: 5432,
        }
    }

    /// R-CLI-6: an event is about one user, command, instance and port, and lasts for an hour.
    #[test]
    fn event_is_about_one_command() {
        let (announced, now) = (Announced::default(), Instant::now());
        assert!(!announced.includes(&of(1), now));
        announced.note(of(1), now);
        assert!(announced.includes(&of(1), now));
        let others = [
            of(2),
            Announcement { by: "operator:bob".to_owned(), ..of(1) },
            Announcement { instance: "shop-db-0@8".to_owned(), ..of(1) },
            Announcement { port: 80, ..of(1) },
        ];
        for other in others {
            assert!(!announced.includes(&other, now), "{other:?}");
        }
        assert!(announced.includes(&of(1), now + PERIOD - Duration::from_secs(1)));
        assert!(!announced.includes(&of(1), now + PERIOD));
    }

    /// A user with many commands takes a bounded amount of memory; the oldest is forgotten.
    #[test]
    fn few_commands_are_remembered() {
        let (announced, start) = (Announced::default(), Instant::now());
        let many = u16::try_from(COMMANDS_MAX).unwrap() + 10;
        for session in 0..many {
            announced.note(of(session), start + Duration::from_millis(session.into()));
        }
        assert_eq!(announced.0.lock().unwrap().len(), COMMANDS_MAX);
        let now = start + Duration::from_secs(10);
        assert!(!announced.includes(&of(9), now) && announced.includes(&of(10), now));
    }
}

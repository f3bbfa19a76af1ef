//! Sessions of browsers on this node: which credential each of them signed in with.
//!
//! Held in memory only: they end with the daemon. What a browser keeps is a random name; what is kept here under its hash is
//! the credential, which is judged anew with each request. A session counts for the address that it began at: browsers show
//! cookies of a host at all of its ports, and what listens there cannot use them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jaco_types::{Identity, Rejection};
use tokio::time::Instant;

use crate::auth::credential::Credential;
use crate::auth::random_name::{self, NameHash};

/// How long a session lasts at most.
pub(super) const LIFE: Duration = Duration::from_secs(12 * 3600);

/// How long it lasts without a request.
const IDLE: Duration = Duration::from_secs(3600);

/// Sessions of a node. A further one ends the one that was used the longest time ago.
const SESSIONS_MAX: usize = 256;

/// Sessions of a user, likewise: one that signs in over and over does not end those of others.
const PER_USER_MAX: usize = 16;

/// The sessions. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    held: Arc<Mutex<BTreeMap<NameHash, Held>>>,
}

#[derive(Debug)]
struct Held {
    credential: Credential,
    by: Identity,
    from: IpAddr,
    began: Instant,
    used: Instant,
}

/// The session of a request.
#[derive(Clone)]
pub(crate) struct Session {
    name: NameHash,
    credential: Credential,
}

impl Session {
    /// The credential that it began with.
    pub(super) fn credential(&self) -> &Credential {
        &self.credential
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Held {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= LIFE || now.duration_since(self.used) >= IDLE
    }
}

impl Sessions {
    /// Begins a session with a credential that was accepted, and returns its name.
    ///
    /// # Errors
    /// `internal` if this machine has no random numbers.
    pub(super) fn begin(
        &self,
        credential: Credential,
        by: Identity,
        from: IpAddr,
    ) -> Result<String, Rejection> {
        let name = random_name::fresh()?;
        let now = Instant::now();
        let mut held = self.lock();
        held.retain(|_, session| !session.is_over(now));
        if held.values().filter(|session| session.by == by).count() >= PER_USER_MAX {
            end_longest_unused(&mut held, |session| session.by == by);
        }
        if held.len() >= SESSIONS_MAX {
            end_longest_unused(&mut held, |_| true);
        }
        held.insert(random_name::hash(&name), Held { credential, by, from, began: now, used: now });
        Ok(name)
    }

    /// The session of this name, if it is not over and began at this address. It is used by this.
    pub(super) fn find(&self, name: &str, from: IpAddr) -> Option<Session> {
        let name = random_name::hash(name);
        let now = Instant::now();
        let mut held = self.lock();
        let session = held.get_mut(&name)?;
        if session.is_over(now) {
            held.remove(&name);
            return None;
        }
        if session.from != from {
            return None;
        }
        session.used = now;
        Some(Session { name, credential: session.credential.clone() })
    }

    /// Ends the session of this name, wherever that comes from: who knows it may end it.
    pub(super) fn end_named(&self, name: &str) {
        self.lock().remove(&random_name::hash(name));
    }

    /// Ends a session whose credential does not count any more.
    pub(crate) fn end(&self, session: &Session) {
        self.lock().remove(&session.name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NameHash, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end_longest_unused(held: &mut BTreeMap<NameHash, Held>, of: impl Fn(&Held) -> bool) {
    let among = held.iter().filter(|(_, session)| of(session));
    let oldest = among.min_by_key(|(_, session)| session.used).map(|(name, _)| *name);
    if let Some(oldest) = oldest {
        held.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use jaco_types::TokenId;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn begin(sessions: &Sessions, token: &str) -> String {
        let bearer = Credential::Token(format!("Bearer {token}").parse().unwrap());
        let by = Identity::Operator { token: TokenId::new(token).unwrap() };
        sessions.begin(bearer, by, HERE).unwrap()
    }

    /// R-OPS-1: a session is found by its name, from where it began, until it is ended.
    #[tokio::test(start_paused = true)]
    async fn sessions_are_found_where_they_began() {
        let sessions = Sessions::default();
        let name = begin(&sessions, "ann");
        let found = sessions.find(&name, HERE).unwrap();
        assert!(matches!(found.credential(), Credential::Token(token) if token == "Bearer ann"));
        assert!(sessions.find(&name, THERE).is_none());
        assert!(sessions.find("", HERE).is_none() && sessions.find(&name[1..], HERE).is_none());
        assert_ne!(name, begin(&sessions, "ann"));
        assert!(!name.contains("ann") && name.len() == 64);
        sessions.end_named(&name);
        assert!(sessions.find(&name, HERE).is_none());
    }

    /// R-OPS-1: a session ends when it is not used, and at last although it is.
    #[tokio::test(start_paused = true)]
    async fn sessions_end_by_themselves() {
        let sessions = Sessions::default();
        let (idle, used) = (begin(&sessions, "ann"), begin(&sessions, "ann"));
        let began = Instant::now();
        while began.elapsed() < LIFE {
            assert!(sessions.find(&used, HERE).is_some(), "{:?}", began.elapsed());
            tokio::time::advance(Duration::from_secs(1800)).await;
        }
        assert!(sessions.find(&used, HERE).is_none());
        assert!(sessions.find(&idle, HERE).is_none());
        assert!(sessions.lock().is_empty(), "what is over is not kept");

        let idle = begin(&sessions, "ann");
        tokio::time::advance(IDLE - Duration::from_secs(1)).await;
        assert!(sessions.find(&idle, HERE).is_some());
        tokio::time::advance(IDLE).await;
        assert!(sessions.find(&idle, HERE).is_none());
    }

    /// R-OPS-1, R-IN-3: sessions are bounded, for the node and for each user, and the ones that are used stay.
    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded() {
        let sessions = Sessions::default();
        let other = begin(&sessions, "bob");
        let mut names = Vec::new();
        for _ in 0..PER_USER_MAX {
            tokio::time::advance(Duration::from_millis(1)).await;
            names.push(begin(&sessions, "ann"));
        }
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(sessions.find(&names[0], HERE).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        begin(&sessions, "ann");
        assert!(sessions.find(&names[0], HERE).is_some(), "it was used last");
        assert!(sessions.find(&names[1], HERE).is_none(), "it was used the longest time ago");
        assert!(sessions.find(&other, HERE).is_some(), "it is of another user");
        for number in 0..2 * SESSIONS_MAX {
            begin(&sessions, &format!("t{number}"));
        }
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
    }

    /// R-OPS-1: what is printed of sessions has no token and no name.
    #[tokio::test(start_paused = true)]
    async fn nothing_secret_is_printed() {
        let sessions = Sessions::default();
        let bearer = Credential::Token("Bearer jo1.secret".parse().unwrap());
        let name = sessions.begin(bearer, Identity::Anonymous, HERE).unwrap();
        let printed = format!("{sessions:?} {:?}", sessions.find(&name, HERE));
        assert!(!printed.contains("secret") && !printed.contains(&name), "{printed}");
    }
}

//! Links that sign a browser in once, without a token to be typed in.
//!
//! Held in memory only, under the hash of what the link has in it. To look at a link does not use it up: programs that fetch
//! links before their readers do only look.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jaco_types::{Identity, Rejection};
use tokio::time::Instant;

use super::credential::Credential;
use super::random_name::{self, NameHash};

/// How long a link is good for.
pub(crate) const LINK_LIFE: Duration = Duration::from_secs(300);

/// Links of a node. A further one ends the oldest.
const LINKS_MAX: usize = 64;

/// Links of a user, likewise: one that asks over and over does not end those of others.
const PER_USER_MAX: usize = 4;

/// The links that are good.
#[derive(Debug, Default)]
pub struct SignInLinks {
    held: Mutex<BTreeMap<NameHash, Offer>>,
}

/// Who a link signs in.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) credential: Credential,
    pub(crate) by: Identity,
    made: Instant,
}

impl SignInLinks {
    /// Makes a link for who has shown this credential, and returns what is secret of it.
    ///
    /// # Errors
    /// `internal` if this machine has no random numbers.
    pub(crate) fn issue(&self, credential: Credential, by: Identity) -> Result<String, Rejection> {
        let name = random_name::fresh()?;
        let mut held = self.current();
        if held.values().filter(|offer| offer.by == by).count() >= PER_USER_MAX {
            end_oldest(&mut held, |offer| offer.by == by);
        }
        if held.len() >= LINKS_MAX {
            end_oldest(&mut held, |_| true);
        }
        held.insert(random_name::hash(&name), Offer { credential, by, made: Instant::now() });
        Ok(name)
    }

    /// Who a link signs in, if it is good. It stays so.
    pub(crate) fn look(&self, name: &str) -> Option<Identity> {
        self.current().get(&random_name::hash(name)).map(|offer| offer.by.clone())
    }

    /// Uses a link up.
    pub(crate) fn take(&self, name: &str) -> Option<Offer> {
        self.current().remove(&random_name::hash(name))
    }

    /// Those that are not too old.
    fn current(&self) -> MutexGuard<'_, BTreeMap<NameHash, Offer>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        held.retain(|_, offer| now.duration_since(offer.made) < LINK_LIFE);
        held
    }
}

fn end_oldest(held: &mut BTreeMap<NameHash, Offer>, of: impl Fn(&Offer) -> bool) {
    let among = held.iter().filter(|(_, offer)| of(offer));
    let oldest = among.min_by_key(|(_, offer)| offer.made).map(|(name, _)| *name);
    if let Some(oldest) = oldest {
        held.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issue(links: &SignInLinks, uid: u32) -> String {
        links.issue(Credential::Local { uid }, Identity::Local { uid }).unwrap()
    }

    /// R-OPS-1, R-IN-3: a link signs in once, and looking at it does not count.
    #[tokio::test(start_paused = true)]
    async fn a_link_is_used_once() {
        let links = SignInLinks::default();
        let name = issue(&links, 0);
        assert_eq!(name.len(), 64);
        for _ in 0..3 {
            assert_eq!(links.look(&name), Some(Identity::Local { uid: 0 }));
        }
        assert!(links.take(&name[1..]).is_none() && links.take("").is_none());
        assert!(links.take(&name).is_some());
        assert!(links.take(&name).is_none() && links.look(&name).is_none());
    }

    /// R-OPS-1, R-IN-3: a link that nobody uses is good for its time, and forgotten then.
    #[tokio::test(start_paused = true)]
    async fn links_become_too_old() {
        let links = SignInLinks::default();
        let (first, second) = (issue(&links, 0), issue(&links, 0));
        tokio::time::advance(LINK_LIFE - Duration::from_secs(1)).await;
        assert!(links.look(&first).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(links.take(&first).is_none() && links.look(&second).is_none());
        assert!(links.held.lock().unwrap().is_empty());
    }

    /// R-OPS-1, R-IN-3: links are bounded, for the node and for each user, and it is the oldest ones that go.
    #[tokio::test(start_paused = true)]
    async fn links_are_bounded() {
        let links = SignInLinks::default();
        let other = issue(&links, 7);
        let mut names = Vec::new();
        for _ in 0..=PER_USER_MAX {
            tokio::time::advance(Duration::from_millis(1)).await;
            names.push(issue(&links, 0));
        }
        assert!(links.look(&names[0]).is_none());
        assert!(names[1..].iter().all(|name| links.look(name).is_some()));
        assert!(links.look(&other).is_some(), "it is of another user");
        for uid in 100..300 {
            issue(&links, uid);
        }
        assert_eq!(links.held.lock().unwrap().len(), LINKS_MAX);
    }

    /// R-OPS-1: what is printed of links has nothing that signs in.
    #[tokio::test(start_paused = true)]
    async fn nothing_secret_is_printed() {
        let links = SignInLinks::default();
        let token = Credential::Token("Bearer jo1.secret".parse().unwrap());
        let name = links.issue(token, Identity::Local { uid: 0 }).unwrap();
        let printed = format!("{links:?} {:?}", links.take(&name));
        assert!(!printed.contains("secret") && !printed.contains(&name), "{printed}");
    }
}

//! The listeners that the router has: those of its plan, as far as they could be opened.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jaco_dataplane::edge::ListenerKey;
use tokio::sync::watch;
use tracing::{info, warn};

use super::missing::Missing;
use super::socket;

/// The listeners that the router has. They are changed by its plan, and by what an edge hands back.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    state: Mutex<State>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// Those of the plan. `None`: there has been none yet, and any of them may turn out to be planned.
    planned: Option<BTreeSet<ListenerKey>>,
    open: BTreeMap<ListenerKey, Open>,
    /// Why the others are not.
    missing: BTreeMap<ListenerKey, Missing>,
}

/// A listener that is open.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) socket: Arc<OwnedFd>,
    /// The number of the socket, which its copies share.
    pub(super) number: u64,
}

impl Listeners {
    /// Says which listeners there are to be from now on. It opens and closes none.
    pub(crate) fn plan(&self, planned: &BTreeSet<ListenerKey>) {
        let mut state = self.state();
        if state.planned.as_ref() != Some(planned) {
            state.planned = Some(planned.clone());
            state.missing.retain(|key, _| planned.contains(key));
            self.count(state);
        }
    }

    /// Opens those that are not open. What fails is in [`Listeners::missing`].
    pub(crate) fn open(&self, keys: &BTreeSet<ListenerKey>) {
        let mut state = self.state();
        for key in keys {
            if state.open.contains_key(key) {
                continue;
            }
            let opened = socket::open(*key).and_then(|socket| {
                let number = socket::number(&socket)?;
                Ok(Open { socket: Arc::new(socket), number })
            });
            match opened {
                Ok(open) => {
                    info!(listener = %key, "listener opened");
                    state.missing.remove(key);
                    state.open.insert(*key, open);
                }
                Err(error) => {
                    let why = socket::explain(*key, &error);
                    match &why {
                        known if state.missing.get(key) == Some(known) => {}
                        Missing::Elsewhere => info!(listener = %key, "listener of another node"),
                        Missing::Failed(_) => {
                            warn!(listener = %key, %error, "listener not opened");
                        }
                    }
                    state.missing.insert(*key, why);
                }
            }
        }
        self.count(state);
    }

    /// Opens what is planned and could not be opened before.
    pub(crate) fn open_missing(&self) {
        let missing = self.state().missing.keys().copied().collect();
        self.open(&missing);
    }

    /// Closes the router's copies.
    pub(crate) fn close(&self, keys: &BTreeSet<ListenerKey>) {
        let mut state = self.state();
        for key in keys {
            if state.open.remove(key).is_some() {
                info!(listener = %key, "listener closed");
            }
        }
        self.count(state);
    }

    /// Takes over a socket that an edge hands back, if it is the listener that it is said to be, and one that is planned
    /// and not open. Returns its number in any case that it is known.
    pub(super) fn adopt(&self, key: ListenerKey, handed: OwnedFd) -> Option<u64> {
        let number = match socket::verify(key, &handed) {
            Ok(number) => number,
            Err(why) => {
                warn!(listener = %key, reason = %why, "socket that the edge handed back is refused");
                return None;
            }
        };
        let mut state = self.state();
        let is_planned = state.planned.as_ref().is_none_or(|planned| planned.contains(&key));
        if is_planned && !state.open.contains_key(&key) {
            info!(listener = %key, "listener taken over from the edge");
            state.missing.remove(&key);
            state.open.insert(key, Open { socket: Arc::new(handed), number });
            self.count(state);
        }
        Some(number)
    }

    /// Those that are open.
    pub(crate) fn opened(&self) -> BTreeSet<ListenerKey> {
        self.state().open.keys().copied().collect()
    }

    /// Those that are planned and not open, each with the reason.
    pub(crate) fn missing(&self) -> BTreeMap<ListenerKey, Missing> {
        self.state().missing.clone()
    }

    /// Those that are open, with their sockets.
    pub(super) fn sockets(&self) -> BTreeMap<ListenerKey, Open> {
        self.state().open.clone()
    }

    /// Tells of every change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn count(&self, state: MutexGuard<'_, State>) {
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use jaco_dataplane::edge::Transport;

    use super::super::socket::tests::key;
    use super::*;

    /// A port that another program has is named, and taken once it is free.
    #[test]
    fn what_failed_is_named_and_opened_later() {
        let (listeners, key) = (Listeners::default(), key(Transport::Tcp));
        let planned = BTreeSet::from([key]);
        let other = socket::open(key).unwrap();
        listeners.plan(&planned);
        listeners.open(&planned);
        let missing = listeners.missing();
        let Missing::Failed(why) = &missing[&key] else { panic!("{missing:?}") };
        assert!(why.contains("ss -ltnp"), "{why}");
        assert_eq!(listeners.opened(), BTreeSet::new());
        drop(other);
        listeners.open_missing();
        assert_eq!((listeners.opened(), listeners.missing()), (planned, BTreeMap::new()));
        listeners.plan(&BTreeSet::new());
        listeners.close(&BTreeSet::from([key]));
        socket::open(key).unwrap();
    }

    /// What an edge hands back is kept while no plan is there, and afterwards only what that says.
    #[test]
    fn sockets_are_taken_over_if_planned() {
        let listeners = Listeners::default();
        let [first, second, third] =
            [key(Transport::Tcp), key(Transport::Udp), key(Transport::Tcp)];
        let socket = socket::open(first).unwrap();
        let number = socket::number(&socket).unwrap();
        assert_eq!(listeners.adopt(first, socket.try_clone().unwrap()), Some(number));
        assert_eq!(listeners.opened(), BTreeSet::from([first]));
        listeners.plan(&BTreeSet::from([second]));
        assert!(listeners.adopt(second, socket::open(second).unwrap()).is_some());
        assert!(listeners.adopt(third, socket::open(third).unwrap()).is_some());
        assert_eq!(listeners.opened(), BTreeSet::from([first, second]));
        assert_eq!(listeners.adopt(third, socket), None, "it is another port");
    }

    /// An edge that hands back late has the port until then, as another program would.
    #[test]
    fn a_socket_that_comes_late_ends_its_failure() {
        let (listeners, key) = (Listeners::default(), key(Transport::Tcp));
        let planned = BTreeSet::from([key]);
        let of_edge = socket::open(key).unwrap();
        listeners.plan(&planned);
        listeners.open(&planned);
        assert_eq!(listeners.missing().len(), 1);
        listeners.adopt(key, of_edge);
        assert_eq!((listeners.opened(), listeners.missing()), (planned, BTreeMap::new()));
    }
}

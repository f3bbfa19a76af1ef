//! The router of a machine as an endpoint consumer, as its daemon attaches it and speaks for it: replicas that leave
//! stop once it has acknowledged that it leads nobody to them (PL-13).

use jaco_state::command::ConsumerAttach;
use jaco_state::{ClusterState, Command};
use jaco_types::{ConsumerName, Hostname, Millis, NodeId, StateIndex};

/// For how long it may be silent before nothing waits for it.
const LEASE: Millis = Millis(5000);

/// What a daemon knows of its attachment.
#[derive(Debug, Default)]
pub(crate) struct RouterConsumer {
    /// Whether it looks at it from time to time.
    pub(crate) renewing: Renewing,
    attaching: Attaching,
    session: Option<StateIndex>,
    /// What the leader was told.
    delivered: StateIndex,
}

/// Whether a daemon renews the lease of its router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Renewing {
    #[default]
    No,
    Yes,
}

/// How far an attachment is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Attaching {
    /// It was not asked for in this life of the daemon.
    #[default]
    NotAsked,
    /// It was proposed, with the state that the daemon had then, and not answered.
    Asked(StateIndex),
    /// It was answered, or nobody knows.
    Answered(StateIndex),
}

/// What is to be sent to the leader.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledgement {
    pub(crate) name: ConsumerName,
    pub(crate) session: StateIndex,
    pub(crate) index: StateIndex,
}

impl RouterConsumer {
    /// Looks whether it is attached. What to propose if it is not and nothing is proposed.
    pub(crate) fn attach(
        &mut self,
        host: &Hostname,
        node: NodeId,
        state: &ClusterState,
    ) -> Option<Command> {
        let name = name_of(host);
        let known = state.consumers.get(&name).map(|consumer| consumer.session);
        let (Attaching::Asked(asked_at) | Attaching::Answered(asked_at)) = self.attaching else {
            return Some(self.ask(name, node, state.index));
        };
        // What an earlier life of the daemon attached is not its own.
        let own = known.filter(|session| *session > asked_at);
        if own.is_some() && own != self.session {
            self.session = own;
            self.delivered = StateIndex(0);
        }
        if own.is_some() || matches!(self.attaching, Attaching::Asked(_)) {
            return None;
        }
        self.session = None;
        Some(self.ask(name, node, state.index))
    }

    fn ask(&mut self, name: ConsumerName, node: NodeId, at: StateIndex) -> Command {
        self.attaching = Attaching::Asked(at);
        ConsumerAttach::new(name, node, LEASE).into()
    }

    /// The attachment was answered.
    pub(crate) fn answered(&mut self) {
        if let Attaching::Asked(at) = self.attaching {
            self.attaching = Attaching::Answered(at);
        }
    }

    /// What to send the leader to renew the lease.
    pub(crate) fn renewal(&self, host: &Hostname, released: StateIndex) -> Option<Acknowledgement> {
        let index = released.max(self.delivered);
        Some(Acknowledgement { name: name_of(host), session: self.session?, index })
    }

    /// Whether some instance waits to hear of this state.
    pub(crate) fn is_awaited(&self, state: &ClusterState, released: StateIndex) -> bool {
        let mut left = state.terminating.values().map(|terminating| terminating.left_at);
        left.any(|left_at| self.delivered < left_at && left_at <= released)
    }

    /// It was sent.
    pub(crate) fn delivered(&mut self, index: StateIndex) {
        self.delivered = index;
    }
}

/// The router of a machine as the daemons call it.
fn name_of(host: &Hostname) -> ConsumerName {
    ConsumerName::new(&format!("jacod-net-{host}")).expect("simulated host names are short")
}

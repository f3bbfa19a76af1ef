//! Connections that this node has opened to other members, with the authorities that vouch for both ends.
//!
//! A certificate is checked once, when a connection opens. During a rotation of the authority this says which connections
//! were opened with certificates of the old one, and ends those that nobody else closes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio_util::sync::CancellationToken;

use jaco_types::NodeId;

use crate::fingerprint::Fingerprint;
use crate::protocol::Protocol;

/// The connections that are open or being opened. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct Outgoing {
    table: Arc<Mutex<Table>>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingConnection {
    number: u64,
    /// The member at the other end, if a certain one was dialled.
    pub node: Option<NodeId>,
    /// What is spoken on it.
    pub protocol: Protocol,
}

/// Keeps a connection's entry for as long as the connection lives.
pub(crate) struct Registration {
    number: u64,
    close: CancellationToken,
    outgoing: Outgoing,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Entry>,
}

struct Entry {
    node: Option<NodeId>,
    protocol: Protocol,
    /// Who signed the certificate that was shown.
    own_signer: Fingerprint,
    /// Who signed that of the other end; not known before the handshake has ended.
    peer_signer: Option<Fingerprint>,
    close: CancellationToken,
}

impl Outgoing {
    /// The connections of which an end has shown a certificate of another authority than this one, or may do so yet.
    #[must_use]
    pub fn not_of(&self, authority: Fingerprint) -> Vec<OutgoingConnection> {
        let is_other =
            |entry: &&Entry| entry.own_signer != authority || entry.peer_signer != Some(authority);
        let table = self.lock();
        let others = table.open.iter().filter(|(_, entry)| is_other(entry));
        let others = others.map(|(number, entry)| OutgoingConnection {
            number: *number,
            node: entry.node,
            protocol: entry.protocol,
        });
        others.collect()
    }

    /// Ends a connection: reads from it end, as if the other end had closed it.
    pub fn close(&self, connection: OutgoingConnection) {
        if let Some(entry) = self.lock().open.get(&connection.number) {
            entry.close.cancel();
        }
    }

    /// Enters a connection before its handshake, in which this certificate is shown.
    pub(crate) fn enter(
        &self,
        node: Option<NodeId>,
        protocol: Protocol,
        own_signer: Fingerprint,
    ) -> Registration {
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        let close = CancellationToken::new();
        let entry = Entry { node, protocol, own_signer, peer_signer: None, close: close.clone() };
        table.open.insert(number, entry);
        Registration { number, close, outgoing: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("nothing panics while holding the table")
    }
}

impl Registration {
    /// The handshake has ended, and this authority vouches for the other end.
    pub(crate) fn established(&self, peer_signer: Option<Fingerprint>) {
        if let Some(entry) = self.outgoing.lock().open.get_mut(&self.number) {
            entry.peer_signer = peer_signer;
        }
    }

    pub(crate) fn close(&self) -> &CancellationToken {
        &self.close
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.outgoing.lock().open.remove(&self.number);
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("open", &self.lock().open.len()).finish()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("number", &self.number).finish_non_exhaustive()
    }
}

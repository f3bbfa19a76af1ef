//! The tunnel to other sites: WireGuard in the kernel where it has it, else in this process.

mod kernel;
mod packets;
mod userspace;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use gotatun::x25519;
use jaco_dataplane::{Found, Peer, PeerChange, PublicKey, Tunnel};
use jaco_types::Ipv4Prefix;

use crate::error::NetError;
use crate::kernel::{TunnelLink, Worker};
use crate::netlink::PeerLink;
use kernel::KernelTunnel;
use userspace::UserspaceTunnel;

/// Seconds between keepalives: so often that the other side is found again soon after either was restarted.
const KEEPALIVE: u16 = 10;

/// Where the tunnel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// In the kernel: it goes on without this process.
    Kernel,
    /// In this process: it stands still without it, and is taken up again.
    Userspace,
}

/// A WireGuard private key. It never leaves its node.
#[derive(Clone)]
pub struct PrivateKey([u8; 32]);

impl PrivateKey {
    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// What other sites know of it.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(x25519::PublicKey::from(&self.secret()).to_bytes())
    }

    fn secret(&self) -> x25519::StaticSecret {
        x25519::StaticSecret::from(self.0)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

/// What a tunnel of either kind is made with.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) key: PrivateKey,
    /// The one that a plan may name in place of that.
    pub(crate) next: Option<PrivateKey>,
    /// The UDP port, in the namespace of the container engine.
    pub(crate) port: u16,
}

impl Identity {
    /// The key that a plan names. Once that is the next one, the one before is forgotten.
    fn take(&mut self, planned: PublicKey) -> Result<PrivateKey, NetError> {
        if let Some(next) = self.next.take_if(|next| next.public_key() == planned) {
            self.key = next;
        }
        let own = self.key.public_key();
        if own == planned {
            return Ok(self.key.clone());
        }
        let why = format!("its key is {own:?}, the cluster's for this site is {planned:?}");
        Err(NetError::Tunnel { what: "take the planned key", why })
    }
}

/// The tunnel, of either kind.
#[derive(Debug)]
pub(crate) enum AnyTunnel {
    Kernel(KernelTunnel),
    Userspace(UserspaceTunnel),
}

impl AnyTunnel {
    /// Takes up a tunnel that an earlier process left, if there is one.
    pub(crate) async fn open(
        backend: Backend,
        identity: Identity,
        worker: &Worker,
    ) -> Result<Self, NetError> {
        Ok(match backend {
            Backend::Kernel => Self::Kernel(KernelTunnel::new(identity)),
            Backend::Userspace => Self::Userspace(UserspaceTunnel::open(identity, worker).await?),
        })
    }

    pub(crate) fn backend(&self) -> Backend {
        match self {
            Self::Kernel(_) => Backend::Kernel,
            Self::Userspace(_) => Backend::Userspace,
        }
    }

    /// Makes the tunnel, without peers.
    pub(crate) async fn add(&mut self, tunnel: Tunnel, worker: &Worker) -> Result<(), NetError> {
        let key = self.identity().take(tunnel.key)?;
        match self {
            Self::Kernel(it) => it.add(tunnel, key, worker).await,
            Self::Userspace(it) => it.add(tunnel, worker).await,
        }
    }

    /// Lets plans name this key.
    pub(crate) fn offer_key(&mut self, next: PrivateKey) {
        self.identity().next = Some(next);
    }

    /// Changes the key. With each peer there is another handshake, which begins at once: the peer may have begun one
    /// before that this side could not answer.
    pub(crate) async fn set_key(
        &mut self,
        key: PublicKey,
        worker: &Worker,
    ) -> Result<(), NetError> {
        let key = self.identity().take(key)?;
        match self {
            Self::Kernel(it) => it.set_key(key, worker).await,
            Self::Userspace(it) => it.set_key().await,
        }
    }

    fn identity(&mut self) -> &mut Identity {
        match self {
            Self::Kernel(it) => it.identity(),
            Self::Userspace(it) => it.identity(),
        }
    }

    pub(crate) async fn remove(&mut self, worker: &Worker) -> Result<(), NetError> {
        match self {
            Self::Kernel(it) => it.remove(worker).await,
            Self::Userspace(it) => it.remove(worker).await,
        }
    }

    /// Adds a peer.
    pub(crate) async fn set_peer(
        &mut self,
        key: PublicKey,
        peer: Peer,
        worker: &Worker,
    ) -> Result<(), NetError> {
        match self {
            Self::Kernel(it) => {
                let Peer { endpoint, addresses: gained } = peer;
                let lost = BTreeSet::new();
                it.change_peer(key, PeerChange { endpoint, lost, gained }, worker).await
            }
            Self::Userspace(it) => it.set_peer(key, peer).await,
        }
    }

    /// Changes a peer that is there.
    pub(crate) async fn change_peer(
        &mut self,
        key: PublicKey,
        change: PeerChange,
        worker: &Worker,
    ) -> Result<(), NetError> {
        match self {
            Self::Kernel(it) => it.change_peer(key, change, worker).await,
            Self::Userspace(it) => it.change_peer(key, change).await,
        }
    }

    pub(crate) async fn remove_peer(
        &mut self,
        key: PublicKey,
        worker: &Worker,
    ) -> Result<(), NetError> {
        match self {
            Self::Kernel(it) => it.remove_peer(key, worker).await,
            Self::Userspace(it) => it.remove_peer(key).await,
        }
    }

    /// What the tunnel knows of its peers.
    pub(crate) async fn links(
        &self,
        worker: &Worker,
    ) -> Result<BTreeMap<PublicKey, PeerLink>, NetError> {
        match self {
            Self::Kernel(it) => it.links(worker).await,
            Self::Userspace(it) => Ok(it.links().await),
        }
    }

    /// The tunnel and its peers, given its interface.
    pub(crate) async fn observe(
        &self,
        link: Option<TunnelLink>,
        worker: &Worker,
    ) -> Result<(Option<Found<Tunnel>>, BTreeMap<PublicKey, Peer>), NetError> {
        let Some(link) = link else { return Ok((None, BTreeMap::new())) };
        let state = match self {
            Self::Kernel(it) => it.state(link, worker).await?,
            Self::Userspace(it) => it.state(link).await,
        };
        let Some((key, peers)) = state else { return Ok((Some(Found::Broken), BTreeMap::new())) };
        let found = sound(link, key).map_or(Found::Broken, Found::Sound);
        Ok((Some(found), peers))
    }
}

/// The tunnel that an interface stands for, or `None` if it is not as we make it.
fn sound(link: TunnelLink, key: PublicKey) -> Option<Tunnel> {
    let (address, length) = link.address?;
    let mask = u32::MAX.checked_shl(32_u32.checked_sub(length.into())?)?;
    let mesh = Ipv4Prefix::new((u32::from(address) & mask).into(), length).ok()?;
    Some(Tunnel { address, mesh, key, mtu: u16::try_from(link.mtu).ok()? })
}

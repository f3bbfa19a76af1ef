//! The kernel's WireGuard.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use jaco_dataplane::{Peer, PeerChange, PublicKey, Tunnel};

use super::{Identity, PrivateKey};
use crate::error::{NetError, refused};
use crate::kernel::{Kernel, TUNNEL, TunnelLink, Worker};
use crate::netlink::{LinkKind, PeerLink, WireGuard};

/// A tunnel in the kernel. All its state but the declared endpoints is there.
#[derive(Debug)]
pub(crate) struct KernelTunnel {
    identity: Identity,
    /// Where peers were said to listen. The kernel knows where they were heard of last.
    endpoints: BTreeMap<PublicKey, Option<SocketAddr>>,
}

impl KernelTunnel {
    pub(super) fn new(identity: Identity) -> Self {
        Self { identity, endpoints: BTreeMap::new() }
    }

    pub(super) fn identity(&mut self) -> &mut Identity {
        &mut self.identity
    }

    pub(super) async fn add(
        &mut self,
        tunnel: Tunnel,
        key: PrivateKey,
        worker: &Worker,
    ) -> Result<(), NetError> {
        self.endpoints.clear();
        let port = self.identity.port;
        let add = move |kernel: &mut Kernel| {
            kernel.remove_tunnel()?;
            kernel.add_wireguard()?;
            let what = "configure the tunnel";
            wireguard(kernel)?.configure(TUNNEL, key.0, port).map_err(refused(what))?;
            kernel.set_up_tunnel(tunnel)
        };
        worker.call(add).await
    }

    pub(super) async fn remove(&mut self, worker: &Worker) -> Result<(), NetError> {
        self.endpoints.clear();
        worker.call(Kernel::remove_tunnel).await
    }

    /// Changes the key; the kernel ends all sessions with it.
    pub(super) async fn set_key(&self, key: PrivateKey, worker: &Worker) -> Result<(), NetError> {
        let port = self.identity.port;
        let set = move |kernel: &mut Kernel| {
            let wireguard = wireguard(kernel)?;
            let changed = wireguard.configure(TUNNEL, key.0, port);
            let greeted = changed.and_then(|()| wireguard.greet(TUNNEL));
            greeted.map_err(refused("give the tunnel another key"))
        };
        worker.call(set).await
    }

    /// Changes a peer, and adds one that is not there.
    pub(super) async fn change_peer(
        &mut self,
        key: PublicKey,
        change: PeerChange,
        worker: &Worker,
    ) -> Result<(), NetError> {
        let endpoint = change.endpoint;
        // Where it was heard of last stands until another place is declared.
        let declared = match self.endpoints.get(&key) == Some(&endpoint) {
            true => None,
            false => endpoint,
        };
        let change = PeerChange { endpoint: declared, ..change };
        let set = move |kernel: &mut Kernel| {
            let set = wireguard(kernel)?.change_peer(TUNNEL, key, &change);
            set.map_err(refused("set a peer of the tunnel"))
        };
        worker.call(set).await?;
        self.endpoints.insert(key, endpoint);
        Ok(())
    }

    pub(super) async fn remove_peer(
        &mut self,
        key: PublicKey,
        worker: &Worker,
    ) -> Result<(), NetError> {
        let remove = move |kernel: &mut Kernel| {
            let removed = wireguard(kernel)?.remove_peer(TUNNEL, key);
            removed.map_err(refused("remove a peer of the tunnel"))
        };
        worker.call(remove).await?;
        self.endpoints.remove(&key);
        Ok(())
    }

    /// What the kernel knows of its peers.
    pub(super) async fn links(
        &self,
        worker: &Worker,
    ) -> Result<BTreeMap<PublicKey, PeerLink>, NetError> {
        let read = |kernel: &mut Kernel| {
            wireguard(kernel)?.device(TUNNEL).map_err(refused("read the tunnel"))
        };
        Ok(worker.call(read).await?.links)
    }

    /// Its key and peers, or `None` if the interface is not ours.
    pub(super) async fn state(
        &self,
        link: TunnelLink,
        worker: &Worker,
    ) -> Result<Option<(PublicKey, BTreeMap<PublicKey, Peer>)>, NetError> {
        if link.kind != LinkKind::WireGuard {
            return Ok(None);
        }
        let read = |kernel: &mut Kernel| {
            wireguard(kernel)?.device(TUNNEL).map_err(refused("read the tunnel"))
        };
        let mut device = worker.call(read).await?;
        for (key, peer) in &mut device.peers {
            if let Some(declared) = self.endpoints.get(key) {
                peer.endpoint = *declared;
            }
        }
        Ok((device.port == self.identity.port).then_some((device.key, device.peers)))
    }
}

fn wireguard(kernel: &mut Kernel) -> Result<&mut WireGuard, NetError> {
    let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
    kernel.wireguard.as_mut().ok_or_else(unsupported).map_err(refused("speak about WireGuard"))
}

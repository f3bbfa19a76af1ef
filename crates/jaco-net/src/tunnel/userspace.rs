//! WireGuard in this process, for kernels without it.
//!
//! The interface is persistent: it keeps its address and routes while no process holds it, so that a restart
//! costs open connections a pause and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gotatun::device::{Device, DeviceBuilder, Error};
use gotatun::udp::socket::UdpSocketFactory;
use gotatun::x25519;
use jaco_dataplane::{Peer, PeerChange, PublicKey, Tunnel};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep;
use tun_rs::AsyncDevice;

use super::packets::{Inlet, Outlet};
use super::{Identity, KEEPALIVE};
use crate::error::{NetError, refused};
use crate::kernel::{Kernel, TUNNEL, TunnelLink, Worker};
use crate::netlink::{LinkKind, PeerLink};

/// Bytes of datagrams that wait, as far as the system allows.
const SOCKET_BUFFER: usize = 4 * 1024 * 1024;

/// The packet size until one is planned.
const FIRST_MTU: u16 = 1420;

/// How long the port of a device that was stopped may stay in use, and the pause between two tries.
const CLOSE_MAX: Duration = Duration::from_secs(2);
const CLOSE_PAUSE: Duration = Duration::from_millis(5);

type Running = Device<(UdpSocketFactory, Outlet, Inlet)>;

/// A tunnel in this process.
pub(crate) struct UserspaceTunnel {
    identity: Identity,
    interface: Option<Arc<AsyncDevice>>,
    /// Runs from the first peer on.
    device: Option<Running>,
    /// As they were set. Where they were heard of last is the device's.
    peers: BTreeMap<PublicKey, Peer>,
    mtu: watch::Sender<u16>,
}

impl fmt::Debug for UserspaceTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers = self.peers.len();
        f.debug_struct("UserspaceTunnel").field("peers", &peers).finish_non_exhaustive()
    }
}

impl UserspaceTunnel {
    /// Takes the interface up again that an earlier process left.
    pub(super) async fn open(identity: Identity, worker: &Worker) -> Result<Self, NetError> {
        let mut tunnel = Self {
            identity,
            interface: None,
            device: None,
            peers: BTreeMap::new(),
            mtu: watch::Sender::new(FIRST_MTU),
        };
        let left = worker.call(|kernel| Ok(kernel.observe()?.tunnel)).await?;
        if left.is_some_and(|link| link.kind == LinkKind::Tun) {
            tunnel.interface = Some(attach(worker).await?);
        }
        Ok(tunnel)
    }

    pub(super) fn identity(&mut self) -> &mut Identity {
        &mut self.identity
    }

    /// Starts the device anew, with the key that its identity has now. Peers are told where they were heard of last,
    /// and a keepalive is sent to each at once.
    pub(super) async fn set_key(&mut self) -> Result<(), NetError> {
        let links = self.links().await;
        let Some(device) = self.device.take() else { return Ok(()) };
        device.stop().await;
        // Where the start fails there are none, which is seen: they are set again, and start it.
        let peers = std::mem::take(&mut self.peers);
        let heard = |(key, peer): (&PublicKey, &Peer)| {
            let heard = links.get(key).and_then(|link| link.endpoint);
            encoded(*key, &Peer { endpoint: heard.or(peer.endpoint), ..peer.clone() })
        };
        let encoded: Vec<_> = peers.iter().map(heard).collect();
        if !encoded.is_empty() {
            self.device = Some(self.start(encoded).await?);
        }
        self.peers = peers;
        Ok(())
    }

    pub(super) async fn add(&mut self, tunnel: Tunnel, worker: &Worker) -> Result<(), NetError> {
        self.close().await;
        worker.call(Kernel::remove_tunnel).await?;
        let interface = attach(worker).await?;
        worker.call(move |kernel| kernel.set_up_tunnel(tunnel)).await?;
        self.mtu.send_replace(tunnel.mtu);
        self.interface = Some(interface);
        Ok(())
    }

    pub(super) async fn remove(&mut self, worker: &Worker) -> Result<(), NetError> {
        self.close().await;
        worker.call(Kernel::remove_tunnel).await
    }

    pub(super) async fn set_peer(&mut self, key: PublicKey, peer: Peer) -> Result<(), NetError> {
        let failed = failed("set a peer");
        if let Some(device) = &mut self.device {
            device.add_or_update_peer(encoded(key, &peer)).await.map_err(failed)?;
        } else {
            self.device = Some(self.start(vec![encoded(key, &peer)]).await?);
        }
        self.peers.insert(key, peer);
        Ok(())
    }

    pub(super) async fn change_peer(
        &mut self,
        key: PublicKey,
        change: PeerChange,
    ) -> Result<(), NetError> {
        let PeerChange { endpoint, lost, gained } = change;
        let Some((device, peer)) = self.device.as_mut().zip(self.peers.get_mut(&key)) else {
            return self.set_peer(key, Peer { endpoint, addresses: gained }).await;
        };
        let moved = peer.endpoint != endpoint;
        peer.endpoint = endpoint;
        for address in &lost {
            peer.addresses.remove(address);
        }
        peer.addresses.extend(&gained);
        // The device forgets addresses only all together.
        let new = if lost.is_empty() { &gained } else { &peer.addresses };
        let new: Vec<IpAddr> = new.iter().map(|address| IpAddr::V4(*address)).collect();
        let key = x25519::PublicKey::from(key.0);
        let edit = device.modify_peer(&key, |edited| {
            if !lost.is_empty() {
                edited.clear_allowed_ips();
            }
            edited.add_allowed_ips(new);
            // Where it was heard of last stands until another place is declared.
            if moved {
                edited.set_endpoint(endpoint);
            }
        });
        edit.await.map(drop).map_err(failed("change a peer"))
    }

    pub(super) async fn remove_peer(&mut self, key: PublicKey) -> Result<(), NetError> {
        if let Some(device) = &self.device {
            let removed = device.remove_peer(&x25519::PublicKey::from(key.0)).await;
            removed.map_err(failed("remove a peer"))?;
        }
        self.peers.remove(&key);
        Ok(())
    }

    /// What the device knows of its peers.
    pub(super) async fn links(&self) -> BTreeMap<PublicKey, PeerLink> {
        let Some(device) = &self.device else { return BTreeMap::new() };
        let bytes = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let links = device.peers().await.into_iter().map(|found| {
            let link = PeerLink {
                endpoint: found.peer.endpoint,
                handshake: found.stats.last_handshake,
                received: bytes(found.stats.rx_bytes),
                sent: bytes(found.stats.tx_bytes),
            };
            (PublicKey(found.peer.public_key.to_bytes()), link)
        });
        links.collect()
    }

    /// Its key and peers, or `None` if the interface is not held by this process.
    pub(super) async fn state(
        &self,
        link: TunnelLink,
    ) -> Option<(PublicKey, BTreeMap<PublicKey, Peer>)> {
        let held = link.kind == LinkKind::Tun && self.interface.is_some();
        held.then(|| (self.identity.key.public_key(), self.peers.clone()))
    }

    async fn start(&self, peers: Vec<gotatun::device::Peer>) -> Result<Running, NetError> {
        let none = || NetError::Tunnel { what: "start", why: "it has no interface".to_owned() };
        let interface = self.interface.as_ref().ok_or_else(none)?;
        let begun = Instant::now();
        loop {
            match self.build(interface, peers.clone()).await {
                // The sockets of a device that was stopped are closed a moment later.
                Err(Error::Bind(..)) if begun.elapsed() < CLOSE_MAX => sleep(CLOSE_PAUSE).await,
                built => return built.map_err(failed("start")),
            }
        }
    }

    async fn build(
        &self,
        interface: &Arc<AsyncDevice>,
        peers: Vec<gotatun::device::Peer>,
    ) -> Result<Running, Error> {
        let outlet = Outlet::new(Arc::clone(interface));
        let inlet = Inlet::new(Arc::clone(interface), self.mtu.subscribe());
        let device = DeviceBuilder::new()
            .with_default_udp()
            .udp_recv_buffer_size(SOCKET_BUFFER)
            .udp_send_buffer_size(SOCKET_BUFFER)
            .with_ip_pair(outlet, inlet)
            .with_private_key(self.identity.key.secret())
            .with_listen_port(self.identity.port)
            .with_peers(peers);
        device.build().await
    }

    async fn close(&mut self) {
        if let Some(device) = self.device.take() {
            device.stop().await;
        }
        self.interface = None;
        self.peers.clear();
    }
}

/// Opens the interface, on the thread inside the router's namespace.
async fn attach(worker: &Worker) -> Result<Arc<AsyncDevice>, NetError> {
    let runtime = Handle::current();
    let open = move |_: &mut Kernel| {
        let _runtime = runtime.enter();
        let interface = tun_rs::DeviceBuilder::new()
            .name(TUNNEL)
            .offload(true)
            .inherit_enable_state()
            .build_async()
            .map_err(refused("open a TUN interface"))?;
        interface.persist().map_err(refused("keep a TUN interface"))?;
        Ok(Arc::new(interface))
    };
    worker.call(open).await
}

fn encoded(key: PublicKey, peer: &Peer) -> gotatun::device::Peer {
    let mut encoded = gotatun::device::Peer::new(x25519::PublicKey::from(key.0));
    encoded.endpoint = peer.endpoint;
    encoded.keepalive = Some(KEEPALIVE);
    let addresses = peer.addresses.iter().map(|address| IpAddr::V4(*address).into());
    encoded.with_allowed_ips(addresses)
}

fn failed(what: &'static str) -> impl FnOnce(Error) -> NetError {
    move |error| NetError::Tunnel { what, why: error.to_string() }
}

//! Packets between the TUN interface and the tunnel's cryptography, many at a time.
//!
//! The kernel hands over segments that belong together as one, and takes them as one: that is most of the
//! throughput of a tunnel outside of the kernel.

use std::io;
use std::iter;
use std::mem;
use std::sync::Arc;

use bytes::BytesMut;
use gotatun::packet::{Ip, Packet, PacketBufPool};
use gotatun::tun::{IpRecv, IpSend, MtuWatcher};
use tokio::sync::{mpsc, watch};
use tun_rs::{AsyncDevice, GROTable, IDEAL_BATCH_SIZE, VIRTIO_NET_HDR_LEN};

/// Packets that wait for the interface.
const WAITING: usize = 1024;

/// The largest packet with its header of the interface.
const LARGEST: usize = VIRTIO_NET_HDR_LEN + 65_535;

/// Hands packets to the interface.
#[derive(Debug)]
pub(super) struct Outlet {
    queue: mpsc::Sender<Packet<Ip>>,
}

impl Outlet {
    /// Starts the task that writes. It ends with the outlet.
    pub(super) fn new(interface: Arc<AsyncDevice>) -> Self {
        let (queue, packets) = mpsc::channel(WAITING);
        tokio::spawn(write_all(interface, packets));
        Self { queue }
    }
}

impl IpSend for Outlet {
    async fn send(&mut self, packet: Packet<Ip>) -> io::Result<()> {
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.queue.send(packet).await.map_err(closed)
    }
}

async fn write_all(interface: Arc<AsyncDevice>, mut queue: mpsc::Receiver<Packet<Ip>>) {
    let mut table = GROTable::default();
    let (mut packets, mut spare) = (Vec::new(), Vec::<BytesMut>::new());
    let mut buffers: Vec<BytesMut> = Vec::new();
    while queue.recv_many(&mut packets, IDEAL_BATCH_SIZE).await > 0 {
        for packet in packets.drain(..) {
            let packet = packet.into_bytes();
            let mut buffer = spare.pop().unwrap_or_else(|| BytesMut::with_capacity(LARGEST));
            buffer.clear();
            buffer.resize(VIRTIO_NET_HDR_LEN, 0);
            buffer.extend_from_slice(packet.as_ref());
            buffers.push(buffer);
        }
        let written = interface.send_multiple(&mut table, &mut buffers, VIRTIO_NET_HDR_LEN).await;
        if let Err(error) = written {
            // A packet that the interface does not take is lost, as on any line.
            tracing::debug!(%error, "packets were not taken by the tunnel's interface");
        }
        spare.append(&mut buffers);
        spare.truncate(IDEAL_BATCH_SIZE);
    }
}

/// Takes packets from the interface.
pub(super) struct Inlet {
    interface: Arc<AsyncDevice>,
    mtu: watch::Receiver<u16>,
    original: Vec<u8>,
    buffers: Vec<Buffer>,
    sizes: Vec<usize>,
}

/// A packet's buffer, as the interface wants it.
struct Buffer(Packet);

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0.buf_mut()
    }
}

impl Inlet {
    pub(super) fn new(interface: Arc<AsyncDevice>, mtu: watch::Receiver<u16>) -> Self {
        let sizes = vec![0; IDEAL_BATCH_SIZE];
        Self { interface, mtu, original: vec![0; LARGEST], buffers: Vec::new(), sizes }
    }
}

impl IpRecv for Inlet {
    async fn recv<'a>(
        &'a mut self,
        pool: &mut PacketBufPool,
    ) -> io::Result<impl Iterator<Item = Packet<Ip>> + Send + 'a> {
        let missing = self.sizes.len() - self.buffers.len();
        self.buffers.extend(iter::repeat_with(|| Buffer(pool.get())).take(missing));
        let received =
            self.interface.recv_multiple(&mut self.original, &mut self.buffers, &mut self.sizes, 0);
        let count = match received.await {
            Ok(count) => count,
            // The interface is gone: that ends the tunnel. One strange packet does not.
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(_) => 0,
        };
        let rest = self.buffers.split_off(count);
        let taken = mem::replace(&mut self.buffers, rest);
        let packets =
            taken.into_iter().zip(&self.sizes).filter_map(|(Buffer(mut packet), size)| {
                packet.truncate(*size);
                packet.try_into_ip().ok()
            });
        Ok(packets)
    }

    fn mtu(&self) -> MtuWatcher {
        MtuWatcher::from(self.mtu.clone())
    }
}

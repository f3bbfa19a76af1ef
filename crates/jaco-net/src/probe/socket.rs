//! Packets of a probe in and out of the router's namespace, below its rules: what is heard here has arrived, whether
//! the rules then drop it or not.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{LinkAddr, recvfrom};
use socket2::{Domain, Protocol, SockAddr, SockFilter, Socket, Type};

use super::packet::{Heard, read};
use crate::error::{NetError, refused};
use crate::namespace::Namespace;

/// All protocols, as the kernel numbers those of links: only so are packets heard on their way out, too.
const ALL: u16 = 0x0003;

/// IPv4 among them.
const IPV4: u32 = 0x0800;

/// Packets whose IP header is the sender's.
const OWN_HEADER: i32 = 255;

/// The sockets of one probe. Needs CAP_NET_RAW to be opened.
#[derive(Debug)]
pub(super) struct Sockets {
    sender: Socket,
    tap: Socket,
    /// The tunnel's interface.
    tunnel: usize,
}

/// Where a packet was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At the tunnel.
    Tunnel,
    /// At another interface of the router.
    Port,
}

impl Sockets {
    /// Hears echoes, and what is sent to this TCP port.
    pub(super) fn open(
        namespace: &Namespace,
        source_port: u16,
        tunnel: usize,
    ) -> Result<Self, NetError> {
        let open = || {
            let sender = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(OWN_HEADER)))?;
            let protocol = Protocol::from(i32::from(ALL.to_be()));
            let tap = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol))?;
            tap.attach_filter(&filter(source_port))?;
            io::Result::Ok((sender, tap))
        };
        let (sender, tap) = namespace.run(open)?.map_err(refused("open sockets for a probe"))?;
        Ok(Self { sender, tap, tunnel })
    }

    /// Sends a packet with its header.
    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        let octets: [u8; 4] = packet[16..20].try_into().map_err(io::Error::other)?;
        let to = SockAddr::from(SocketAddrV4::new(octets.into(), 0));
        self.sender.send_to(packet, &to).map(drop)
    }

    /// The next packet of a probe within this time.
    pub(super) fn hear(&self, patience: Duration) -> io::Result<Option<(Heard, Place)>> {
        self.tap.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        let mut bytes = [0; 64];
        match recvfrom::<LinkAddr>(self.tap.as_raw_fd(), &mut bytes) {
            Ok((length, from)) => {
                let index = from.map_or(self.tunnel, |from| from.ifindex());
                let place = if index == self.tunnel { Place::Tunnel } else { Place::Port };
                Ok(read(&bytes[..length]).map(|heard| (heard, place)))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// ICMP, and TCP to this port: a probe must not copy what containers send.
fn filter(port: u16) -> [SockFilter; 10] {
    const LOAD_HALF: u16 = 0x28;
    /// Where the kernel has the protocol of the link.
    const PROTOCOL: u32 = 0xffff_f000;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF_AT_X: u16 = 0x48;
    const X_IS_HEADER_LENGTH: u16 = 0xb1;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    [
        SockFilter::new(LOAD_HALF, 0, 0, PROTOCOL),
        SockFilter::new(IF_EQUAL, 0, 6, IPV4),
        SockFilter::new(LOAD_BYTE, 0, 0, 9),
        SockFilter::new(IF_EQUAL, 5, 0, 1),
        SockFilter::new(IF_EQUAL, 0, 3, 6),
        SockFilter::new(X_IS_HEADER_LENGTH, 0, 0, 0),
        SockFilter::new(LOAD_HALF_AT_X, 0, 0, 2),
        SockFilter::new(IF_EQUAL, 1, 0, u32::from(port)),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, 64),
    ]
}

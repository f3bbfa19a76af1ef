//! What is said between router and edge: records of one size over a socket that keeps them apart, with a descriptor where
//! one belongs to it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use jaco_dataplane::edge::{ListenerKey, Transport};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
    socket_with,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Bytes of a record.
const LENGTH: usize = 24;

/// Its first byte: both ends know what follows.
const FORMAT: u8 = 1;

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// By the router, with a socket: it is the edge's from now on.
    Take(ListenerKey),
    /// By the router: the edge is to close its own.
    Drop(ListenerKey),
    /// By the edge, with a socket that it has from before.
    HandBack(ListenerKey),
    /// By the edge: that was all.
    End,
}

impl Record {
    fn has_socket(self) -> bool {
        match self {
            Self::Take(_) | Self::HandBack(_) => true,
            Self::Drop(_) | Self::End => false,
        }
    }

    fn bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let (kind, key) = match self {
            Self::Take(key) => (1, Some(key)),
            Self::Drop(key) => (2, Some(key)),
            Self::HandBack(key) => (3, Some(key)),
            Self::End => (4, None),
        };
        (bytes[0], bytes[1]) = (FORMAT, kind);
        let Some(key) = key else { return bytes };
        bytes[2] = match key.transport {
            Transport::Tcp => 1,
            Transport::Udp => 2,
        };
        bytes[4..6].copy_from_slice(&key.port.to_be_bytes());
        match key.address {
            None => {}
            Some(IpAddr::V4(address)) => {
                bytes[3] = 4;
                bytes[8..12].copy_from_slice(&address.octets());
            }
            Some(IpAddr::V6(address)) => {
                bytes[3] = 6;
                bytes[8..].copy_from_slice(&address.octets());
            }
        }
        bytes
    }

    /// `None` if it is none of this format.
    fn read(bytes: [u8; LENGTH]) -> Option<Self> {
        if bytes[0] != FORMAT {
            return None;
        }
        match bytes[1] {
            1 => Some(Self::Take(key(bytes)?)),
            2 => Some(Self::Drop(key(bytes)?)),
            3 => Some(Self::HandBack(key(bytes)?)),
            4 => Some(Self::End),
            _ => None,
        }
    }
}

fn key(bytes: [u8; LENGTH]) -> Option<ListenerKey> {
    let [_, _, transport, family, high, low, _, _, address @ ..] = bytes;
    let transport = match transport {
        1 => Transport::Tcp,
        2 => Transport::Udp,
        _ => return None,
    };
    let address = match family {
        0 => None,
        4 => Some(Ipv4Addr::from(*address.first_chunk()?).into()),
        6 => Some(Ipv6Addr::from(address).into()),
        _ => return None,
    };
    Some(ListenerKey { transport, address, port: u16::from_be_bytes([high, low]) })
}

/// A connection over which records are said. Both of its methods can be given up at any time: a record is said or heard
/// whole or not at all.
#[derive(Debug)]
pub(super) struct Channel {
    /// Of the kind that keeps records apart, which the runtime waits for as for a stream.
    socket: UnixStream,
}

impl Channel {
    /// A connection that is there.
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket }
    }

    /// Connects to who listens at a path.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let socket = unix_socket()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self::new(UnixStream::from_std(socket.into())?))
    }

    /// Says a record, with the socket that belongs to it.
    pub(super) async fn send(
        &self,
        record: Record,
        socket: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let bytes = record.bytes();
        let sockets: Vec<BorrowedFd<'_>> = socket.into_iter().collect();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !sockets.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(&sockets));
            }
            let flags = SendFlags::NOSIGNAL;
            Ok(sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags)?)
        };
        self.socket.async_io(Interest::WRITABLE, send).await?;
        Ok(())
    }

    /// Hears a record, with its socket; `None` once the other end is gone.
    pub(super) async fn receive(&self) -> io::Result<Option<(Record, Option<OwnedFd>)>> {
        self.socket.async_io(Interest::READABLE, || receive(&self.socket)).await
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket that keeps records apart.
pub(super) fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn receive(channel: &UnixStream) -> io::Result<Option<(Record, Option<OwnedFd>)>> {
    // A byte more than a record has: a longer one is told apart.
    let mut bytes = [0; LENGTH + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let length = recvmsg(channel, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    if length == 0 {
        return Ok(None);
    }
    let sockets = control.drain().filter_map(|message| {
        if let RecvAncillaryMessage::ScmRights(sockets) = message { Some(sockets) } else { None }
    });
    let mut sockets = sockets.flatten();
    let (socket, more) = (sockets.next(), sockets.next());
    let record = bytes.first_chunk().filter(|_| length == LENGTH).and_then(|it| Record::read(*it));
    let fits = |record: &Record| record.has_socket() == socket.is_some() && more.is_none();
    let Some(record) = record.filter(fits) else {
        let what = "a record that is none: router and edge need versions that know each other";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    };
    Ok(Some((record, socket)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::net::socketpair;

    use super::*;

    fn pair() -> [Channel; 2] {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        [one, other].map(|end| Channel::new(UnixStream::from_std(end.into()).unwrap()))
    }

    #[tokio::test]
    async fn a_record_arrives_as_it_was() {
        let [near, far] = pair();
        let file = File::open("/dev/null").unwrap();
        let addresses = [None, Some("192.0.2.1"), Some("2001:db8::1")];
        for address in addresses.map(|text| text.map(|text| text.parse().unwrap())) {
            for transport in [Transport::Tcp, Transport::Udp] {
                let key = ListenerKey { transport, address, port: 54321 };
                for record in
                    [Record::Take(key), Record::Drop(key), Record::HandBack(key), Record::End]
                {
                    let socket = record.has_socket().then(|| file.as_fd());
                    near.send(record, socket).await.unwrap();
                    let (heard, socket) = far.receive().await.unwrap().unwrap();
                    assert_eq!((heard, socket.is_some()), (record, record.has_socket()));
                }
            }
        }
        drop(near);
        assert!(far.receive().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_is_no_record_is_refused() {
        let key = ListenerKey { transport: Transport::Tcp, address: None, port: 80 };
        let refused = async |bytes: &[u8]| {
            let [near, far] = pair();
            rustix::net::send(&near, bytes, SendFlags::empty()).unwrap();
            assert_eq!(far.receive().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        };
        let good = Record::Drop(key).bytes();
        refused(&good[1..]).await;
        refused(&[&good[..], &[0]].concat()).await;
        for (place, value) in [(0, 2), (1, 9), (2, 0), (3, 5)] {
            let mut bytes = good;
            bytes[place] = value;
            refused(&bytes).await;
        }
        // Without the socket that belongs to it.
        refused(&Record::Take(key).bytes()).await;
        let [near, far] = pair();
        near.send(Record::Drop(key), Some(near.as_fd())).await.unwrap();
        assert!(far.receive().await.is_err());
    }
}

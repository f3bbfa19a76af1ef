//! Datagrams with the address of this host that they were sent to, which has to be the one that answers: clients drop
//! what comes from another one.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// The ends of an exchange of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flow {
    /// The other one.
    pub(crate) client: SocketAddr,
    /// The address of this host. `None`: none that could answer, as for a datagram to a group.
    pub(crate) asked: Option<IpAddr>,
}

/// Has a socket say with each datagram where it was sent to.
///
/// # Errors
/// If the kernel does not do that.
pub(crate) fn tell_destinations(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
    }
    Ok(())
}

/// Receives a datagram: how long it is, and between whom.
///
/// # Errors
/// If none is received, or an error is reported that one before had.
pub(super) async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Flow)> {
    socket.async_io(Interest::READABLE, || receive_now(socket, buffer)).await
}

/// Sends a datagram from the address that was asked.
///
/// # Errors
/// If it cannot be sent: the address may not be this host's any more.
pub(super) async fn send(socket: &UdpSocket, bytes: &[u8], flow: Flow) -> io::Result<()> {
    socket.async_io(Interest::WRITABLE, || send_now(socket, bytes, flow)).await
}

fn receive_now(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Flow)> {
    let mut control = nix::cmsg_space!(in6_pktinfo);
    let mut buffers = [IoSliceMut::new(buffer)];
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let received = recvmsg::<SockaddrStorage>(fd, &mut buffers, Some(&mut control), flags)?;
    let client = received.address.as_ref().and_then(socket_address);
    let client = client.ok_or_else(|| io::Error::other("a datagram without sender"))?;
    let asked = received.cmsgs()?.find_map(|message| destination(&message));
    Ok((received.bytes, Flow { client, asked: asked.filter(|address| !address.is_multicast()) }))
}

fn send_now(socket: &UdpSocket, bytes: &[u8], flow: Flow) -> io::Result<()> {
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let client = SockaddrStorage::from(flow.client);
    let send = |control: &[ControlMessage<'_>]| {
        sendmsg(fd, &[IoSlice::new(bytes)], control, flags, Some(&client))
    };
    match flow.asked {
        None => send(&[])?,
        Some(IpAddr::V4(asked)) => {
            let s_addr = u32::from_ne_bytes(asked.octets());
            // The interface is left to the routes of the host.
            let (ipi_spec_dst, ipi_addr) = (in_addr { s_addr }, in_addr { s_addr: 0 });
            let info = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr };
            send(&[ControlMessage::Ipv4PacketInfo(&info)])?
        }
        Some(IpAddr::V6(asked)) => {
            let ipi6_addr = in6_addr { s6_addr: asked.octets() };
            let info = in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 };
            send(&[ControlMessage::Ipv6PacketInfo(&info)])?
        }
    };
    Ok(())
}

/// The address of this host that a datagram was sent to. With IPv4 to a socket of both it is one that is mapped.
fn destination(message: &ControlMessageOwned) -> Option<IpAddr> {
    if let ControlMessageOwned::Ipv4PacketInfo(info) = message {
        return Some(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into());
    }
    let ControlMessageOwned::Ipv6PacketInfo(info) = message else { return None };
    Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into())
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|address| SocketAddrV4::from(*address).into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddrV6::from(*address).into()))
}

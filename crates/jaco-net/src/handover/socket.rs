//! A listening socket, in the namespace of the calling thread: that of the node.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use jaco_dataplane::edge::{ListenerKey, Transport};
use rustix::io::Errno;
use socket2::{Domain, SockRef, Socket, Type};

use super::missing::Missing;

/// How many connections wait to be accepted, as far as the system allows it: those of the seconds without an edge.
const BACKLOG: i32 = 4096;

/// How the kernel lists a TCP socket that listens.
const LISTENING: &str = "0A";

/// Opens a listener. On all addresses it is one socket for both families, and one for IPv4 where the system has no
/// IPv6. It does not block whoever uses it.
pub(super) fn open(key: ListenerKey) -> io::Result<OwnedFd> {
    let Some(address) = key.address else {
        let both = bind(key, Ipv6Addr::UNSPECIFIED.into());
        let only_v4 = |error: &io::Error| {
            let code = error.raw_os_error().map(Errno::from_raw_os_error);
            matches!(code, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
        };
        return match both {
            Err(error) if only_v4(&error) => bind(key, Ipv4Addr::UNSPECIFIED.into()),
            other => other,
        };
    };
    bind(key, address)
}

fn bind(key: ListenerKey, address: IpAddr) -> io::Result<OwnedFd> {
    let kind = match key.transport {
        Transport::Tcp => Type::STREAM,
        Transport::Udp => Type::DGRAM,
    };
    let socket = Socket::new(Domain::for_address((address, key.port).into()), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(key.address.is_some())?;
    }
    socket.set_nonblocking(true)?;
    match key.transport {
        Transport::Tcp => {
            // Connections of an earlier listener that are not over must not keep this one away.
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddr::new(address, key.port).into())?;
            socket.listen(BACKLOG)?;
        }
        // Two sockets that both allow it would share a port, and one of them get nothing.
        Transport::Udp => socket.bind(&SocketAddr::new(address, key.port).into())?,
    }
    Ok(socket.into())
}

/// Why a listener is not open, with what to do.
pub(super) fn explain(key: ListenerKey, error: &io::Error) -> Missing {
    Missing::Failed(match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ADDRINUSE) => {
            let (program, port) = match key.transport {
                Transport::Tcp => ("ss -ltnp", key.port),
                Transport::Udp => ("ss -lunp", key.port),
            };
            format!(
                "another program has it: stop that one, which `{program} 'sport = :{port}'` names"
            )
        }
        Some(Errno::ADDRNOTAVAIL) if key.address.is_some() => return Missing::Elsewhere,
        Some(Errno::ACCESS) => {
            "`jacod net` may not open it: it needs CAP_NET_BIND_SERVICE".to_owned()
        }
        _ => error.to_string(),
    })
}

/// The number of a socket: copies of it have the same.
pub(super) fn number(socket: impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(socket)?.st_ino)
}

/// Checks that a socket is the listener that it is said to be: an edge that was broken into could hand back another one,
/// which would then be taken for the port.
pub(super) fn verify(key: ListenerKey, socket: &OwnedFd) -> Result<u64, String> {
    let failed = |error: io::Error| error.to_string();
    let (known, number) = (SockRef::from(socket), number(socket).map_err(failed)?);
    let bound = known.local_addr().map_err(failed)?.as_socket().ok_or("it is no socket of IP")?;
    let is_there = match key.address {
        Some(address) => bound.ip() == address,
        None => bound.ip().is_unspecified(),
    };
    if !is_there || bound.port() != key.port {
        return Err(format!("it is bound to {bound}"));
    }
    if key.address.is_none() && bound.is_ipv6() && known.only_v6().map_err(failed)? {
        return Err("it is for IPv6 alone".to_owned());
    }
    match is_listed(key.transport, bound, number).map_err(failed)? {
        true => Ok(number),
        false => Err("it does not listen in the namespace of this node".to_owned()),
    }
}

/// Whether the namespace of this thread has a socket of this number that gets connections or datagrams.
fn is_listed(transport: Transport, bound: SocketAddr, number: u64) -> io::Result<bool> {
    let name = match (transport, bound.is_ipv4()) {
        (Transport::Tcp, true) => "tcp",
        (Transport::Tcp, false) => "tcp6",
        (Transport::Udp, true) => "udp",
        (Transport::Udp, false) => "udp6",
    };
    let list = BufReader::new(File::open(format!("/proc/thread-self/net/{name}"))?);
    let number = number.to_string();
    // After the head, and listening ones before all connections.
    for line in list.lines().skip(1) {
        let line = line?;
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (state, listed) = (fields.get(3), fields.get(9));
        if transport == Transport::Tcp && state != Some(&LISTENING) {
            return Ok(false);
        }
        if listed == Some(&number.as_str()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{TcpStream, UdpSocket};
    use std::sync::atomic::{AtomicU16, Ordering};

    use super::*;

    /// Of the loopback, and nobody else's: an address for each, and a port that systems do not choose by themselves.
    pub(in crate::handover) fn key(transport: Transport) -> ListenerKey {
        static KEYS: AtomicU16 = AtomicU16::new(1);
        let (pid, number) = (std::process::id(), KEYS.fetch_add(1, Ordering::Relaxed));
        let [.., high, low] = pid.to_be_bytes();
        let address = Ipv4Addr::new(127, high, low, u8::try_from(number).unwrap());
        let port = 20_000 + u16::try_from(pid % 100).unwrap() * 100 + number;
        ListenerKey { transport, address: Some(address.into()), port }
    }

    fn anywhere(key: ListenerKey) -> ListenerKey {
        ListenerKey { address: None, ..key }
    }

    #[test]
    fn a_listener_is_what_its_key_says() {
        for transport in [Transport::Tcp, Transport::Udp] {
            for key in [key(transport), anywhere(key(transport))] {
                let socket = open(key).unwrap();
                assert_eq!(verify(key, &socket), Ok(number(&socket).unwrap()));
                let copy = socket.try_clone().unwrap();
                assert_eq!(number(&copy).unwrap(), number(&socket).unwrap());
                let error = open(key).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
                let Missing::Failed(why) = explain(key, &error) else { panic!("{error}") };
                assert!(why.starts_with("another program has it: stop"), "{why}");
            }
        }
        // Both families on one socket.
        let key = anywhere(key(Transport::Tcp));
        let _socket = open(key).unwrap();
        TcpStream::connect((Ipv4Addr::LOCALHOST, key.port)).unwrap();
        if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, key.port)).unwrap();
        }
    }

    #[test]
    fn what_its_key_does_not_say_is_refused() {
        let own = key(Transport::Tcp);
        let socket = open(own).unwrap();
        let other = ListenerKey { port: own.port ^ 1, ..own };
        assert!(verify(other, &socket).unwrap_err().starts_with("it is bound to 127."));
        assert!(verify(anywhere(own), &socket).is_err());
        let udp = ListenerKey { transport: Transport::Udp, ..own };
        assert_eq!(
            verify(udp, &socket).unwrap_err(),
            "it does not listen in the namespace of this node"
        );
        let own = key(Transport::Tcp);
        let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        silent.bind(&SocketAddr::new(own.address.unwrap(), own.port).into()).unwrap();
        assert!(verify(own, &silent.into()).is_err());
        let file = OwnedFd::from(File::open("/dev/null").unwrap());
        assert!(verify(own, &file).is_err());
    }

    #[test]
    fn an_address_of_another_node_is_no_failure() {
        let address = Some(Ipv4Addr::new(192, 0, 2, 77).into());
        let key = ListenerKey { address, ..key(Transport::Tcp) };
        let error = open(key).unwrap_err();
        assert_eq!(explain(key, &error), Missing::Elsewhere);
    }
}

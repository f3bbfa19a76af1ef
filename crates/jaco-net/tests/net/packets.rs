//! Datagrams from container to container, honest and forged.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use jaco_net::Namespace;

use crate::lab::ip;

/// Where receivers listen.
pub(crate) const PORT: u16 = 7777;

/// Within this time an honest packet arrives, the tunnel's handshake included.
const PATIENCE: Duration = Duration::from_secs(5);

/// Gets datagrams in a namespace.
pub(crate) struct Receiver {
    socket: UdpSocket,
}

impl Receiver {
    pub(crate) fn new(namespace: &Namespace) -> Self {
        let any = (Ipv4Addr::UNSPECIFIED, PORT);
        let socket = namespace.run(|| UdpSocket::bind(any).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Self { socket }
    }

    /// Everything that is there or arrives until `enough` says so, or for `patience`.
    pub(crate) fn collect(&self, patience: Duration, enough: impl Fn(&str) -> bool) -> Vec<String> {
        let begun = Instant::now();
        let (mut found, mut buffer) = (Vec::new(), [0; 2048]);
        while begun.elapsed() < patience {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    let text = String::from_utf8_lossy(&buffer[..length]);
                    let done = enough(&text);
                    found.push(format!("{text} from {}", from.ip()));
                    if done {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        found
    }
}

/// Sends one datagram; a kernel that refuses to send is as good as one that drops.
pub(crate) fn send(namespace: &Namespace, source: Ipv4Addr, destination: Ipv4Addr, text: &str) {
    let send = || {
        let socket = UdpSocket::bind((source, 0))?;
        socket.send_to(text.as_bytes(), SocketAddr::from((destination, PORT)))
    };
    drop(namespace.run(send).unwrap());
}

/// Sends until it arrives, for the tunnel may still be shaking hands.
pub(crate) fn arrives(
    from: &Namespace,
    source: Ipv4Addr,
    to: &Receiver,
    destination: Ipv4Addr,
) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let text = format!("honest {source} {destination}");
        send(from, source, destination, &text);
        let found = to.collect(Duration::from_millis(200), |found| found == text);
        if found.iter().any(|found| *found == format!("{text} from {source}")) {
            return true;
        }
    }
    false
}

/// Makes a container send packets for `destination` straight to the router of one of its networks, whatever its
/// routes and ARP would say, and lets it use `source`.
pub(crate) fn forge(
    container: &Namespace,
    router: Ipv4Addr,
    source: Ipv4Addr,
    destination: Ipv4Addr,
) {
    let [a, b, c, d] = router.octets();
    let hardware = format!("02:4a:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
    ip(container, &format!("addr replace {source}/32 dev eth0"));
    ip(container, &format!("route replace {destination}/32 dev eth0"));
    ip(container, &format!("neigh replace {destination} lladdr {hardware} dev eth0 nud permanent"));
}

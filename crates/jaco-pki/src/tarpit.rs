//! A tarpit: a stranger whose connection was refused learns it only a second later. Who is refused connects again at once, most
//! often, and would do so as fast as both processors allow; who has to wait for the end comes back once a second.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// How long a refused connection is kept.
const TIME: Duration = Duration::from_secs(1);

/// Sockets of strangers that were refused, until they are closed.
#[derive(Debug, Clone)]
pub(crate) struct Tarpit {
    places: Arc<Semaphore>,
}

impl Tarpit {
    /// Keeps so many at a time; further ones are closed at once.
    pub(crate) fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)) }
    }

    /// What keeps a socket open after its stream is gone: another descriptor of it. None where there is no room.
    pub(crate) fn grip(&self, stream: &TcpStream) -> Option<OwnedFd> {
        if self.places.available_permits() == 0 {
            return None;
        }
        // Without a descriptor to spare the socket is closed with its stream, as without a tarpit.
        stream.as_fd().try_clone_to_owned().ok()
    }

    /// Closes a socket after its time, or at once where there is no room.
    pub(crate) async fn hold(&self, socket: OwnedFd) {
        if let Ok(_place) = self.places.try_acquire() {
            tokio::time::sleep(TIME).await;
        }
        drop(socket);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    /// R-FAULT-3: a refused connection ends after its time, and at once where the tarpit is full.
    #[tokio::test]
    async fn as_many_as_there_are_places_are_kept() {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let tarpit = Tarpit::new(1);
        let (mut ends, mut sockets) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let mut client = TcpStream::connect(tcp.local_addr().unwrap()).await.unwrap();
            let (stream, _) = tcp.accept().await.unwrap();
            sockets.push(tarpit.grip(&stream).expect("there is room"));
            ends.push(tokio::spawn(async move {
                let begun = Instant::now();
                client.read_to_end(&mut Vec::new()).await.unwrap();
                begun.elapsed()
            }));
        }
        let [second, first] = [sockets.pop().unwrap(), sockets.pop().unwrap()];
        tokio::join!(tarpit.hold(first), tarpit.hold(second));
        let [closed, kept] =
            [ends.pop().unwrap().await.unwrap(), ends.pop().unwrap().await.unwrap()];
        assert!(kept >= TIME * 9 / 10, "{kept:?}");
        assert!(closed < TIME / 2, "{closed:?}");
    }
}

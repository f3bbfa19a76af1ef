//! Word of changes of the packet filter, whoever makes them.

use std::io;
use std::thread;

use rustix::io::Errno;
use tokio::sync::watch;

use super::socket::Socket;

/// Tells when the packet filter of a namespace has changed. A thread listens, which ends soon after this.
#[derive(Debug)]
pub(crate) struct FilterEvents(watch::Receiver<()>);

impl FilterEvents {
    /// `socket` is one of [`Socket::filter_events`], and belongs to the namespace in which it was opened.
    pub(crate) fn start(mut socket: Socket) -> io::Result<Self> {
        let (tell, changes) = watch::channel(());
        let listen = move || {
            while !tell.is_closed() {
                let heard = socket.receive().map_err(|error| Errno::from_io_error(&error));
                match heard {
                    // Events that came too fast are lost, but not that there were some.
                    Ok(_) | Err(Some(Errno::NOBUFS)) => drop(tell.send(())),
                    // Nothing came for a while.
                    Err(Some(Errno::AGAIN | Errno::INTR)) => {}
                    Err(_) => return,
                }
            }
        };
        thread::Builder::new().name("rules".to_owned()).spawn(listen)?;
        Ok(Self(changes))
    }

    /// Waits until something has changed since this returned last; for ever if nobody listens any more.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

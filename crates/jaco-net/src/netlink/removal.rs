//! Removing interfaces without waiting for their memory.
//!
//! The kernel takes interfaces out of their namespaces, says so to all who listen, and answers the request only once
//! nothing refers to them any more: an order of magnitude later. A thread of its own waits for that answer.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use jaco_dataplane::InterfaceName;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use rustix::event::{PollFd, PollFlags, poll};

use super::socket::{Missing, Socket};

/// The group that interfaces are in while they are removed, so that one request removes them all. Nobody else makes
/// interfaces in the router.
const LEAVING: u32 = 0x6a61_636f;

impl Socket {
    /// Removes interfaces of the calling thread's namespace, which is that of this socket, and with them the other
    /// ends of pairs; some may be gone already. When it returns they are in no namespace any more.
    pub(crate) fn remove_now(&mut self, names: &[InterfaceName]) -> io::Result<()> {
        let names = names.iter().map(InterfaceName::as_str).collect();
        let found = self.links_named(&names)?;
        let mut there: BTreeSet<u32> = found.values().map(|link| link.index).collect();
        if there.is_empty() {
            return Ok(());
        }
        self.set_leaving(&there)?;
        let mut events = Self::link_events()?;
        let (ended, end) = UnixStream::pair()?;
        // It is opened here: the thread may end before this function does, and so may its socket.
        let mut requests = Self::route()?;
        let remove = move || {
            let removed = requests.remove_leaving();
            drop(end);
            removed
        };
        let thread = thread::Builder::new().name("removal".to_owned()).spawn(remove)?;
        while !there.is_empty() {
            let answered = wait(events.as_fd(), ended.as_fd())?;
            // Without the events, or with some of them lost, there is still the answer.
            let gone = if answered { None } else { events.removed().ok() };
            let Some(gone) = gone else {
                return thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            };
            there.retain(|index| !gone.contains(index));
        }
        Ok(())
    }

    fn set_leaving(&mut self, links: &BTreeSet<u32>) -> io::Result<()> {
        let messages = links.iter().map(|index| {
            let mut message = LinkMessage::default();
            message.header.index = *index;
            message.attributes.push(LinkAttribute::Group(LEAVING));
            RouteNetlinkMessage::SetLink(message)
        });
        self.request(messages, 0, Missing::Ignore)
    }

    fn remove_leaving(&mut self) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Group(LEAVING));
        self.request([RouteNetlinkMessage::DelLink(message)], 0, Missing::Ignore)
    }

    /// The interfaces that the next event says to be gone.
    fn removed(&mut self) -> io::Result<BTreeSet<u32>> {
        let events = self.events::<RouteNetlinkMessage>()?.into_iter();
        let gone = events.filter_map(|event| {
            if let RouteNetlinkMessage::DelLink(link) = event {
                Some(link.header.index)
            } else {
                None
            }
        });
        Ok(gone.collect())
    }
}

/// Waits for an event or the answer; whether the answer is there.
fn wait(events: BorrowedFd<'_>, ended: BorrowedFd<'_>) -> io::Result<bool> {
    let mut both = [PollFd::new(&events, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
    loop {
        match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => {}
            polled => {
                polled?;
                // What is said to be gone is so, whatever the answer: events come first.
                return Ok(both[0].revents().is_empty());
            }
        }
    }
}

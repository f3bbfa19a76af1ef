//! A netlink socket that sends many requests at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkDeserializable,
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv,
    send, socket_with, sockopt,
};

/// Bytes of requests that are sent at once: below the usual size of a socket's send buffer.
const BATCH: usize = 64 * 1024;

/// Bytes of answers that wait: errors repeat the request that they are about.
const RECEIVE_BUFFER: usize = 4 * 1024 * 1024;

/// The kernel answers at once. Longer than this, something else is wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kernel's largest answer, and a little more.
const ANSWER: usize = 64 * 1024;

/// The groups of events that a socket hears of, as bits.
const NO_EVENTS: u32 = 0;
const LINK_EVENTS: u32 = 1;
const FILTER_EVENTS: u32 = 1 << 6;

/// A netlink socket. It belongs for ever to the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Whether the object of a request may be missing: removing what is gone is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Error,
    Ignore,
}

impl Socket {
    /// For links, addresses and routes.
    pub(crate) fn route() -> io::Result<Self> {
        Self::open(None, NO_EVENTS)
    }

    /// For events of links.
    pub(super) fn link_events() -> io::Result<Self> {
        Self::open(None, LINK_EVENTS)
    }

    /// For generic netlink.
    pub(crate) fn generic() -> io::Result<Self> {
        Self::open(Some(netlink::GENERIC), NO_EVENTS)
    }

    /// For the packet filter.
    pub(crate) fn filter() -> io::Result<Self> {
        Self::open(Some(netlink::NETFILTER), NO_EVENTS)
    }

    /// For events of the packet filter.
    pub(crate) fn filter_events() -> io::Result<Self> {
        Self::open(Some(netlink::NETFILTER), FILTER_EVENTS)
    }

    fn open(protocol: Option<Protocol>, events: u32) -> io::Result<Self> {
        let fd =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&fd, &netlink::SocketAddrNetlink::new(0, events))?;
        // Without the privilege to exceed the limit, what the limit allows.
        if sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER)?;
        }
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { fd, sequence: 0, buffer: vec![0; ANSWER] })
    }

    /// Sends requests in order, in as few calls as possible. All are carried out, even where some are refused;
    /// the first refusal is returned.
    pub(crate) fn request<I>(
        &mut self,
        messages: impl IntoIterator<Item = I>,
        flags: u16,
        missing: Missing,
    ) -> io::Result<()>
    where
        I: NetlinkSerializable + Into<NetlinkPayload<I>>,
    {
        let mut result = Ok(());
        let (mut batch, mut last) = (Vec::new(), 0);
        for message in messages {
            let encoded = self.encode(message, flags | NLM_F_REQUEST);
            if !batch.is_empty() && batch.len() + encoded.len() > BATCH {
                result = result.and(self.send_batch(&mut batch, last, missing));
            }
            last = batch.len();
            batch.extend_from_slice(&encoded);
        }
        if batch.is_empty() {
            result
        } else {
            result.and(self.send_batch(&mut batch, last, missing))
        }
    }

    /// Asks for all objects of a kind.
    pub(crate) fn dump<I>(&mut self, message: I, flags: u16) -> io::Result<Vec<I>>
    where
        I: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<I>>,
    {
        let bytes = self.encode(message, flags | NLM_F_REQUEST | NLM_F_DUMP);
        send(&self.fd, &bytes, SendFlags::empty())?;
        let sequence = self.sequence;
        let mut found = Vec::new();
        loop {
            let answer = self.receive()?;
            for (header, message) in messages(&answer) {
                if header.sequence != sequence {
                    continue;
                }
                match header.kind {
                    NLMSG_DONE => return Ok(found),
                    NLMSG_ERROR => error(message).map_or(Ok(()), Err)?,
                    _ => {
                        let message = NetlinkMessage::<I>::deserialize(message);
                        let message = message.map_err(io::Error::other)?;
                        if let NetlinkPayload::InnerMessage(message) = message.payload {
                            found.push(message);
                        }
                    }
                }
            }
        }
    }

    /// Asks for one object; `None` if there is none.
    pub(crate) fn get<I>(&mut self, message: I) -> io::Result<Option<I>>
    where
        I: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<I>>,
    {
        let bytes = self.encode(message, NLM_F_REQUEST);
        send(&self.fd, &bytes, SendFlags::empty())?;
        let sequence = self.sequence;
        loop {
            let answer = self.receive()?;
            for (header, message) in messages(&answer).filter(|(it, _)| it.sequence == sequence) {
                if header.kind == NLMSG_ERROR {
                    return match error(message) {
                        Some(error) if !is_missing(&error) => Err(error),
                        Some(_) | None => Ok(None),
                    };
                }
                let message =
                    NetlinkMessage::<I>::deserialize(message).map_err(io::Error::other)?;
                if let NetlinkPayload::InnerMessage(message) = message.payload {
                    return Ok(Some(message));
                }
            }
        }
    }

    /// Asks for what is one message, and returns that without its header.
    pub(super) fn ask<I>(&mut self, message: I) -> io::Result<Vec<u8>>
    where
        I: NetlinkSerializable + Into<NetlinkPayload<I>>,
    {
        let bytes = self.encode(message, NLM_F_REQUEST);
        send(&self.fd, &bytes, SendFlags::empty())?;
        let sequence = self.sequence;
        loop {
            let answer = self.receive()?;
            for (header, message) in messages(&answer).filter(|(it, _)| it.sequence == sequence) {
                if header.kind != NLMSG_ERROR {
                    return Ok(message[Header::LENGTH..].to_vec());
                }
                error(message).map_or(Ok(()), Err)?;
            }
        }
    }

    /// Sends requests that the kernel carries out all together or not at all, up to the message that ends them, and waits
    /// for that. The first one begins them; there are others.
    pub(super) fn transaction<I>(
        &mut self,
        requests: Vec<(I, u16)>,
        end: (I, u16),
    ) -> io::Result<()>
    where
        I: NetlinkSerializable + Into<NetlinkPayload<I>>,
    {
        let begin = self.sequence.wrapping_add(1);
        let last = requests.len() - 1;
        let mut batch = Vec::new();
        for (at, (message, flags)) in requests.into_iter().chain([end]).enumerate() {
            // Neither beginning nor end is acknowledged by all kernels.
            let ack = if at == last { NLM_F_ACK } else { 0 };
            batch.extend(self.encode(message, flags | ack | NLM_F_REQUEST));
        }
        let acknowledged = self.sequence.wrapping_sub(1);
        send(&self.fd, &batch, SendFlags::empty())?;
        let mut result = Ok(());
        loop {
            let answer = self.receive()?;
            for (header, message) in messages(&answer) {
                // The refusal of an earlier one may have had several reasons.
                let own = header.sequence.wrapping_sub(begin) <= acknowledged.wrapping_sub(begin);
                if header.kind != NLMSG_ERROR || !own {
                    continue;
                }
                result = result.and(error(message).map_or(Ok(()), Err));
                // What is wrong with all of it is said of its beginning.
                if [begin, acknowledged].contains(&header.sequence) {
                    return result;
                }
            }
        }
    }

    /// The next events, of a socket that hears of some.
    pub(super) fn events<I: NetlinkDeserializable>(&mut self) -> io::Result<Vec<I>> {
        let answer = self.receive()?;
        let events = messages(&answer).map(|(_, message)| {
            NetlinkMessage::<I>::deserialize(message).map_err(io::Error::other)
        });
        let events: io::Result<Vec<_>> = events.collect();
        let inner = events?.into_iter().filter_map(|event| {
            if let NetlinkPayload::InnerMessage(event) = event.payload { Some(event) } else { None }
        });
        Ok(inner.collect())
    }

    fn encode<I>(&mut self, message: I, flags: u16) -> Vec<u8>
    where
        I: NetlinkSerializable + Into<NetlinkPayload<I>>,
    {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, message.into());
        message.finalize();
        // Messages in a batch begin at multiples of four.
        let mut bytes = vec![0; message.buffer_len().next_multiple_of(4)];
        message.serialize(&mut bytes);
        bytes
    }

    /// Sends a batch whose last message begins at `last`, and waits until all have been carried out: the kernel
    /// answers in order, refusals always and successes if asked.
    fn send_batch(&mut self, batch: &mut Vec<u8>, last: usize, missing: Missing) -> io::Result<()> {
        let flags = &mut batch[last + FLAGS..last + FLAGS + 2];
        let with_ack = u16::from_ne_bytes([flags[0], flags[1]]) | NLM_F_ACK;
        flags.copy_from_slice(&with_ack.to_ne_bytes());
        let sequence = Header::of(&batch[last..]).expect("it was encoded here").sequence;
        send(&self.fd, batch, SendFlags::empty())?;
        batch.clear();
        let mut result = Ok(());
        loop {
            let answer = self.receive()?;
            for (header, message) in messages(&answer) {
                if header.kind != NLMSG_ERROR {
                    continue;
                }
                if let Some(error) = error(message)
                    && !(missing == Missing::Ignore && is_missing(&error))
                {
                    result = result.and(Err(error));
                }
                if header.sequence == sequence {
                    return result;
                }
            }
        }
    }

    /// The next message, or several; what timed out is `WouldBlock`.
    pub(super) fn receive(&mut self) -> io::Result<Vec<u8>> {
        let (_, length) = recv(&self.fd, &mut self.buffer[..], RecvFlags::TRUNC)?;
        let whole = self.buffer.get(..length);
        let whole = whole.ok_or_else(|| io::Error::other("an answer of the kernel is too long"))?;
        Ok(whole.to_vec())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Where the flags of a message are.
const FLAGS: usize = 6;

/// What matters of a message's header.
struct Header {
    length: usize,
    kind: u16,
    sequence: u32,
}

impl Header {
    const LENGTH: usize = 16;

    fn of(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..Self::LENGTH)?;
        let number = |at: usize| {
            u32::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes are four bytes"))
        };
        let length = usize::try_from(number(0)).ok().filter(|length| *length >= Self::LENGTH)?;
        Some(Self { length, kind: u16::from_ne_bytes([header[4], header[5]]), sequence: number(8) })
    }
}

/// The messages of an answer, each with its header.
fn messages(answer: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    let mut rest = answer;
    std::iter::from_fn(move || {
        let header = Header::of(rest)?;
        let message = rest.get(..header.length)?;
        rest = rest.get(header.length.next_multiple_of(4)..).unwrap_or_default();
        Some((header, message))
    })
}

/// The error that a message reports; `None` for an acknowledgement.
fn error(message: &[u8]) -> Option<io::Error> {
    let code = message.get(Header::LENGTH..Header::LENGTH + 4)?;
    let code = i32::from_ne_bytes(code.try_into().expect("four bytes are four bytes"));
    (code != 0).then(|| io::Error::from_raw_os_error(-code))
}

fn is_missing(error: &io::Error) -> bool {
    let missing = [rustix::io::Errno::NODEV, rustix::io::Errno::SRCH, rustix::io::Errno::NOENT];
    let codes = missing.map(rustix::io::Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

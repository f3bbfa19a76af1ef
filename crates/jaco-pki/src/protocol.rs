//! What is spoken inside a connection. The names are those of the handshake, and never change.

/// What is spoken inside a connection; agreed on in the handshake (ALPN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC over HTTP/2: whatever is asked and answered.
    Rpc,
    /// Frames of the consensus protocol, between members only.
    Raft,
    /// HTTP/1.1, for browsers and scrapers that speak nothing newer.
    Http1,
}

impl Protocol {
    /// The ones before others are preferred.
    pub(crate) const ALL: [Self; 3] = [Self::Rpc, Self::Raft, Self::Http1];

    pub(crate) const fn alpn(self) -> &'static [u8] {
        match self {
            Self::Rpc => b"h2",
            Self::Raft => b"jaco-raft/1",
            Self::Http1 => b"http/1.1",
        }
    }

    /// The protocol that a handshake agreed on; a client that named none speaks gRPC.
    pub(crate) fn agreed(alpn: Option<&[u8]>) -> Self {
        let named = Self::ALL.into_iter().find(|known| Some(known.alpn()) == alpn);
        named.unwrap_or(Self::Rpc)
    }
}

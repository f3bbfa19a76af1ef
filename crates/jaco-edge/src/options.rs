//! What an edge is set to.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// What hyper holds of a connection on either side of the edge, in each direction; more than a head has.
pub(crate) const BUFFER_MAX: usize = 64 * 1024;

/// What an edge is set to.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bounds of time and memory.
    pub limits: Limits,
    /// Where lines about requests go, unless it is told otherwise. `None`: nowhere.
    pub access_log: Option<AccessLog>,
}

/// Bounds of time and memory. The defaults are those of the documentation.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long the head of a request may take; TLS handshakes and the PROXY protocol, too.
    pub head_timeout: Duration,
    /// The most bytes of a head.
    pub head_bytes_max: usize,
    /// The most fields of a head.
    pub head_fields_max: usize,
    /// How long the body of a request may pause.
    pub body_idle: Duration,
    /// How long a connection may wait for its next request.
    pub keep_alive: Duration,
    /// How long a client may take nothing of what it is sent.
    pub write_stall: Duration,
    /// The most connections of clients.
    pub connections_max: usize,
    /// The most connections of one source: an IPv4 address, or a /64 of IPv6.
    pub connections_per_source_max: usize,
    /// The most TLS handshakes at a time.
    pub handshakes_max: usize,
    /// The most of them by one source.
    pub handshakes_per_source_max: usize,
    /// How long a challenge that is not known yet waits for a plan that has it.
    pub challenge_hold: Duration,
    /// The most challenges that wait.
    pub challenges_held_max: usize,
    /// The most of them that one source asks for.
    pub challenges_held_per_source_max: usize,
    /// How long a connection to an instance may take; then another instance is tried.
    pub connect_timeout: Duration,
    /// So long, all instances are tried once more if none accepts a connection and one of them does not answer.
    pub connect_patience: Duration,
    /// How long an instance may take to begin its answer, where the route says nothing.
    pub response_timeout: Duration,
    /// How long an instance that refused or broke a connection gets no new ones.
    pub ejection: Duration,
    /// The most requests at a time on one HTTP/2 connection.
    pub streams_max: u32,
    /// So many streams that a client resets before they are answered, more than it lets finish, end its connection.
    pub resets_max: u32,
    /// How long a UDP session without a datagram is remembered.
    pub udp_idle: Duration,
    /// The most UDP sessions of a listener.
    pub udp_sessions_max: usize,
    /// The most of them by one source.
    pub udp_sessions_per_source_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(10),
            head_bytes_max: 32 * 1024,
            head_fields_max: 100,
            body_idle: Duration::from_secs(30),
            keep_alive: Duration::from_secs(75),
            write_stall: Duration::from_secs(60),
            connections_max: 16_384,
            connections_per_source_max: 1024,
            handshakes_max: 512,
            handshakes_per_source_max: 64,
            challenge_hold: Duration::from_secs(2),
            challenges_held_max: 256,
            challenges_held_per_source_max: 16,
            connect_timeout: Duration::from_millis(250),
            connect_patience: Duration::from_secs(2),
            response_timeout: Duration::from_secs(60),
            ejection: Duration::from_secs(5),
            streams_max: 128,
            resets_max: 100,
            udp_idle: Duration::from_secs(90),
            udp_sessions_max: 4096,
            udp_sessions_per_source_max: 512,
        }
    }
}

/// Lines about requests, as JSON.
#[derive(Clone)]
pub struct AccessLog {
    /// One of so many requests has a line, by chance.
    pub one_in: NonZeroU32,
    /// Takes a line, without line end. It must not block.
    pub sink: Arc<dyn Fn(String) + Send + Sync>,
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("one_in", &self.one_in).finish_non_exhaustive()
    }
}

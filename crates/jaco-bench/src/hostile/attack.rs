//! The attacks, by name.

use serde::{Deserialize, Serialize};

/// Something that a stranger, or an operator with a valid token, may do to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Attack {
    /// Requests without a credential, each with a message of 8 MiB that never ends.
    Bodies,
    /// 8 sources with 128 connections each that finish the handshake and say nothing.
    IdleConnections,
    /// 8 sources with 64 connections each that begin a handshake and do not finish it.
    Hellos,
    /// 32 dry runs at a time of 400 services that want all ports.
    PortRanges,
    /// 32 dry runs at a time of 400 services that are computed to the end.
    DryRuns,
    /// 500 watches of a large status that nobody reads.
    Watches,
    /// 500 streams of the audit log that nobody reads.
    Audits,
    /// 500 watches that announce room for all answers and whose sockets nobody reads.
    Unread,
    /// Calls with a token that the cluster never issued.
    Refused,
    /// Streams that are reset as soon as they are opened.
    RapidReset,
    /// Headers that never end.
    Continuation,
    /// Pings whose answers nobody reads.
    Pings,
    /// Settings whose acknowledgements nobody reads.
    Settings,
}

impl Attack {
    /// All of them, in the order of the table.
    pub(super) const ALL: [Self; 13] = [
        Self::Bodies,
        Self::IdleConnections,
        Self::Hellos,
        Self::PortRanges,
        Self::DryRuns,
        Self::Watches,
        Self::Audits,
        Self::Unread,
        Self::Refused,
        Self::RapidReset,
        Self::Continuation,
        Self::Pings,
        Self::Settings,
    ];

    /// As the table calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bodies => "bodies of strangers",
            Self::IdleConnections => "idle connections",
            Self::Hellos => "half-open hellos",
            Self::PortRanges => "dry runs with all ports",
            Self::DryRuns => "dry runs",
            Self::Watches => "stalled watches",
            Self::Audits => "stalled audits",
            Self::Unread => "watches on unread sockets",
            Self::Refused => "refused calls",
            Self::RapidReset => "rapid resets",
            Self::Continuation => "continuations",
            Self::Pings => "pings",
            Self::Settings => "settings",
        }
    }

    /// Whether what the attacker asks for has to be large.
    pub(super) const fn needs_a_large_status(self) -> bool {
        match self {
            Self::Watches | Self::Audits | Self::Unread => true,
            Self::Bodies
            | Self::IdleConnections
            | Self::Hellos
            | Self::PortRanges
            | Self::DryRuns
            | Self::Refused
            | Self::RapidReset
            | Self::Continuation
            | Self::Pings
            | Self::Settings => false,
        }
    }
}

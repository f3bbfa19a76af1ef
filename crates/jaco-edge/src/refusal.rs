//! Every answer that the edge gives by itself, with its status and its reason: one table for code and documents.

use http::StatusCode;

use crate::wire::inspect::Fault;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident => $status:ident, $reason:literal, $meaning:literal;)*) => {
        /// Why the edge answers a request by itself. The reason is in the field `x-jaco-reason` of the response.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Refusal {
            $($(#[$doc])* $name,)*
        }

        impl Refusal {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The status of the response.
            pub const fn status(self) -> StatusCode {
                match self {
                    $(Self::$name => StatusCode::$status,)*
                }
            }

            /// The value of `x-jaco-reason`.
            pub const fn reason(self) -> &'static str {
                match self {
                    $(Self::$name => $reason,)*
                }
            }

            /// What it means and what to do, for documents.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                }
            }
        }
    };
}

refusals! {
    /// What two servers could read differently.
    MalformedRequest => BAD_REQUEST, "malformed_request",
        "The request breaks HTTP: a bare line feed, a length beside an encoding, a field twice that may be there once, a broken chunk. The connection is closed.";
    /// The host of the request is not one.
    InvalidHost => BAD_REQUEST, "invalid_host",
        "`Host` is no host name, or differs from `:authority`.";
    /// `CONNECT` and the like.
    MethodNotSupported => METHOD_NOT_ALLOWED, "method_not_supported",
        "The edge is no forward proxy: `CONNECT` is for WebSockets over HTTP/2 only. Methods are written in capitals.";
    /// No route has the host and path.
    NoRoute => NOT_FOUND, "no_route",
        "No route has this host and path: `jaco route ls`.";
    /// A challenge that nobody waits for.
    UnknownChallenge => NOT_FOUND, "unknown_challenge",
        "The token of the ACME challenge is not known here: the order has ended, or is another cluster's.";
    /// By source.
    SourceNotAllowed => FORBIDDEN, "source_not_allowed",
        "The client's address is in none of the route's allowed ranges.";
    /// By password.
    Unauthorized => UNAUTHORIZED, "unauthorized",
        "The route asks for a user and a password, and got none or wrong ones.";
    /// Another host than that of the handshake.
    MisdirectedRequest => MISDIRECTED_REQUEST, "misdirected_request",
        "The host is not the one that the TLS handshake named: clients repeat the request on a connection of its own.";
    /// TLS is required and cannot be had yet.
    CertificateMissing => SERVICE_UNAVAILABLE, "certificate_missing",
        "The route requires TLS and its domain has no certificate yet: `jaco certificate ls`. Nothing is served in clear meanwhile.";
    /// Over `body_max`.
    BodyTooLarge => PAYLOAD_TOO_LARGE, "body_too_large",
        "The body is larger than `body_max` of the route.";
    /// The body pauses.
    BodyTimeout => REQUEST_TIMEOUT, "body_timeout",
        "No byte of the body came for 30 s.";
    /// The head has too many bytes or fields.
    HeaderTooLarge => REQUEST_HEADER_FIELDS_TOO_LARGE, "header_too_large",
        "The head of the request has more than 32 KiB or 100 fields.";
    /// The head takes too long.
    HeaderTimeout => REQUEST_TIMEOUT, "header_timeout",
        "The head of the request took longer than 10 s.";
    /// Nobody to forward to.
    NoEndpoints => SERVICE_UNAVAILABLE, "no_endpoints",
        "No instance of the service is ready: `jaco status`, `jaco explain`.";
    /// Nobody accepts connections.
    ConnectFailed => BAD_GATEWAY, "connect_failed",
        "No instance accepted a connection, or none answered for two seconds: is `port` of the route the one on which the service listens?";
    /// An instance broke off.
    UpstreamReset => BAD_GATEWAY, "upstream_reset",
        "The instance closed the connection before it answered, and the request could not be repeated: it had a body, or its method is not idempotent.";
    /// An answer that is none.
    UpstreamInvalid => BAD_GATEWAY, "upstream_invalid",
        "The instance's answer breaks HTTP, or is a change of protocol that was not asked for.";
    /// An instance does not answer.
    UpstreamTimeout => GATEWAY_TIMEOUT, "upstream_timeout",
        "The instance did not begin to answer within `timeout` of the route (60 s without one).";
}

impl Refusal {
    /// Whether nothing that follows on an HTTP/1 connection can be trusted, or waited for.
    pub(crate) const fn ends_connection(self) -> bool {
        matches!(
            self,
            Self::MalformedRequest
                | Self::HeaderTooLarge
                | Self::HeaderTimeout
                | Self::BodyTimeout
                | Self::BodyTooLarge
        )
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::TooLarge => Self::HeaderTooLarge,
            Fault::Slow => Self::HeaderTimeout,
            Fault::LineEnd
            | Fault::RequestLine
            | Fault::FieldName
            | Fault::FieldValue
            | Fault::Host
            | Fault::Length
            | Fault::Encoding
            | Fault::LengthAndEncoding
            | Fault::Chunk => Self::MalformedRequest,
        }
    }
}

/// The table of all refusals as documents have it.
pub fn refusal_table() -> String {
    let mut table = String::from("| `x-jaco-reason` | Status | Meaning |\n| --- | --- | --- |\n");
    for refusal in Refusal::ALL {
        let (reason, status) = (refusal.reason(), refusal.status().as_u16());
        table.push_str(&format!("| `{reason}` | {status} | {} |\n", refusal.meaning()));
    }
    table
}

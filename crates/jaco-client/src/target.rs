//! The endpoints of a cluster and the credential for them.

use std::fmt;
use std::path::PathBuf;

use jaco_pki::{Dialer, OperatorCredentials, OperatorToken, TrustBundle};

/// The unix socket of this machine's daemon.
pub const DEFAULT_SOCKET: &str = "/run/jaco/jaco.sock";

/// How to reach a cluster. Its `Debug` never prints the token.
#[derive(Clone)]
pub struct Target {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) token: Option<OperatorToken>,
}

/// What an operator shows to a server.
#[derive(Debug)]
pub enum Credential {
    /// An operator token, within the connection.
    Token(OperatorToken),
    /// A client certificate, in the handshake.
    Certificate(Box<OperatorCredentials>),
}

/// One node of the cluster.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    /// The daemon on this machine. The permissions of the socket decide who may use it.
    Socket(PathBuf),
    /// A node on the network, verified against the cluster's CA before anything is sent.
    Tls { address: String, dialer: Dialer },
}

/// Why a target is invalid.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// There is none.
    #[error("no server is given")]
    NoServer,
    /// One of them has no host or no port.
    #[error("server {0:?} is not host:port")]
    Address(String),
    /// The authority or the credential.
    #[error("tls configuration is refused")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Target {
    /// Whether this is `host:port`, as [`Target::servers`] wants it.
    #[must_use]
    pub fn is_server(text: &str) -> bool {
        has_port(text)
    }

    /// The daemon on this unix socket.
    #[must_use]
    pub fn socket(path: impl Into<PathBuf>) -> Self {
        Self { endpoints: vec![Endpoint::Socket(path.into())], token: None }
    }

    /// These nodes of one cluster, each `host:port`, tried in this order until one answers.
    ///
    /// # Errors
    /// When there is no server, or one of them is not `host:port`.
    pub fn servers(
        servers: &[String],
        trust: TrustBundle,
        token: OperatorToken,
    ) -> Result<Self, TargetError> {
        Self::servers_by(servers, trust, Credential::Token(token))
    }

    /// As [`Target::servers`], with either kind of credential.
    ///
    /// # Errors
    /// As [`Target::servers`].
    pub fn servers_by(
        servers: &[String],
        trust: TrustBundle,
        credential: Credential,
    ) -> Result<Self, TargetError> {
        if servers.is_empty() {
            return Err(TargetError::NoServer);
        }
        let (dialer, token) = match credential {
            Credential::Token(token) => (Dialer::operator(trust), Some(token)),
            Credential::Certificate(credentials) => (Dialer::certified(trust, &credentials), None),
        };
        let dialer = dialer.map_err(|error| TargetError::Tls(error.into()))?;
        let endpoint = |server: &String| match has_port(server) {
            true => Ok(Endpoint::Tls { address: server.clone(), dialer: dialer.clone() }),
            false => Err(TargetError::Address(server.clone())),
        };
        let endpoints = servers.iter().map(endpoint).collect::<Result<_, _>>()?;
        Ok(Self { endpoints, token })
    }
}

fn has_port(server: &str) -> bool {
    let port = server.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.endpoints).finish()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tls { address, .. } => f.write_str(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_needs_host_and_port() {
        let check = |text: &str, expected| assert_eq!(has_port(text), expected, "{text}");
        check("n1:7000", true);
        check("[::1]:7000", true);
        check("n1", false);
        check(":7000", false);
        check("n1:0", false);
        check("n1:x", false);
    }
}

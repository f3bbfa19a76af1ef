//! What a session shows of its user with each request of its browser.

use std::fmt;

use jaco_pki::PeerIdentity;
use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::{AUTHORIZATION, HeaderValue};

use crate::auth::connection::Caller;

/// A credential that was found to count, and is judged anew with each request.
#[derive(Clone)]
pub(crate) enum Credential {
    /// An operator token, as clients send it.
    Token(HeaderValue),
    /// What the certificate of the connection proved that asked for a link.
    Certificate(PeerIdentity),
    /// A process on this machine asked for a link.
    Local {
        /// Its user id.
        uid: u32,
    },
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::Certificate(_) => "Certificate",
            Self::Local { .. } => "Local",
        })
    }
}

impl Credential {
    /// What a user has shown with a request; none if the sender is no user.
    pub(crate) fn of_request(caller: &Caller, headers: &HeaderMap) -> Option<Self> {
        match caller {
            Caller::Unix { uid } | Caller::Browser { uid, .. } => Some(Self::Local { uid: *uid }),
            Caller::Tls { peer, .. } => match (headers.get(AUTHORIZATION), peer) {
                (Some(token), _) => {
                    let mut token = token.clone();
                    token.set_sensitive(true);
                    Some(Self::Token(token))
                }
                (None, PeerIdentity::Operator { .. }) => Some(Self::Certificate(peer.clone())),
                (None, PeerIdentity::Node { .. } | PeerIdentity::None) => None,
            },
        }
    }

    /// Puts it into the place where a client has its own. A caller over the socket has one already, and keeps it.
    pub(crate) fn show(&self, caller: &mut Caller, headers: &mut HeaderMap) {
        let Some((source, standing)) = caller.on_network() else { return };
        let standing = standing.clone();
        match self {
            Self::Token(token) => {
                headers.insert(AUTHORIZATION, token.clone());
            }
            Self::Certificate(peer) => {
                *caller = Caller::Tls { peer: peer.clone(), source, standing };
            }
            Self::Local { uid } => *caller = Caller::Browser { uid: *uid, source, standing },
        }
    }
}

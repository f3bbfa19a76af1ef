//! What can go wrong at the kernel's edge.

use std::io;
use std::path::PathBuf;

use jaco_dataplane::InterfaceName;

/// Why the router could not be changed or observed.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The namespace cannot be made or entered.
    #[error("the network namespace {path:?} cannot be made or entered")]
    Namespace {
        /// The file that holds it.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A request to the kernel was refused.
    #[error("the kernel refused to {what}")]
    Refused {
        /// What was asked, as a verb and its object.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A setting below `/proc/sys` cannot be written.
    #[error("the setting {path:?} cannot be written")]
    Setting {
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program `nft` cannot be run.
    #[error("nft cannot be run")]
    NoNft(#[source] io::Error),
    /// `nft` refused a transaction.
    #[error("nft refused the rules: {message}")]
    Rules {
        /// Its first line.
        message: String,
    },
    /// The container engine has no such bridge.
    #[error("there is no bridge {0}")]
    NoBridge(InterfaceName),
    /// The userspace tunnel cannot be configured.
    #[error("the tunnel refused to {what}: {why}")]
    Tunnel {
        /// What was asked, as a verb and its object.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The thread in the namespace is gone.
    #[error("the router's thread has ended")]
    Ended,
}

/// For `map_err`: the kernel refused to do `what`.
pub(crate) fn refused<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> NetError {
    move |error| NetError::Refused { what: what.into(), source: error.into() }
}

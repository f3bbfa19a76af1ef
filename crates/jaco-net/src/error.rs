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
    /// A file of the router cannot be made, read or written.
    #[error("the file {path:?} cannot be used")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process keeps the router.
    #[error("another process keeps this router: it holds {path:?}")]
    Kept {
        /// The file that it holds.
        path: PathBuf,
    },
    /// The thread in the namespace is gone.
    #[error("the router's thread has ended")]
    Ended,
}

/// For `map_err`: the kernel refused to do `what`.
pub(crate) fn refused<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> NetError {
    move |error| NetError::Refused { what: what.into(), source: error.into() }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text.replace('\n', " ")
}

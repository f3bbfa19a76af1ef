//! What all of them serve: two names, one of them by TLS, on loopback addresses of this run.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

/// The name that is served in clear.
pub(super) const CLEAR: &str = "clear.example";

/// The name that is served by TLS.
pub(super) const TLS: &str = "tls.example";

/// The port of the origin, at both of its addresses.
pub(super) const ORIGIN: u16 = 8080;

/// How the load reaches a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Clear,
    Tls,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clear => "plain",
            Self::Tls => "TLS",
        })
    }
}

/// The addresses, the certificate and the document. Its folder is removed with it.
#[derive(Debug)]
pub(super) struct Site {
    folder: TempDir,
    network: [u8; 3],
    /// Both in PEM.
    pub(super) chain: String,
    pub(super) key: String,
}

impl Site {
    /// A certificate with an ECDSA key on P-256, and a document of 1 KiB.
    pub(super) fn new() -> Result<Self> {
        let pid = std::process::id();
        let folder = tempfile::Builder::new().prefix("edge-").tempdir()?;
        let made = rcgen::generate_simple_self_signed([TLS.to_owned()])?;
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        std::fs::write(folder.path().join("chain.pem"), &chain)?;
        std::fs::write(folder.path().join("key.pem"), &key)?;
        std::fs::write(folder.path().join("both.pem"), format!("{chain}{key}"))?;
        std::fs::write(folder.path().join("document"), "0123456789abcde\n".repeat(64))?;
        let network = [127, u8::try_from(150 + pid % 50)?, u8::try_from(pid / 50 % 250 + 1)?];
        Ok(Self { folder, network, chain, key })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The nth address of this run.
    pub(super) fn address(&self, n: u8) -> Ipv4Addr {
        let [a, b, c] = self.network;
        Ipv4Addr::new(a, b, c, n)
    }

    /// The two addresses of the origin: instances, as a proxy sees them.
    pub(super) fn origins(&self) -> [Ipv4Addr; 2] {
        [self.address(1), self.address(2)]
    }
}

/// Where a proxy at this address serves.
pub(super) fn serving(address: Ipv4Addr, place: Place) -> SocketAddr {
    let port = match place {
        Place::Clear => 8080,
        Place::Tls => 8443,
    };
    (address, port).into()
}

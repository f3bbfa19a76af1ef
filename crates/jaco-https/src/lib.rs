//! What all HTTP clients of a node have in common that speak to servers outside of the cluster: authorities of certificates, receivers
//! of notifications, collectors of traces, object stores. It says whom they trust and what a failure says; what is asked, for how
//! long and how often, each of them decides.
//!
//! It must never trust a server whose certificate it did not verify, and never trust the cluster's own authority.

mod causes;
mod roots;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};

pub use causes::causes;
pub use roots::{Roots, Trusted};

/// Opens the connections of a client, HTTP/1 alone.
pub type Connector = HttpsConnector<HttpConnector>;

/// Which addresses a client connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schemes {
    /// Those that begin with `https` alone.
    Https,
    /// Those that begin with `http` as well, without encryption.
    HttpToo,
}

/// Connects to servers whose certificate one of these has signed.
///
/// # Panics
/// Never: the provider has the versions that the library calls safe.
#[must_use]
pub fn connector(roots: RootCertStore, schemes: Schemes) -> Connector {
    let provider = rustls::crypto::ring::default_provider().into();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the versions that the library calls safe")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(config);
    match schemes {
        Schemes::Https => builder.https_only().enable_http1().build(),
        Schemes::HttpToo => builder.https_or_http().enable_http1().build(),
    }
}

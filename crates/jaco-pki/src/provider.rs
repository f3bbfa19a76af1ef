//! The crypto provider of all TLS configurations and verifiers.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// *ring*, passed explicitly everywhere: a process-wide default could be another provider.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: std::sync::LazyLock<Arc<CryptoProvider>> =
        std::sync::LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    Arc::clone(&PROVIDER)
}

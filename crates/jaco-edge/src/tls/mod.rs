//! TLS: certificates for clients, and the connection to instances that want it.

mod instances;
mod store;

pub(crate) use instances::TlsToInstances;
pub(crate) use store::Store;
pub use store::{CertificatePem, Certificates};

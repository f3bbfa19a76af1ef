//! jaco-pki.

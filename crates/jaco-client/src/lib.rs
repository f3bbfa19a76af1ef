//! jaco-client.

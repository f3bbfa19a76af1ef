//! jaco-server.

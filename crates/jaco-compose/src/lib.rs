//! jaco-compose.

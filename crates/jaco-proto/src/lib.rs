//! jaco-proto.

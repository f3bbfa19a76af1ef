//! jaco-types.

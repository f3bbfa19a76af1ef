//! jaco-testkit.

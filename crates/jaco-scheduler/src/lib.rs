//! jaco-scheduler.

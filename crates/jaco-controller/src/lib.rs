//! jaco-controller.

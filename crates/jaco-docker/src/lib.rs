//! jaco-docker.

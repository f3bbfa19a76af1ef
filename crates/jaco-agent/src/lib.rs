//! jaco-agent.

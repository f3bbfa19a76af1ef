//! What `apply` promises: examples that read like a session, and laws over random histories.

mod cluster;
mod deployment;
mod history;
mod laws;
mod planner_batch;

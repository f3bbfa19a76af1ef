//! `jaco doctor`

mod backup_checks;
mod bundle;
mod checks;
mod cluster_checks;
mod command;
mod examination;
mod finding;
mod network_checks;
mod node_checks;
mod notify_checks;
mod offline;
mod secret_checks;
#[cfg(test)]
mod tests;
mod volume_checks;
mod workload_checks;

pub(crate) use command::{Args, run};

//! Runs all checks on the responses of the nodes. Pure.

use super::examination::Examination;
use super::finding::{Finding, Findings};
use super::{
    backup_checks, cluster_checks, network_checks, node_checks, notify_checks, secret_checks,
    volume_checks, workload_checks,
};

/// All findings, failures first.
pub(super) fn findings(examination: &Examination<'_>) -> Vec<Finding> {
    let mut found = Findings::default();
    cluster_checks::agreement(examination, &mut found);
    cluster_checks::replication(examination, &mut found);
    for node in &examination.members.nodes {
        node_checks::member(node, examination, &mut found);
    }
    for node in &examination.cluster.nodes {
        node_checks::availability(node, examination, &mut found);
    }
    network_checks::network(examination.network, &mut found);
    cluster_checks::rotation(examination, &mut found);
    cluster_checks::kek_rotation(examination, &mut found);
    cluster_checks::versions(examination, &mut found);
    secret_checks::expiry(examination.secrets, examination.now_ms, &mut found);
    notify_checks::targets(examination.targets, examination.now_ms, &mut found);
    volume_checks::sizes(examination.volumes, &mut found);
    backup_checks::schedules(examination.backups, examination.now_ms, &mut found);
    if let Some(status) = examination.status {
        workload_checks::workload(status, &mut found);
    }
    found.into_sorted()
}

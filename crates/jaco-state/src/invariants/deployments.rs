//! Laws about deployments and their revisions (ST-5, ST-16).

use jaco_types::ServiceName;

use super::{Law, Violations};
use crate::state::ClusterState;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    for deployment in state.deployments.values() {
        let name = &deployment.name;
        if !deployment.revisions.contains_key(&deployment.revision) {
            found.add(
                Law::DesiredRevisionKept,
                format!("the desired revision of {name} is not kept"),
            );
        }
        for (revision, record) in &deployment.revisions {
            let is_unknown = |service: &&ServiceName| !record.spec.services.contains_key(*service);
            if let Some(service) = record.digests.keys().find(is_unknown) {
                let subject = format!("{name} has an image of {service} at {revision}");
                found.add(Law::Digests, subject);
            }
        }
    }
}

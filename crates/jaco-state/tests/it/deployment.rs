//! The desired state of deployments, and its revisions.

use std::collections::BTreeSet;

use jaco_state::command::{DeploymentApply, DeploymentDelete, SpecChange};
use jaco_state::{Command, Outcome};
use jaco_types::spec::Placement;
use jaco_types::{ErrorCode, Hostname, Revision};

use crate::history::{History, create, deploy, deployment, key, service};

fn deployed(revision: u64, change: SpecChange) -> Outcome {
    Outcome::Deployed { revision: Revision(revision), change }
}

/// R-ROLL-1: an unchanged spec is no new revision.
#[test]
fn an_unchanged_spec_is_no_new_revision() {
    let mut history = History::founded();
    let web = service("web", "web:1");
    assert_eq!(
        history.apply(deploy("shop", std::slice::from_ref(&web))),
        deployed(1, SpecChange::Created)
    );
    assert_eq!(
        history.apply(deploy("shop", std::slice::from_ref(&web))),
        deployed(1, SpecChange::Unchanged)
    );
    let changed = deploy("shop", &[service("web", "web:2")]);
    assert_eq!(history.apply(changed), deployed(2, SpecChange::Updated));
}

/// R-CLI-9: a retry under the same request id gets the first answer and does nothing again.
#[test]
fn a_retry_gets_the_first_answer() {
    let mut history = History::founded();
    let first = history.apply_as("r1", deploy("shop", &[service("web", "web:1")]));
    history.apply(deploy("shop", &[service("web", "web:2")]));
    let before = history.state.clone();
    let retry = history.apply_as("r1", deploy("shop", &[service("web", "web:1")]));
    assert_eq!(retry, first);
    assert_eq!(history.state.deployments, before.deployments);
    assert_eq!(history.state.audit, before.audit);
}

/// R-IN-1: pinning to a host that is no member is refused, and nothing changes.
#[test]
fn an_unknown_host_is_refused() {
    let mut history = History::founded();
    let mut web = service("web", "web:1");
    let hosts = ["n1", "n9"].map(|host| Hostname::new(host).unwrap());
    web.placement = Placement::Hosts(BTreeSet::from(hosts));
    assert_eq!(history.refused(deploy("shop", &[web])), ErrorCode::UnknownHost);
    assert!(history.state.deployments.is_empty());
    assert!(history.last_event().contains("missing=n9"), "{}", history.last_event());
}

/// R-PLACE-5: `a` + `b-c` and `a-b` + `c` would name their replicas alike.
#[test]
fn t90_services_whose_replicas_would_be_named_alike_are_refused() {
    let mut history = History::founded();
    history.apply(deploy("a", &[service("b-c", "x:1")]));
    assert_eq!(
        history.refused(deploy("a-b", &[service("c", "x:1")])),
        ErrorCode::ReplicaIdConflict
    );
    history.apply(deploy("a-b", &[service("d", "x:1")]));
    assert_eq!(history.state.deployments.len(), 2);
}

/// R-CLI-6: what was made from a revision is refused once another one is wanted, or none; and changes nothing
/// then.
#[test]
fn t90_what_is_made_from_an_older_revision_is_refused() {
    let mut history = History::founded();
    let made_from = |revision: u64, image: &str| match deploy("shop", &[service("web", image)]) {
        Command::DeploymentApply(DeploymentApply { name, spec, .. }) => {
            DeploymentApply::new(name, spec).based_on(Some(Revision(revision))).into()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(history.refused(made_from(1, "web:1")), ErrorCode::StalePlan);
    history.apply(deploy("shop", &[service("web", "web:1")]));
    history.apply(made_from(1, "web:2"));
    assert_eq!(history.refused(made_from(1, "web:3")), ErrorCode::StalePlan);
    assert_eq!(history.refused(made_from(3, "web:3")), ErrorCode::StalePlan);
    let shop = history.state.deployments.get(&deployment("shop")).unwrap();
    assert_eq!((shop.revision, shop.revisions.len()), (Revision(2), 2));
    history.apply(made_from(2, "web:3"));
    assert_eq!(history.state.deployments.get(&deployment("shop")).unwrap().revision, Revision(3));
}

/// R-ROLL-6: revisions are bounded, but one that a replica still runs is kept.
#[test]
fn a_revision_that_still_runs_is_kept() {
    let mut history = History::founded();
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let node = jaco_types::NodeId::FIRST;
    history.batch(vec![create(&key("shop", "web"), 0, node)]);
    for image in 2..30 {
        history.apply(deploy("shop", &[service("web", &format!("web:{image}"))]));
    }
    let kept = &history.state.deployments.get(&deployment("shop")).unwrap().revisions;
    let kept: Vec<u64> = kept.keys().map(|revision| revision.0).collect();
    assert_eq!(kept.first(), Some(&1));
    assert_eq!(kept.len(), 1 + jaco_state::apply::deployment::KEPT_REVISIONS);
    assert_eq!(kept.last(), Some(&29));
}

/// R-PLACE-5: a counter outlives its deployment, so indices are never reused.
#[test]
fn a_counter_outlives_its_deployment() {
    let mut history = History::founded();
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let record = jaco_types::Scheduling { next_index: 3, ..Default::default() };
    let service_key = key("shop", "web");
    let change = jaco_state::Change::SchedulingSet {
        service: service_key.clone(),
        record: Box::new(record),
    };
    history.batch(vec![change]);
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert_eq!(history.state.scheduling.get(&service_key).unwrap().next_index, 3);
}

/// Deleting what is not there is refused by name.
#[test]
fn deleting_nothing_is_refused() {
    let mut history = History::founded();
    let delete = DeploymentDelete::new(deployment("shop")).into();
    assert_eq!(history.refused(delete), ErrorCode::DeploymentNotFound);
}

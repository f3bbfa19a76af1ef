//! The digest of an image at a revision: pinned once, inherited, and resolved anew.

use jaco_state::command::{Batch, DeploymentRollback};
use jaco_state::{Change, NewInstance, Outcome};
use jaco_types::spec::{PullPolicy, ServiceSpec};
use jaco_types::{DesiredState, ErrorCode, ImageDigest, Ordinal, ReplicaId, Revision, SpecHash};

use crate::history::{History, deploy, deployment, digest, key, service};

/// `web:1`, which a replica runs; its image is settled.
fn running(pull: PullPolicy) -> (History, ServiceSpec) {
    let mut history = History::founded();
    let web = ServiceSpec { pull, ..service("web", "web:1") };
    history.apply(deploy("shop", std::slice::from_ref(&web)));
    let (service, ordinal) = (key("shop", "web"), Ordinal::Index(0));
    let node = jaco_types::NodeId::FIRST;
    let (revision, spec_hash) = (Revision(1), web.hash);
    let create = Change::SlotCreate {
        id: ReplicaId::new(&service, &ordinal),
        service,
        ordinal,
        instance: NewInstance { node, revision, spec_hash, gpus: Vec::new() },
        desired_state: DesiredState::Active,
    };
    assert_eq!(history.batch(vec![create, resolve(1, 7)]), Outcome::Done);
    (history, web)
}

fn resolve(revision: u64, digit: u8) -> Change {
    let (service, revision) = (key("shop", "web"), Revision(revision));
    Change::ImageResolve { service, revision, digest: digest(digit) }
}

fn image(history: &History, revision: u64) -> Option<ImageDigest> {
    history.state.image_digest(&key("shop", "web"), Revision(revision)).cloned()
}

fn changed(spec: &ServiceSpec) -> ServiceSpec {
    ServiceSpec { hash: SpecHash([88; 32]), ..spec.clone() }
}

/// R-ROLL-5, ST-16: the first word about an image stands; a second one is refused, and so is one about a
/// revision or a service that is not there.
#[test]
fn an_image_is_settled_once() {
    let (mut history, _) = running(PullPolicy::Missing);
    assert_eq!(image(&history, 1), Some(digest(7)));
    let event = history.last_event();
    assert!(event.starts_with("image_resolved digest=web@sha256:777"), "{event}");
    for wrong in [resolve(1, 8), resolve(2, 8)] {
        let based_on = history.state.index;
        let batch = Batch::new(based_on, vec![wrong]).into();
        assert_eq!(history.refused(batch), ErrorCode::StalePlan);
    }
    let twice = vec![Change::SlotRemove { id: ReplicaId::parse("shop-web-0").unwrap() }];
    history.batch(twice);
    assert_eq!(image(&history, 1), Some(digest(7)));
}

/// R-ROLL-5, R-HASH-1: what runs keeps its image whatever else changes of it, and a second apply of the
/// same does nothing.
#[test]
fn a_revision_takes_over_what_runs() {
    let (mut history, web) = running(PullPolicy::Missing);
    history.apply(deploy("shop", std::slice::from_ref(&web)));
    assert_eq!(history.state.deployments.get(&deployment("shop")).unwrap().revision, Revision(1));
    history.apply(deploy("shop", &[changed(&web)]));
    assert_eq!(image(&history, 2), Some(digest(7)));
    history.apply(deploy("shop", &[ServiceSpec { replicas: 3, ..changed(&web) }]));
    assert_eq!(image(&history, 3), Some(digest(7)), "a revision that nothing ran is passed over");
    history.apply(deploy("shop", &[service("web", "web:2")]));
    assert_eq!(image(&history, 4), None, "it is another image");
}

/// R-ROLL-5: what is fetched before each start is looked for anew once its containers are others, and
/// not before; what is never fetched is never taken over.
#[test]
fn the_pull_policy_decides_what_is_taken_over() {
    let (mut history, web) = running(PullPolicy::Always);
    history.apply(deploy("shop", &[ServiceSpec { replicas: 3, ..web.clone() }]));
    assert_eq!(image(&history, 2), Some(digest(7)));
    history.apply(deploy("shop", &[changed(&web)]));
    assert_eq!(image(&history, 3), None);

    let (mut history, web) = running(PullPolicy::Missing);
    history.apply(deploy("shop", &[ServiceSpec { pull: PullPolicy::Never, ..web }]));
    assert_eq!(image(&history, 2), None);
}

/// R-ROLL-6: a rollback runs exactly what ran then.
#[test]
fn a_rollback_restores_the_image() {
    let (mut history, _) = running(PullPolicy::Missing);
    history.apply(deploy("shop", &[service("web", "web:2")]));
    history.batch(vec![resolve(2, 8)]);
    let to = Some(Revision(1));
    history.apply(DeploymentRollback::new(deployment("shop")).to(to).into());
    assert_eq!(image(&history, 3), Some(digest(7)));
}

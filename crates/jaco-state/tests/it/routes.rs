//! Routes of deployments and certificates of users: who gets which, what is refused, and what the audit log
//! says of it.

use std::num::NonZeroU16;
use std::sync::Arc;

use jaco_state::command::{
    CertificateRemove, CertificateStore, DeploymentApply, DeploymentDelete, DeploymentRollback,
    EdgeBegin, SpecChange,
};
use jaco_state::edge::{
    CERTIFICATE_NAMES_MAX, CERTIFICATES_MAX, CHAIN_BYTES_MAX, KEY_BYTES_MAX, SealedKey,
};
use jaco_state::invariants::violations;
use jaco_state::{Command, Outcome, edge};
use jaco_types::route::{
    CLUSTER_ROUTES_MAX, DEPLOYMENT_ROUTES_MAX, DrainTime, RouteAction, RouteTls, Upstream,
};
use jaco_types::spec::{Attachment, DeploymentSpec, NetworkRef, NetworkSpec, ServiceSpec};
use jaco_types::{CertificateName, ErrorCode, Millis, Revision, Route, RouteKey, Timestamp};

use crate::attached::{network_name, networked};
use crate::history::{History, deployment, service, spec};

pub(crate) fn route_key(text: &str) -> RouteKey {
    let (domain, path) = match text.split_once('/') {
        Some((domain, path)) => (domain, format!("/{path}")),
        None => (text, String::new()),
    };
    RouteKey { domain: domain.parse().unwrap(), path: path.parse().unwrap() }
}

pub(crate) fn route_to(service: &str, tls: RouteTls) -> Route {
    let upstream = Upstream::new(service.parse().unwrap(), NonZeroU16::new(80).unwrap());
    Route { tls, ..Route::new(RouteAction::Forward(upstream)) }
}

/// A spec of a service `web` in the network `default`, and of `lone` in none, with these routes.
pub(crate) fn spec_with(image: &str, routes: &[(RouteKey, Route)]) -> DeploymentSpec {
    let network = NetworkRef::Own(network_name("default"));
    let networks = vec![Attachment { network, aliases: Vec::new() }];
    let web = ServiceSpec { networks, ..service("web", image) };
    let mut spec = spec(&[web, service("lone", "lone:1")]);
    spec.networks = [(network_name("default"), NetworkSpec::default())].into();
    spec.routes = routes.iter().cloned().collect();
    spec
}

/// An apply with routes to `web` without TLS.
fn deploy_routes(name: &str, image: &str, routes: &[&str]) -> Command {
    let routes: Vec<_> =
        routes.iter().map(|key| (route_key(key), route_to("web", RouteTls::Off))).collect();
    DeploymentApply::new(deployment(name), spec_with(image, &routes)).into()
}

pub(crate) fn certificate_name(name: &str) -> CertificateName {
    CertificateName::new(name).unwrap()
}

pub(crate) fn certificate(name: &str) -> CertificateStore {
    CertificateStore {
        name: certificate_name(name),
        chain: "PEM".into(),
        key: SealedKey([7; 40].into()),
        names: ["*.example.com", "example.com"].map(Arc::from).into(),
        not_before: Timestamp(1),
        not_after: Timestamp(2_000_000_000_000),
        fingerprint: [0xab; 32],
    }
}

/// A cluster with networks whose members know routes.
pub(crate) fn with_edges() -> History {
    let mut history = networked();
    assert_eq!(history.apply(EdgeBegin.into()), Outcome::Done);
    history
}

/// The claims, as `ROUTE DEPLOYMENT`.
fn claims(history: &History) -> Vec<String> {
    let claims = history.state.edges.claims.iter();
    claims.map(|(key, claim)| format!("{key} {}", claim.deployment)).collect()
}

/// The events since this index, with their facts.
fn events_of(history: &History, index: u64) -> Vec<String> {
    let events = history.state.audit.events.iter().filter(|(key, _)| key.index.0 == index);
    let shown = events.map(|(_, event)| {
        let facts: Vec<_> =
            event.payload.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {}", event.kind.as_str(), facts.join(" "))
    });
    shown.collect()
}

/// R-EDGE-2, NET-5: a deployment has the routes of its desired revision, through apply, rollback and delete.
#[test]
fn routes_follow_the_desired_revision() {
    let mut history = with_edges();
    history.apply(deploy_routes("shop", "web:1", &["a.de", "a.de/api"]));
    assert_eq!(claims(&history), ["a.de shop", "a.de/api shop"]);
    history.apply(deploy_routes("shop", "web:1", &["a.de", "b.de"]));
    assert_eq!(claims(&history), ["a.de shop", "b.de shop"]);
    let index = history.state.index.0;
    assert_eq!(
        events_of(&history, index),
        [
            "apply changes=routes deployment=shop revision=2 services=lone, web",
            "route_removed deployment=shop route=a.de/api",
            "route_added deployment=shop route=b.de target=web:80 tls=off",
        ]
    );
    history.apply(DeploymentRollback::new(deployment("shop")).to(Some(Revision(1))).into());
    assert_eq!(claims(&history), ["a.de shop", "a.de/api shop"]);
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert_eq!(claims(&history), Vec::<String>::new());
    let index = history.state.index.0;
    assert_eq!(
        events_of(&history, index),
        [
            "delete deployment=shop revision=3",
            "route_removed deployment=shop route=a.de",
            "route_removed deployment=shop route=a.de/api",
        ]
    );
    assert_eq!(violations(&history.state), []);
}

/// R-EDGE-2: what differs in nothing but routes is a new revision, and the same again is none.
#[test]
fn routes_alone_are_a_new_revision() {
    let mut history = with_edges();
    let deployed = |revision, change| Outcome::Deployed { revision: Revision(revision), change };
    let first = history.apply(deploy_routes("shop", "web:1", &[]));
    assert_eq!(first, deployed(1, SpecChange::Created));
    let second = history.apply(deploy_routes("shop", "web:1", &["a.de"]));
    assert_eq!(second, deployed(2, SpecChange::Updated));
    let again = history.apply(deploy_routes("shop", "web:1", &["a.de"]));
    assert_eq!(again, deployed(2, SpecChange::Unchanged));
    let back = history.apply(DeploymentRollback::new(deployment("shop")).into());
    assert_eq!(back, deployed(3, SpecChange::Updated), "the one before differs in its routes");
    assert_eq!(claims(&history), Vec::<String>::new());
}

/// R-EDGE-2, NET-5: a route that another deployment has is refused with its name, and nothing changes.
#[test]
fn a_route_has_one_owner() {
    let mut history = with_edges();
    history.apply(deploy_routes("blog", "web:1", &["a.de/blog"]));
    history.apply(deploy_routes("shop", "web:1", &["a.de"]));
    let before = history.state.edges.clone();
    let Outcome::Rejected(refused) =
        history.apply(deploy_routes("shop", "web:2", &["a.de", "a.de/blog"]))
    else {
        panic!("it is refused")
    };
    assert_eq!(refused.code, ErrorCode::RouteConflict);
    assert_eq!(refused.message, "deployment blog has the route a.de/blog already");
    assert_eq!((&*refused.details["owner"], &*refused.details["route"]), ("blog", "a.de/blog"));
    assert_eq!(history.state.edges, before);
    // A rollback meets the same rule: the route was given away meanwhile.
    history.apply(deploy_routes("blog", "web:1", &[]));
    history.apply(deploy_routes("shop", "web:1", &["a.de", "a.de/blog"]));
    let rollback = DeploymentRollback::new(deployment("blog")).to(Some(Revision(1)));
    assert_eq!(history.refused(rollback.into()), ErrorCode::RouteConflict);
}

/// R-EDGE-2: the paths of a domain are encrypted alike, whoever has them.
#[test]
fn a_domain_is_encrypted_in_one_way() {
    let mut history = with_edges();
    history.apply(deploy_routes("blog", "web:1", &["a.de/blog"]));
    let auto = [(route_key("a.de"), route_to("web", RouteTls::Auto))];
    let apply = DeploymentApply::new(deployment("shop"), spec_with("web:1", &auto));
    let Outcome::Rejected(refused) = history.apply(apply.into()) else { panic!("it is refused") };
    assert_eq!(refused.code, ErrorCode::RouteConflict);
    assert_eq!(
        refused.message,
        "the route a.de has `tls: auto`, and deployment blog has a.de/blog with `tls: off`: a domain \
         has one of them"
    );
    let mixed = [
        (route_key("b.de"), route_to("web", RouteTls::Auto)),
        (route_key("b.de/x"), route_to("web", RouteTls::Off)),
    ];
    let apply = DeploymentApply::new(deployment("shop"), spec_with("web:1", &mixed));
    assert_eq!(history.refused(apply.into()), ErrorCode::InvalidManifest);
}

/// NET-5: a route goes to a service that is there and has a network.
#[test]
fn a_route_goes_to_a_service_with_a_network() {
    let mut history = with_edges();
    for (service, what) in [("gone", "does not exist"), ("lone", "no network of the cluster")] {
        let routes = [(route_key("a.de"), route_to(service, RouteTls::Auto))];
        let apply = DeploymentApply::new(deployment("shop"), spec_with("web:1", &routes));
        let Outcome::Rejected(refused) = history.apply(apply.into()) else { panic!("{service}") };
        assert_eq!(refused.code, ErrorCode::InvalidManifest);
        assert!(refused.message.contains(what), "{}", refused.message);
    }
    let wildcard = [(route_key("*.a.de"), route_to("web", RouteTls::Auto))];
    let apply = DeploymentApply::new(deployment("shop"), spec_with("web:1", &wildcard));
    assert_eq!(history.refused(apply.into()), ErrorCode::InvalidManifest);
}

/// R-EDGE-2: nothing of this gets into the state before all members know it.
#[test]
fn routes_wait_for_all_members() {
    let mut history = networked();
    assert_eq!(
        history.refused(deploy_routes("shop", "web:1", &["a.de"])),
        ErrorCode::MembersOutdated
    );
    let mut drained = spec_with("web:1", &[]);
    let web = drained.services.values_mut().next_back().unwrap();
    Arc::make_mut(web).drain = Some(DrainTime::new(Millis(1)).unwrap());
    let drained: Command = DeploymentApply::new(deployment("shop"), drained).into();
    assert_eq!(history.refused(drained.clone()), ErrorCode::MembersOutdated);
    assert_eq!(history.refused(certificate("own").into()), ErrorCode::MembersOutdated);
    assert_eq!(history.state.edges, edge::Edges::default());
    history.apply(EdgeBegin.into());
    let begun = history.state.edges.begun;
    assert_eq!(begun, Some(history.state.index));
    history.apply(EdgeBegin.into());
    assert_eq!(history.state.edges.begun, begun, "once");
    assert!(matches!(history.apply(drained), Outcome::Deployed { .. }));
    let at = history.state.index.0;
    history.apply(deploy_routes("shop", "web:1", &["a.de"]));
    assert_eq!(
        events_of(&history, at + 1)[0],
        "apply changes=web: drain; routes deployment=shop revision=2 services=lone, web"
    );
}

/// R-EDGE-2: a certificate that a desired route names cannot be removed, nor named before it is there.
#[test]
fn certificates_are_kept_for_their_routes() {
    let mut history = with_edges();
    let own = RouteTls::Certificate(certificate_name("own"));
    let routes = [(route_key("*.example.com"), route_to("web", own))];
    let apply: Command =
        DeploymentApply::new(deployment("shop"), spec_with("web:1", &routes)).into();
    assert_eq!(history.refused(apply.clone()), ErrorCode::CertificateNotFound);
    assert_eq!(history.apply(certificate("own").into()), Outcome::Done);
    assert_eq!(
        history.last_event(),
        format!(
            "certificate_stored certificate=own fingerprint={} names=*.example.com example.com \
             not_after_ms=2000000000000",
            "ab".repeat(32)
        )
    );
    history.apply(apply);
    let remove: Command = CertificateRemove::new(certificate_name("own")).into();
    let Outcome::Rejected(refused) = history.apply(remove.clone()) else { panic!("it is in use") };
    assert_eq!(refused.code, ErrorCode::CertificateInUse);
    assert_eq!(refused.message, "certificate own is named by routes: *.example.com of shop");
    // Replacing it is no removal.
    let renewed = CertificateStore { chain: "PEM 2".into(), ..certificate("own") };
    assert_eq!(history.apply(renewed.into()), Outcome::Done);
    history.apply(deploy_routes("shop", "web:1", &[]));
    assert_eq!(history.apply(remove.clone()), Outcome::Done);
    assert!(history.last_event().starts_with("certificate_removed certificate=own"));
    assert_eq!(history.refused(remove), ErrorCode::CertificateNotFound);
    // The revision with the route cannot come back without it.
    let rollback = DeploymentRollback::new(deployment("shop")).to(Some(Revision(1)));
    assert_eq!(history.refused(rollback.into()), ErrorCode::CertificateNotFound);
    assert_eq!(violations(&history.state), []);
}

/// R-EDGE-2: certificates have bounds, and their keys are not printed.
#[test]
fn certificates_are_bounded() {
    let mut history = with_edges();
    let spoilt: [fn(&mut CertificateStore); 5] = [
        |one| one.chain = "".into(),
        |one| one.chain = "a".repeat(CHAIN_BYTES_MAX + 1).into(),
        |one| one.key = SealedKey(vec![0; KEY_BYTES_MAX + 257].into()),
        |one| one.names.clear(),
        |one| {
            let names = (0..=CERTIFICATE_NAMES_MAX).map(|n| Arc::from(format!("a{n}.de")));
            one.names = names.collect();
        },
    ];
    for spoil in spoilt {
        let mut command = certificate("own");
        spoil(&mut command);
        assert_eq!(history.refused(command.into()), ErrorCode::TooLarge);
    }
    for number in 0..CERTIFICATES_MAX {
        assert_eq!(history.apply(certificate(&format!("c{number}")).into()), Outcome::Done);
    }
    assert_eq!(history.refused(certificate("more").into()), ErrorCode::TooLarge);
    assert_eq!(history.apply(certificate("c0").into()), Outcome::Done, "one can be replaced");
    assert!(!format!("{:?}", certificate("own")).contains("7, 7"));
}

/// R-EDGE-2: a deployment, and a cluster, have at most so many routes.
#[test]
fn routes_are_bounded() {
    let mut history = with_edges();
    let many = |name: &str, count: usize| {
        let keys: Vec<String> = (0..count).map(|n| format!("{name}{n}.de")).collect();
        deploy_routes(name, "web:1", &keys.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let too_many = many("shop", DEPLOYMENT_ROUTES_MAX + 1);
    assert_eq!(history.refused(too_many), ErrorCode::TooLarge);
    for number in 0..CLUSTER_ROUTES_MAX / DEPLOYMENT_ROUTES_MAX {
        let outcome = history.apply(many(&format!("d{number}-"), DEPLOYMENT_ROUTES_MAX));
        assert!(matches!(outcome, Outcome::Deployed { .. }));
    }
    assert_eq!(history.refused(deploy_routes("shop", "web:1", &["a.de"])), ErrorCode::TooLarge);
    assert_eq!(violations(&history.state), []);
}

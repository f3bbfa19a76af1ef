//! The laws of routes over random histories, and that breaking it is found (NET-5).

use jaco_state::command::{
    CertificateRemove, DeploymentApply, DeploymentDelete, DeploymentRollback, EdgeBegin,
};
use jaco_state::edge::RouteClaim;
use jaco_state::invariants::{Law, violations};
use jaco_state::{ClusterState, Command, Outcome};
use jaco_types::route::RouteTls;
use jaco_types::{Revision, Timestamp};
use proptest::prelude::*;

use crate::attached::networked;
use crate::history::{History, deployment};
use crate::orders;
use crate::routes::{certificate, certificate_name, route_key, route_to, spec_with, with_edges};

const NAMES: [&str; 3] = ["blog", "shop", "wiki"];
const KEYS: [&str; 5] = ["*.b.de", "a.de", "a.de/x", "a.de/x/y", "b.de"];
const CERTIFICATES: [&str; 2] = ["one", "two"];
const SERVICES: [&str; 3] = ["gone", "lone", "web"];

/// One step of a history, with small numbers in place of names.
#[derive(Debug, Clone)]
enum Step {
    Begin,
    /// Deployment, image; routes with their service and encryption.
    Deploy(usize, u8, Vec<(usize, usize, usize)>),
    Rollback(usize, u64),
    Delete(usize),
    Store(usize),
    Remove(usize),
    /// Which note, of which key's domain.
    Note(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly to the service that is there.
    let service = prop_oneof![1 => 0..2usize, 12 => Just(2usize)];
    let routes = proptest::collection::vec((0..KEYS.len(), service, 0..4usize), 0..3);
    prop_oneof![
        1 => Just(Step::Begin),
        8 => (0..3usize, 0..2u8, routes).prop_map(|(name, image, keys)| Step::Deploy(name, image, keys)),
        3 => (0..3usize, 0..6u64).prop_map(|(name, to)| Step::Rollback(name, to)),
        2 => (0..3usize).prop_map(Step::Delete),
        3 => (0..2usize).prop_map(Step::Store),
        2 => (0..2usize).prop_map(Step::Remove),
        6 => (0..3usize, 1..KEYS.len()).prop_map(|(note, key)| Step::Note(note, key)),
    ]
}

fn command(step: &Step) -> Command {
    match step {
        Step::Begin => EdgeBegin.into(),
        Step::Deploy(name, image, keys) => {
            let tls = |kind: usize| match kind {
                0 => RouteTls::Auto,
                1 => RouteTls::Off,
                other => RouteTls::Certificate(certificate_name(CERTIFICATES[other - 2])),
            };
            let routes = keys.iter().map(|(key, service, kind)| {
                (route_key(KEYS[*key]), route_to(SERVICES[*service], tls(*kind)))
            });
            let spec = spec_with(&format!("web:{image}"), &routes.collect::<Vec<_>>());
            DeploymentApply::new(deployment(NAMES[*name]), spec).into()
        }
        Step::Rollback(name, to) => {
            let to = Some(Revision(*to)).filter(|to| to.0 > 0);
            DeploymentRollback::new(deployment(NAMES[*name])).to(to).into()
        }
        Step::Delete(name) => DeploymentDelete::new(deployment(NAMES[*name])).into(),
        Step::Store(name) => certificate(CERTIFICATES[*name]).into(),
        Step::Remove(name) => CertificateRemove::new(certificate_name(CERTIFICATES[*name])).into(),
        Step::Note(note, key) => {
            let domain = route_key(KEYS[*key]).domain;
            match note {
                0 => orders::challenge(domain.as_str(), &format!("token-{key}")),
                1 => orders::failed(domain.as_str(), 1),
                _ => orders::issued(domain.as_str(), 1),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// NET-5, NET-16: whatever is commanded, it holds after each entry, and a refusal changes nothing of it.
    #[test]
    fn routes_keep_their_law(steps in proptest::collection::vec(step(), 0..40)) {
        let mut history = networked();
        for step in &steps {
            let before = (history.state.edges.clone(), history.state.deployments.clone());
            let outcome = history.apply(command(step));
            prop_assert_eq!(violations(&history.state), vec![], "after {:?}", step);
            if let Outcome::Rejected(_) = outcome {
                let after = (history.state.edges.clone(), history.state.deployments.clone());
                prop_assert_eq!(after, before, "after {:?}", step);
            }
        }
    }

    /// NET-5: two nodes that execute the same entries have the same claims, and the audit log tells every change
    /// of them.
    #[test]
    fn events_tell_every_change(steps in proptest::collection::vec(step(), 0..40)) {
        let mut history = with_edges();
        let mut told = std::collections::BTreeMap::new();
        for step in &steps {
            history.apply(command(step));
            let events = history.state.audit.events.iter();
            let own = events.filter(|(key, _)| key.index == history.state.index);
            for (_, event) in own {
                let fact = |name: &str| event.payload.get(name).cloned().unwrap_or_default();
                match event.kind.as_str() {
                    "route_added" => drop(told.insert(fact("route"), fact("deployment"))),
                    "route_removed" => {
                        prop_assert_eq!(told.remove(&fact("route")), Some(fact("deployment")));
                    }
                    _ => {}
                }
            }
            let claims = history.state.edges.claims.iter();
            let held: std::collections::BTreeMap<_, _> = claims
                .map(|(key, claim)| (key.to_string(), claim.deployment.to_string()))
                .collect();
            prop_assert_eq!(&held, &told);
        }
    }
}

/// A sound state: `shop` has two routes, one by a certificate.
fn sound() -> History {
    let mut history = with_edges();
    history.apply(certificate("one").into());
    let named = RouteTls::Certificate(certificate_name("one"));
    let routes = [
        (route_key("a.de"), route_to("web", RouteTls::Off)),
        (route_key("*.example.com"), route_to("web", named)),
    ];
    history.apply(DeploymentApply::new(deployment("shop"), spec_with("web:1", &routes)).into());
    assert_eq!(violations(&history.state), vec![]);
    history
}

/// NET-5: each way to break it is found.
#[test]
fn broken_routes_are_found() {
    let claim = |name: &str| RouteClaim { deployment: deployment(name), since: Timestamp(0) };
    let spoil: [&dyn Fn(&mut ClusterState); 7] = [
        &|state| drop(state.edges.claims.remove(&route_key("a.de"))),
        &|state| drop(state.edges.claims.insert(route_key("a.de"), claim("blog"))),
        &|state| drop(state.edges.claims.insert(route_key("b.de"), claim("shop"))),
        &|state| drop(state.edges.certificates.remove(&certificate_name("one"))),
        &|state| state.edges.begun = None,
        &|state| {
            edit_spec(state, |spec| drop(spec.services.remove(&"web".parse().unwrap())));
        },
        &|state| {
            edit_spec(state, |spec| {
                let other = route_to("web", RouteTls::Auto);
                spec.routes.insert(route_key("a.de/x"), other);
            });
            state.edges.claims.insert(route_key("a.de/x"), claim("shop"));
        },
    ];
    for (number, spoil) in spoil.iter().enumerate() {
        let mut state = sound().state;
        spoil(&mut state);
        let found = violations(&state);
        assert!(found.iter().any(|one| one.law == Law::RouteOwned), "{number}: {found:?}");
    }
}

fn edit_spec(state: &mut ClusterState, edit: impl FnOnce(&mut jaco_types::DeploymentSpec)) {
    let shop = state.deployments.get_mut(&deployment("shop")).unwrap();
    let record = shop.revisions.values_mut().next_back().unwrap();
    edit(&mut std::sync::Arc::make_mut(record).spec);
}

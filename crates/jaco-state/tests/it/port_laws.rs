//! The law of published ports over random histories, and that breaking it is found (NET-5).

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use jaco_state::command::{DeploymentApply, DeploymentDelete, DeploymentRollback, EdgeBegin};
use jaco_state::edge::PortClaim;
use jaco_state::invariants::{Law, violations};
use jaco_state::{ClusterState, Command, Outcome};
use jaco_types::port::{ProxyProtocol, Transport};
use jaco_types::route::RouteTls;
use jaco_types::{PortKey, Revision, ServiceKey, Timestamp};
use proptest::prelude::*;

use crate::attached::networked;
use crate::history::{History, deployment};
use crate::ports::{ports, spec_of};
use crate::routes::{route_key, route_to, with_edges};

const NAMES: [&str; 3] = ["blog", "shop", "wiki"];
const PORTS: [&str; 10] = [
    "10.0.0.1@80:80",
    "443:80",
    "80:80",
    "80:81/udp",
    "8000-8002:80",
    "8000-8002:80/proxy",
    "8001-8001:81",
    "10.0.0.1@8000-8001:80",
    "80",
    "81",
];
const HOST_PORTS: [u16; 3] = [80, 8001, 30_000];

/// One step of a history, with small numbers in place of names.
#[derive(Debug, Clone)]
enum Step {
    Begin,
    Deploy(Deploy),
    Rollback(usize, u64),
    Delete(usize),
}

#[derive(Debug, Clone)]
struct Deploy {
    name: usize,
    image: u8,
    ports: Vec<usize>,
    host_ports: Vec<usize>,
    has_route: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let ports = proptest::collection::vec(0..PORTS.len(), 0..4);
    let host_ports = proptest::collection::vec(0..HOST_PORTS.len(), 0..2);
    let host_ports = prop_oneof![3 => Just(Vec::new()), 1 => host_ports];
    let deploy = (0..3usize, 0..2u8, ports, host_ports, prop::bool::weighted(0.15));
    let deploy = deploy.prop_map(|(name, image, ports, host_ports, has_route)| {
        Step::Deploy(Deploy { name, image, ports, host_ports, has_route })
    });
    prop_oneof![
        1 => Just(Step::Begin),
        8 => deploy,
        3 => (0..3usize, 0..6u64).prop_map(|(name, to)| Step::Rollback(name, to)),
        2 => (0..3usize).prop_map(Step::Delete),
    ]
}

fn command(step: &Step) -> Command {
    match step {
        Step::Begin => EdgeBegin.into(),
        Step::Deploy(Deploy { name, image, ports, host_ports, has_route }) => {
            let ports: Vec<&str> = ports.iter().map(|number| PORTS[*number]).collect();
            let host_ports: Vec<u16> = host_ports.iter().map(|one| HOST_PORTS[*one]).collect();
            let mut spec = spec_of(&format!("web:{image}"), &ports, &host_ports);
            if *has_route {
                let domain = format!("{}.de", NAMES[*name]);
                spec.routes.insert(route_key(&domain), route_to("web", RouteTls::Off));
            }
            DeploymentApply::new(deployment(NAMES[*name]), spec).into()
        }
        Step::Rollback(name, to) => {
            let to = Some(Revision(*to)).filter(|to| to.0 > 0);
            DeploymentRollback::new(deployment(NAMES[*name])).to(to).into()
        }
        Step::Delete(name) => DeploymentDelete::new(deployment(NAMES[*name])).into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// NET-5: whatever is commanded, it holds after each entry, and a refusal changes nothing of it.
    #[test]
    fn ports_keep_their_law(steps in proptest::collection::vec(step(), 0..40)) {
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

    /// NET-5: no entry takes a port from another deployment, a service keeps a port that it still asks for, and the
    /// audit log tells every change.
    #[test]
    fn ports_stay_and_are_told(steps in proptest::collection::vec(step(), 0..40)) {
        let mut history = with_edges();
        let mut told = BTreeMap::new();
        for step in &steps {
            let edges = history.state.edges.clone();
            let outcome = history.apply(command(step));
            if let Step::Deploy(Deploy { name, .. }) | Step::Rollback(name, _) | Step::Delete(name) = step {
                let others = |(_, claim): &(&PortKey, &PortClaim)| {
                    claim.service.deployment != deployment(NAMES[*name])
                };
                let old: Vec<_> = edges.ports.iter().filter(others).collect();
                let new: Vec<_> = history.state.edges.ports.iter().filter(others).collect();
                prop_assert_eq!(old, new);
            }
            // Another image moves nothing: what was chosen is kept.
            if let (Step::Deploy(deploy), Outcome::Deployed { .. }) = (step, outcome) {
                let mut other = history.clone();
                let again = Deploy { image: deploy.image + 2, ..deploy.clone() };
                other.apply(command(&Step::Deploy(again)));
                prop_assert_eq!(ports(&other), ports(&history));
            }
            let events = history.state.audit.events.iter();
            let own = events.filter(|(key, _)| key.index == history.state.index);
            for (_, event) in own {
                let fact = |name: &str| event.payload.get(name).cloned().unwrap_or_default();
                let whose = format!("{}/{}", fact("deployment"), fact("target"));
                match event.kind.as_str() {
                    "port_added" => drop(told.insert(fact("port"), whose)),
                    "port_removed" => prop_assert_eq!(told.remove(&fact("port")), Some(whose)),
                    _ => {}
                }
            }
            let held = history.state.edges.ports.iter().map(|(key, claim)| {
                (key.to_string(), format!("{}:{}", claim.service, claim.target))
            });
            prop_assert_eq!(&held.collect::<BTreeMap<_, _>>(), &told);
        }
    }
}

/// A sound state: `shop/web` has two ports, and `lone` takes another one on its nodes.
fn sound() -> History {
    let mut history = with_edges();
    let spec = spec_of("web:1", &["80:80", "8000-8002:80/proxy"], &[9000]);
    history.apply(DeploymentApply::new(deployment("shop"), spec).into());
    assert_eq!(violations(&history.state), vec![]);
    history
}

fn key(address: Option<&str>, port: u16) -> PortKey {
    let address = address.map(|text| text.parse().unwrap());
    PortKey { transport: Transport::Tcp, port: NonZeroU16::new(port).unwrap(), address }
}

fn claim(deployed: &str, target: u16) -> PortClaim {
    PortClaim {
        service: ServiceKey { deployment: deployment(deployed), service: "web".parse().unwrap() },
        target: NonZeroU16::new(target).unwrap(),
        proxy_protocol: ProxyProtocol::Off,
        since: Timestamp(0),
    }
}

/// NET-5: each way to break it is found.
#[test]
fn broken_ports_are_found() {
    let spoil: [&dyn Fn(&mut ClusterState); 10] = [
        &|state| drop(state.edges.ports.remove(&key(None, 80))),
        &|state| drop(state.edges.ports.insert(key(None, 80), claim("blog", 80))),
        &|state| drop(state.edges.ports.insert(key(None, 80), claim("shop", 81))),
        &|state| drop(state.edges.ports.insert(key(None, 8000), claim("shop", 80))),
        &|state| drop(state.edges.ports.insert(key(Some("10.0.0.1"), 80), claim("shop", 80))),
        &|state| drop(state.edges.ports.insert(key(None, 8001), claim("shop", 80))),
        &|state| state.edges.begun = None,
        &|state| {
            edit_spec(state, "lone", |lone| lone.host_ports[0].port = 8000);
        },
        &|state| edit_spec(state, "web", |web| web.networks.clear()),
        &|state| {
            let claim = jaco_state::edge::RouteClaim {
                deployment: deployment("shop"),
                since: Timestamp(0),
            };
            state.edges.claims.insert(route_key("a.de"), claim);
            let shop = state.deployments.get_mut(&deployment("shop")).unwrap();
            let record = shop.revisions.values_mut().next_back().unwrap();
            let routes = &mut std::sync::Arc::make_mut(record).spec.routes;
            routes.insert(route_key("a.de"), route_to("web", RouteTls::Off));
        },
    ];
    for (number, spoil) in spoil.iter().enumerate() {
        let mut state = sound().state;
        spoil(&mut state);
        let found = violations(&state);
        assert!(found.iter().any(|one| one.law == Law::RouteOwned), "{number}: {found:?}");
    }
}

fn edit_spec(
    state: &mut ClusterState,
    service: &str,
    edit: impl FnOnce(&mut jaco_types::ServiceSpec),
) {
    let shop = state.deployments.get_mut(&deployment("shop")).unwrap();
    let record = shop.revisions.values_mut().next_back().unwrap();
    let spec = &mut std::sync::Arc::make_mut(record).spec;
    let service = spec.services.get_mut(&service.parse().unwrap()).unwrap();
    edit(std::sync::Arc::make_mut(service));
}

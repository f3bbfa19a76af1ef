//! Random plans with certificates, of few keys, so that two of them have much in common.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use jaco_dataplane::edge::{
    EdgeEndpoint, EdgePlan, EdgeService, EndpointReadiness, Forwarding, Listener, ListenerKey,
    Locality, PlannedRoute, ProxyProtocol, Target, Transport,
};
use jaco_types::route::{
    AllowedSources, AllowedUsers, BodyLimit, ForwardedPath, HeaderName, HeaderRules, HeaderValue,
    HstsAge, PasswordHash, Redirect, RedirectRest, RedirectStatus, RedirectTarget, RevisionWeights,
    RouteAction, RouteHeaders, RouteProtocol, RouteTimeout, RouteTls, SessionAffinity, Upstream,
    UserName,
};
use jaco_types::unit::Bytes;
use jaco_types::{
    InstanceId, Millis, ReplicaId, Revision, Route, RouteKey, ServiceKey, StateIndex,
};
use proptest::collection::{btree_map, btree_set};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::tls::{CertificatePem, Certificates};

/// What no message may show. As many bytes as base 64 takes at a time, so that it shows there, too.
pub(super) const SECRETS: [&str; 2] = ["private key", "saltsaltsalt"];

/// A plan with its certificates.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) plan: EdgePlan,
    pub(super) certificates: Certificates,
}

impl Planned {
    pub(super) fn both(&self) -> (&EdgePlan, &Certificates) {
        (&self.plan, &self.certificates)
    }
}

pub(super) fn planned() -> impl Strategy<Value = Planned> {
    let routes = btree_map(route_key(), route(), 0..6).prop_map(|all| all.into_iter().collect());
    let listeners = btree_map(listener_key(), listener(), 0..4);
    let services = btree_map(service_key(), service(), 0..4);
    let challenges = btree_map("[ab]{1,2}", "[ab]\\.[ab]", 0..3);
    let trusted = btree_set(select(vec!["10.0.0.0/8", "::1", "192.0.2.1"]), 0..3);
    let named = btree_map(select(vec!["wild", "a.example"]), pem(), 0..3);
    let ordered = btree_map(domain(), pem(), 0..3);
    let proved = btree_map(domain(), pem(), 0..2);
    let plan = (routes, listeners, services, challenges, trusted);
    (plan, named, ordered, proved).prop_map(|(plan, named, ordered, proved)| {
        let (routes, listeners, services, challenges, trusted) = plan;
        let trusted_proxies = trusted.iter().map(|range| range.parse().unwrap()).collect();
        let named = named.into_iter().map(|(name, pem)| (name.parse().unwrap(), pem));
        let ordered = ordered.into_iter().map(|(name, pem)| (name.parse().unwrap(), pem));
        let proved = proved.into_iter().map(|(name, pem)| (name.parse().unwrap(), pem));
        Planned {
            plan: EdgePlan { listeners, routes, services, challenges, trusted_proxies },
            certificates: Certificates {
                by_name: named.collect(),
                by_domain: ordered.collect(),
                challenges: proved.collect(),
            },
        }
    })
}

fn domain() -> impl Strategy<Value = &'static str> {
    select(vec!["a.example", "b.example", "*.example"])
}

fn route_key() -> impl Strategy<Value = RouteKey> {
    (domain(), select(vec!["", "/x", "/x/y"])).prop_map(|(domain, path)| RouteKey {
        domain: domain.parse().unwrap(),
        path: path.parse().unwrap(),
    })
}

fn service_key() -> impl Strategy<Value = ServiceKey> {
    (select(vec!["shop", "blog"]), select(vec!["web", "db"])).prop_map(|(deployment, service)| {
        ServiceKey { deployment: deployment.parse().unwrap(), service: service.parse().unwrap() }
    })
}

fn listener_key() -> impl Strategy<Value = ListenerKey> {
    let address = option::of(select(vec!["192.0.2.1", "2001:db8::1"]));
    let transport = select(vec![Transport::Tcp, Transport::Udp]);
    (transport, address, 80..82_u16).prop_map(|(transport, address, port)| ListenerKey {
        transport,
        address: address.map(|address| address.parse().unwrap()),
        port,
    })
}

fn listener() -> impl Strategy<Value = Listener> {
    let forwarding = (service_key(), 1..3_u16, any::<bool>()).prop_map(|(service, port, told)| {
        let proxy_protocol = if told { ProxyProtocol::V2 } else { ProxyProtocol::Off };
        Listener::Forward(Forwarding { target: Target { service, port }, proxy_protocol })
    });
    prop_oneof![Just(Listener::Http), Just(Listener::Https), forwarding]
}

fn service() -> impl Strategy<Value = Arc<EdgeService>> {
    let endpoint = (1..4_u8, 1..3_u64, any::<bool>(), any::<bool>());
    let endpoint = endpoint.prop_map(|(last, revision, here, ready)| EdgeEndpoint {
        address: Ipv4Addr::new(10, 0, 0, last),
        revision: Revision(revision),
        locality: if here { Locality::Here } else { Locality::Elsewhere },
        readiness: if ready { EndpointReadiness::Ready } else { EndpointReadiness::Leaving },
    });
    let id = (0..3_u64, 7..9_u64).prop_map(|(ordinal, index)| InstanceId {
        replica: ReplicaId::parse(&format!("shop-web-{ordinal}")).unwrap(),
        raft_index: StateIndex(index),
    });
    (btree_map(id, endpoint, 0..4), 0..3_u64)
        .prop_map(|(endpoints, drain)| Arc::new(EdgeService { endpoints, drain: Millis(drain) }))
}

fn pem() -> impl Strategy<Value = Arc<CertificatePem>> {
    (0..3_u8).prop_map(|number| {
        let key = format!("{}{number}", SECRETS[0]).into_bytes();
        Arc::new(CertificatePem { chain: vec![number, 0xff], key })
    })
}

fn route() -> impl Strategy<Value = PlannedRoute> {
    let tls = prop_oneof![
        Just(RouteTls::Auto),
        Just(RouteTls::Off),
        Just(RouteTls::Certificate("wild".parse().unwrap())),
    ];
    let limits = (option::of(1..3_u32), option::of(1..3_u64));
    let headers =
        (rules(), rules()).prop_map(|(request, response)| RouteHeaders { request, response });
    let sources = btree_set(select(vec!["10.0.0.0/8", "::/0"]), 0..3);
    let access = (any::<bool>(), sources);
    (select(vec!["shop", "blog"]), action(), tls, limits, headers, access).prop_map(
        |(deployment, action, tls, (hsts, body_max), headers, (guarded, sources))| {
            let sources: BTreeSet<_> = sources.iter().map(|range| range.parse().unwrap()).collect();
            let route = Route {
                action,
                tls,
                hsts: hsts.map(|secs| HstsAge::new(secs).unwrap()),
                body_max: body_max.map(|size| BodyLimit::new(Bytes(size)).unwrap()),
                headers,
                users: if guarded { users() } else { AllowedUsers::default() },
                sources: AllowedSources::new(sources).unwrap(),
            };
            PlannedRoute { deployment: deployment.parse().unwrap(), route }
        },
    )
}

fn users() -> AllowedUsers {
    let hash = PasswordHash::new(10_000, SECRETS[1].as_bytes(), [7; 32]).unwrap();
    AllowedUsers::new([(UserName::new("ann").unwrap(), hash)].into()).unwrap()
}

fn rules() -> impl Strategy<Value = HeaderRules> {
    (any::<bool>(), any::<bool>()).prop_map(|(sets, removes)| {
        let name = |text| HeaderName::new(text).unwrap();
        let set: BTreeMap<_, _> = [(name("x-a"), HeaderValue::new("1").unwrap())].into();
        let set = if sets { set } else { BTreeMap::new() };
        let remove = if removes { [name("x-b")].into() } else { BTreeSet::new() };
        HeaderRules::new(set, remove).unwrap()
    })
}

fn action() -> impl Strategy<Value = RouteAction> {
    let redirect =
        (any::<bool>(), select(RedirectStatus::ALL.to_vec())).prop_map(|(drops, status)| {
            RouteAction::Redirect(Redirect {
                to: RedirectTarget::new("https://new.example/").unwrap(),
                rest: if drops { RedirectRest::Drop } else { RedirectRest::Append },
                status,
            })
        });
    let protocol = select(RouteProtocol::ALL.to_vec());
    let options = (any::<bool>(), any::<bool>(), option::of(100..102_u64), any::<bool>());
    let forward = (1..3_u16, protocol, options).prop_map(|(port, protocol, options)| {
        let (strips, sticks, timeout, weighs) = options;
        let weights = if weighs { [(Revision(3), 7)].into() } else { BTreeMap::new() };
        RouteAction::Forward(Upstream {
            protocol,
            forwarded_path: if strips { ForwardedPath::Rest } else { ForwardedPath::Whole },
            affinity: if sticks { SessionAffinity::Cookie } else { SessionAffinity::None },
            timeout: timeout.map(|ms| RouteTimeout::new(Millis(ms)).unwrap()),
            weights: RevisionWeights::new(weights).unwrap(),
            ..Upstream::new("web".parse().unwrap(), port.try_into().unwrap())
        })
    });
    prop_oneof![forward, redirect]
}

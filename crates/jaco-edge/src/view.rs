//! What a request, a connection or a datagram is looked up in: a plan that is ready for use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use jaco_dataplane::edge::{Forwarding, ListenerKey, PlannedRoute, ProxyProtocol};
use jaco_types::route::{
    ForwardedPath, HeaderRules, HstsAge, IpRange, Redirect, RedirectRest, RedirectStatus, RouteTls,
};
use jaco_types::{Route, RouteKey};
use rustls::sign::CertifiedKey;

use crate::auth::Guard;
use crate::backend::Backend;
use crate::counters::RouteCounters;
use crate::table::Table;
use crate::tls::Store;

/// A plan that is ready for use.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) routes: Table<Arc<RouteEntry>>,
    pub(crate) listeners: HashMap<ListenerKey, Role>,
    pub(crate) challenges: Arc<BTreeMap<String, String>>,
    pub(crate) trusted: Arc<BTreeSet<IpRange>>,
    pub(crate) certificates: Arc<Store>,
}

/// What a listener does.
#[derive(Debug, Clone)]
pub(crate) enum Role {
    Http,
    Https,
    Forward { backend: Arc<Backend>, proxy_protocol: ProxyProtocol },
}

/// A route that is ready for use.
#[derive(Debug)]
pub(crate) struct RouteEntry {
    pub(crate) key: RouteKey,
    pub(crate) planned: Arc<PlannedRoute>,
    pub(crate) action: ReadyAction,
    pub(crate) request_headers: ReadyEdits,
    pub(crate) response_headers: ReadyEdits,
    pub(crate) hsts: Option<HeaderValue>,
    pub(crate) guard: Option<Box<Guard>>,
    pub(crate) counters: Arc<RouteCounters>,
}

/// Where the requests of a route go.
#[derive(Debug)]
pub(crate) enum ReadyAction {
    Forward { backend: Arc<Backend>, strip: bool },
    Redirect { location: String, append: bool, status: StatusCode },
}

/// Changes to a header.
#[derive(Debug, Default)]
pub(crate) struct ReadyEdits {
    set: Box<[(HeaderName, HeaderValue)]>,
    remove: Box<[HeaderName]>,
}

impl View {
    /// The certificate of a host, if one of its routes has one that is there.
    pub(crate) fn certificate(&self, host: &str) -> Option<Arc<CertifiedKey>> {
        let mut routes = self.routes.of_host(host).map(|(_, route)| route);
        routes.find_map(|route| self.certificate_of(route)).cloned()
    }

    /// The certificate of a route, if it is there.
    pub(crate) fn certificate_of(&self, route: &RouteEntry) -> Option<&Arc<CertifiedKey>> {
        match &route.spec().tls {
            RouteTls::Certificate(name) => self.certificates.named(name),
            RouteTls::Auto | RouteTls::Off => self.certificates.ordered(&route.key.domain),
        }
    }

    /// Whether what a peer says about its clients counts.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        contains(&self.trusted, peer)
    }
}

/// Whether an address is in one of these ranges.
pub(crate) fn contains(ranges: &BTreeSet<IpRange>, address: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(address))
}

impl Role {
    pub(crate) fn forward(backend: Arc<Backend>, forwarding: &Forwarding) -> Self {
        Self::Forward { backend, proxy_protocol: forwarding.proxy_protocol }
    }
}

impl RouteEntry {
    /// The route as it was planned.
    pub(crate) fn spec(&self) -> &Route {
        &self.planned.route
    }
}

impl ReadyAction {
    pub(crate) fn forward(backend: Arc<Backend>, path: ForwardedPath) -> Self {
        Self::Forward { backend, strip: path == ForwardedPath::Rest }
    }

    pub(crate) fn redirect(redirect: &Redirect) -> Self {
        let status = match redirect.status {
            RedirectStatus::MovedPermanently => StatusCode::MOVED_PERMANENTLY,
            RedirectStatus::Found => StatusCode::FOUND,
            RedirectStatus::Temporary => StatusCode::TEMPORARY_REDIRECT,
            RedirectStatus::Permanent => StatusCode::PERMANENT_REDIRECT,
        };
        let append = redirect.rest == RedirectRest::Append;
        Self::Redirect { location: redirect.to.as_str().to_owned(), append, status }
    }
}

impl ReadyEdits {
    /// The edits of these rules.
    pub(crate) fn new(rules: &HeaderRules) -> Self {
        let name = |name: &jaco_types::route::HeaderName| -> HeaderName {
            name.as_str().parse().expect("a name of a rule is a token")
        };
        let set = rules.set().iter().map(|(field, value)| {
            let value = HeaderValue::from_str(value.as_str());
            (name(field), value.expect("a value of a rule is printable ASCII"))
        });
        Self { set: set.collect(), remove: rules.remove().iter().map(name).collect() }
    }

    /// Carries them out.
    pub(crate) fn apply(&self, headers: &mut http::HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
    }
}

/// The field `Strict-Transport-Security`. Hosts below the own one are not meant: they may be other deployments'.
pub(crate) fn hsts_value(age: HstsAge) -> HeaderValue {
    HeaderValue::from_str(&format!("max-age={}", age.secs())).expect("digits and letters are fine")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a rule may have, HTTP may have: no plan makes the edge panic.
    #[test]
    fn fields_of_rules_are_fields_of_http() {
        let names = (0..=u8::MAX).map(char::from).map(|c| format!("x{c}"));
        let names = names.filter_map(|name| jaco_types::route::HeaderName::parse(&name).ok());
        let values = (0..=u8::MAX).map(char::from).map(|c| format!("a{c}b"));
        let values = values.filter_map(|value| jaco_types::route::HeaderValue::new(&value).ok());
        for value in values {
            for name in names.clone().take(30) {
                let set = BTreeMap::from([(name, value.clone())]);
                let rules = HeaderRules::new(set, BTreeSet::new()).unwrap();
                assert_eq!(ReadyEdits::new(&rules).set.len(), 1);
            }
        }
        for name in names {
            let rules = HeaderRules::new(BTreeMap::new(), [name].into()).unwrap();
            assert_eq!(ReadyEdits::new(&rules).remove.len(), 1);
        }
    }
}

//! What a request, a connection or a datagram is looked up in: a plan that is ready for use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use jaco_dataplane::edge::{
    Forwarding, HeaderEdits, Hsts, HstsScope, ListenerKey, PathHandling, ProxyProtocol, Redirect,
    RedirectRest, RedirectStatus, Route, RouteKey, SourceRange, TlsMode,
};
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
    pub(crate) trusted: Arc<BTreeSet<SourceRange>>,
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
    pub(crate) spec: Arc<Route>,
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
        let name = match &route.spec.tls {
            TlsMode::Certificate(name) => name.as_str(),
            TlsMode::Auto | TlsMode::Off => route.key.domain.as_str(),
        };
        self.certificates.get(name)
    }

    /// Whether what a peer says about its clients counts.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        contains(&self.trusted, peer)
    }
}

/// Whether an address is in one of these ranges.
pub(crate) fn contains(ranges: &BTreeSet<SourceRange>, address: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(address))
}

impl Role {
    pub(crate) fn forward(backend: Arc<Backend>, forwarding: &Forwarding) -> Self {
        Self::Forward { backend, proxy_protocol: forwarding.proxy_protocol }
    }
}

impl ReadyAction {
    pub(crate) fn forward(backend: Arc<Backend>, path: PathHandling) -> Self {
        Self::Forward { backend, strip: path == PathHandling::Strip }
    }

    pub(crate) fn redirect(redirect: &Redirect) -> Self {
        let status = match redirect.status {
            RedirectStatus::MovedPermanently => StatusCode::MOVED_PERMANENTLY,
            RedirectStatus::Found => StatusCode::FOUND,
            RedirectStatus::Temporary => StatusCode::TEMPORARY_REDIRECT,
            RedirectStatus::Permanent => StatusCode::PERMANENT_REDIRECT,
        };
        let append = redirect.rest == RedirectRest::Append;
        Self::Redirect { location: redirect.location.clone(), append, status }
    }
}

impl ReadyEdits {
    /// The edits that HTTP allows, and those that it does not.
    pub(crate) fn read(edits: &HeaderEdits) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let mut set = Vec::with_capacity(edits.set.len());
        for (name, value) in &edits.set {
            match (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
                (Ok(name), Ok(value)) => set.push((name, value)),
                _ => problems.push(format!("header {name:?} cannot be set: not a field of HTTP")),
            }
        }
        let mut remove = Vec::with_capacity(edits.remove.len());
        for name in &edits.remove {
            match name.parse() {
                Ok(name) => remove.push(name),
                Err(_) => problems.push(format!("header {name:?} cannot be removed: not a name")),
            }
        }
        (Self { set: set.into(), remove: remove.into() }, problems)
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

/// The field `Strict-Transport-Security`.
pub(crate) fn hsts_value(hsts: Hsts) -> HeaderValue {
    let seconds = hsts.max_age_secs;
    let text = match hsts.scope {
        HstsScope::Host => format!("max-age={seconds}"),
        HstsScope::Subdomains => format!("max-age={seconds}; includeSubDomains"),
    };
    HeaderValue::from_str(&text).expect("digits and letters are fine")
}

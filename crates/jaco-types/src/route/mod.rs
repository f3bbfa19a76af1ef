//! Routes: which requests from outside a service of a deployment answers, and how they are forwarded.
//!
//! A route belongs to a deployment and is found by [`RouteKey`], of which one deployment of a cluster has each.
//! What the parts of a route may be is checked where they are made; what they mean together by [`Route::check`].

mod access;
mod domain;
mod header;
mod path;
mod redirect;
mod traffic;

use std::fmt;
use std::num::NonZeroU16;

pub use access::{
    AllowedSources, AllowedUsers, IpRange, PASSWORD_ROUNDS_MAX, PASSWORD_ROUNDS_MIN, PasswordHash,
    SOURCES_MAX, USERS_MAX, UserName,
};
pub use domain::RouteDomain;
pub use header::{
    HEADER_RULES_MAX, HEADER_VALUE_BYTES_MAX, HeaderName, HeaderRules, HeaderValue, RouteHeaders,
};
pub use path::{ROUTE_PATH_BYTES_MAX, RoutePath};
pub use redirect::{Redirect, RedirectRest, RedirectStatus, RedirectTarget};
pub use traffic::{
    BodyLimit, DrainTime, HstsAge, RevisionWeights, RouteTimeout, WEIGHTED_REVISIONS_MAX,
};

use crate::id::{CertificateName, ServiceName};

/// The most routes that a deployment can have: all of them are in each of its revisions.
pub const DEPLOYMENT_ROUTES_MAX: usize = 1000;

/// The most routes that a cluster can have: every edge holds all of them.
pub const CLUSTER_ROUTES_MAX: usize = 10_000;

/// The requests that a route is for: those to a domain whose path begins with a prefix. Of several routes of a
/// domain the one with the longest prefix gets the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    /// The domain.
    pub domain: RouteDomain,
    /// The prefix.
    pub path: RoutePath,
}

impl fmt::Display for RouteKey {
    /// `shop.example.com/api`, or the domain alone for all paths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", self.domain, self.path.prefix()))
    }
}

/// What is done with the requests of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// What answers.
    pub action: RouteAction,
    /// How clients are encrypted.
    pub tls: RouteTls,
    /// How long browsers are told to use HTTPS only; none does not tell them.
    pub hsts: Option<HstsAge>,
    /// How large the body of a request may be; none is without a limit.
    pub body_max: Option<BodyLimit>,
    /// What is changed in the headers of requests and responses.
    pub headers: RouteHeaders,
    /// Who may pass with a password; nobody in it lets everybody pass.
    pub users: AllowedUsers,
    /// From where requests may come; nothing in it lets all pass.
    pub sources: AllowedSources,
}

/// What answers the requests of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteAction {
    /// The instances of a service.
    Forward(Upstream),
    /// The edge itself, with another address.
    Redirect(Redirect),
}

/// The service that a route goes to, and how requests are forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// The service of the deployment.
    pub service: ServiceName,
    /// The port that its containers listen on.
    pub port: NonZeroU16,
    /// What of the path its containers see.
    pub forwarded_path: ForwardedPath,
    /// What its containers speak.
    pub protocol: RouteProtocol,
    /// Whether requests of a client go to one instance.
    pub affinity: SessionAffinity,
    /// How long a response may take to begin; none is what an edge does without.
    pub timeout: Option<RouteTimeout>,
    /// How requests are shared out among revisions; nothing in it leaves that to the number of instances.
    pub weights: RevisionWeights,
}

impl Upstream {
    /// The service, with every option at its default.
    #[must_use]
    pub fn new(service: ServiceName, port: NonZeroU16) -> Self {
        Self {
            service,
            port,
            forwarded_path: ForwardedPath::Whole,
            protocol: RouteProtocol::Http,
            affinity: SessionAffinity::None,
            timeout: None,
            weights: RevisionWeights::default(),
        }
    }
}

impl Route {
    /// A route with every option at its default: TLS with a certificate that the cluster orders.
    #[must_use]
    pub fn new(action: RouteAction) -> Self {
        Self {
            action,
            tls: RouteTls::Auto,
            hsts: None,
            body_max: None,
            headers: RouteHeaders::default(),
            users: AllowedUsers::default(),
            sources: AllowedSources::default(),
        }
    }

    /// The service that it goes to, unless it redirects.
    #[must_use]
    pub const fn upstream(&self) -> Option<&Upstream> {
        match &self.action {
            RouteAction::Forward(upstream) => Some(upstream),
            RouteAction::Redirect(_) => None,
        }
    }

    /// The rules about several parts of a route and its key.
    ///
    /// # Errors
    /// The first that is broken.
    pub fn check(&self, key: &RouteKey) -> Result<(), RouteProblem> {
        if self.tls == RouteTls::Auto && key.domain.is_wildcard() {
            return Err(RouteProblem::WildcardOrdered);
        }
        let strips = self.upstream().is_some_and(|to| to.forwarded_path == ForwardedPath::Rest);
        if strips && key.path.is_whole() {
            return Err(RouteProblem::NothingToStrip);
        }
        if self.tls == RouteTls::Off && !self.users.is_empty() {
            return Err(RouteProblem::PasswordsInClear);
        }
        if self.tls == RouteTls::Off && self.hsts.is_some() {
            return Err(RouteProblem::HstsInClear);
        }
        Ok(())
    }
}

/// Why the parts of a route do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteProblem {
    /// Authorities prove a wildcard by DNS alone, which a cluster has no hand in.
    #[error("no certificate for a wildcard can be ordered")]
    WildcardOrdered,
    /// The prefix is empty.
    #[error("without a path there is nothing to strip")]
    NothingToStrip,
    /// Passwords would be sent without encryption.
    #[error("passwords would be sent without encryption")]
    PasswordsInClear,
    /// Browsers are told to use HTTPS, which is off.
    #[error("HSTS asks for the encryption that is off")]
    HstsInClear,
}

impl RouteProblem {
    /// What to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::WildcardOrdered => {
                "store a certificate with `jaco certificate set NAME` and write `tls: NAME`, or write \
                 `tls: off`"
            }
            Self::NothingToStrip => "add a `path`, or remove `strip_path`",
            Self::PasswordsInClear => "remove `tls: off`, or remove `basic_auth`",
            Self::HstsInClear => "remove `tls: off`, or remove `hsts`",
        }
    }
}

/// What of the path of a request is forwarded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ForwardedPath {
    /// All of it.
    #[default]
    Whole,
    /// What follows the prefix of the route.
    Rest,
}

/// How the clients of a route are encrypted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteTls {
    /// With a certificate that the cluster orders.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// With the certificate that is stored under this name.
    Certificate(CertificateName),
}

impl fmt::Display for RouteTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Certificate(name) => name.as_str(),
        })
    }
}

/// Whether requests of a client go to one instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionAffinity {
    /// Each request goes where there is most room for it.
    #[default]
    None,
    /// A cookie names the instance, as long as that is ready.
    Cookie,
}

/// What the containers behind a route speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteProtocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// HTTP/2 without TLS, as gRPC does.
    H2c,
    /// HTTP over TLS. The certificate is not checked: addresses of instances are in none.
    Https,
}

impl RouteProtocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Http, Self::H2c, Self::Https];

    /// The protocol as users write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::H2c => "h2c",
            Self::Https => "https",
        }
    }

    /// The protocol of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.as_str() == text)
    }
}

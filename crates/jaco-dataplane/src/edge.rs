//! What the edge of a site should do: which sockets it has, and where requests, connections and datagrams that
//! come in there go. Plain data that names no socket, no key and no clock; `jaco-edge` carries it out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::Arc;

use jaco_types::{InstanceId, Millis, Revision, ServiceKey};

/// What the edge of a site should do.
///
/// Routes and services are shared: a plan that differs in one of ten thousand routes has the others in common
/// with the one before, and who compares the two finds that out without reading them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgePlan {
    /// The sockets, and what is done with what they receive.
    pub listeners: BTreeMap<ListenerKey, Listener>,
    /// Where HTTP requests go. No two have the same domain and path.
    pub routes: BTreeMap<RouteKey, Arc<Route>>,
    /// The instances of every service that a route or a listener names.
    pub services: BTreeMap<ServiceKey, Arc<EdgeService>>,
    /// What is answered to ACME's HTTP-01 challenges: by token, the key authorization.
    pub challenges: BTreeMap<String, String>,
    /// Whose word about the client counts: `X-Forwarded-For`, `Forwarded` and the PROXY protocol are believed if
    /// the peer is in one of these ranges, and replaced otherwise.
    pub trusted_proxies: BTreeSet<SourceRange>,
}

/// A socket of the edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerKey {
    /// What it speaks below.
    pub transport: Transport,
    /// The address that it is bound to; `None`: all addresses of the node.
    pub address: Option<IpAddr>,
    /// The published port.
    pub port: u16,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// What is done with what a socket receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listener {
    /// HTTP in clear: routes without TLS, challenges, and redirects to HTTPS.
    Http,
    /// HTTP over TLS.
    Https,
    /// Connections or datagrams as they are, to a service.
    Forward(Forwarding),
}

/// A published port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// Where to.
    pub target: Target,
    /// Whether the instance is told who the client is.
    pub proxy_protocol: ProxyProtocol,
}

/// A port of all instances of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The service.
    pub service: ServiceKey,
    /// The port on which its instances listen.
    pub port: u16,
}

/// Whether an instance is told who the client of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// It is not: it sees the edge.
    Off,
    /// By the header of the PROXY protocol, version 2, before the first byte; with UDP before each datagram.
    V2,
}

/// Which requests a route is for. Of several that are, an exact domain comes before a wildcard, and then the
/// longer path before the shorter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    /// The host that is asked for.
    pub domain: Domain,
    /// The beginning of the path.
    pub path: PathPrefix,
}

/// A host name in lower case, or `*.` and a host name: one label below it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Arc<str>);

/// The beginning of a path, by whole segments: `/api` is for `/api` and `/api/x`, not for `/apis`. It begins with
/// `/`, and ends with one only if it is nothing else.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPrefix(Arc<str>);

/// Why a text is no domain or no path of a route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the {kind} of a route: {rule}")]
pub struct InvalidRouteKey {
    kind: &'static str,
    text: String,
    rule: &'static str,
}

/// What happens to the requests of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where they go.
    pub action: Action,
    /// Whether they have to be encrypted.
    pub tls: TlsMode,
    /// Browsers are told to use HTTPS only. Without TLS it has no effect.
    pub hsts: Option<Hsts>,
    /// The most bytes that the body of a request may have. `None`: any number.
    pub body_max: Option<u64>,
    /// Changes to the header of a request on its way to the instance.
    pub request_headers: HeaderEdits,
    /// Changes to the header of a response on its way to the client.
    pub response_headers: HeaderEdits,
    /// Who may use the route, by name and password.
    pub basic_auth: Option<BasicAuth>,
    /// From where the route may be used. Empty: from everywhere.
    pub allowed_sources: BTreeSet<SourceRange>,
}

/// Where the requests of a route go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// To an instance.
    Forward(Upstream),
    /// Back, with another address.
    Redirect(Redirect),
}

/// How requests reach an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// The instances.
    pub target: Target,
    /// What they speak.
    pub protocol: UpstreamProtocol,
    /// Whether they see the path of the route.
    pub path: PathHandling,
    /// How long an instance may take, from the last byte of the request that it was sent to the header of its
    /// response. `None`: what the edge is set to.
    pub timeout: Option<Millis>,
    /// The cookie that keeps a client with its instance while that is ready.
    pub sticky: Option<StickyCookie>,
    /// Shares of the requests by revision of the service. Empty: every instance alike. Not acted on yet.
    pub weights: BTreeMap<Revision, u32>,
}

/// What the instances of a service speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UpstreamProtocol {
    /// HTTP/1.1 in clear.
    Http,
    /// HTTP/2 in clear from the first byte: gRPC.
    H2c,
    /// HTTP/1.1 over TLS. The certificate is not verified: instances are reached by address, in their own network.
    Https,
}

/// Whether instances see the path of their route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathHandling {
    /// They see the path of the request.
    Keep,
    /// They see what is left of it after the path of the route; at least `/`.
    Strip,
}

/// A cookie that keeps a client with its instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StickyCookie {
    /// Its name: a token as HTTP has it.
    pub name: String,
}

/// An answer that sends the client elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Where to: an absolute URL, or a path that begins with `/`.
    pub location: String,
    /// Whether the rest of the path and the query follow it.
    pub rest: RedirectRest,
    /// How long it holds, and whether the method stays.
    pub status: RedirectStatus,
}

/// What becomes of the part of a path after that of the route, and of the query, in a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectRest {
    /// It is appended to the location.
    Append,
    /// It is dropped.
    Drop,
}

/// The status of a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectStatus {
    /// 301: for good; clients may turn a POST into a GET.
    MovedPermanently,
    /// 302: for now; clients may turn a POST into a GET.
    Found,
    /// 307: for now, with the same method.
    Temporary,
    /// 308: for good, with the same method.
    Permanent,
}

/// Whether requests have to be encrypted, and by which certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsMode {
    /// They have to be; the certificate of the domain is issued by a CA.
    Auto,
    /// They are served in clear; over TLS as well, if there is a certificate for the domain.
    Off,
    /// They have to be; by the certificate of this name.
    Certificate(String),
}

/// The header `Strict-Transport-Security`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hsts {
    /// How long browsers remember it.
    pub max_age_secs: u64,
    /// For which hosts it counts.
    pub scope: HstsScope,
}

/// For which hosts browsers remember to use HTTPS only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HstsScope {
    /// The one of the request.
    Host,
    /// All below it, too.
    Subdomains,
}

/// Changes to a header. What is removed is removed first. Names are in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Fields that are replaced, or added.
    pub set: BTreeMap<String, String>,
    /// Fields that are removed.
    pub remove: BTreeSet<String>,
}

/// Who may use a route.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// What a browser shows when it asks for the password.
    pub realm: String,
    /// Users and their passwords.
    pub users: BTreeMap<String, PasswordHash>,
}

/// A password by PBKDF2 with HMAC-SHA-256.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    /// The salt.
    pub salt: Vec<u8>,
    /// How many rounds.
    pub iterations: u32,
    /// The result.
    pub hash: [u8; 32],
}

/// A range of addresses that begins at a multiple of its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceRange {
    address: IpAddr,
    length: u8,
}

/// Why a text is no range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a range of addresses: write `10.0.0.0/8`, `2001:db8::/32` or one address")]
pub struct InvalidSourceRange {
    text: String,
}

/// The instances of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeService {
    /// Those that are ready, and those that leave and may still have something to finish.
    pub endpoints: BTreeMap<InstanceId, EdgeEndpoint>,
    /// How long an instance that leaves is waited for.
    pub drain: Millis,
}

/// An instance that is reached at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeEndpoint {
    /// Its address, in a network of the cluster.
    pub address: Ipv4Addr,
    /// The revision whose spec it runs.
    pub revision: Revision,
    /// How far it is.
    pub locality: Locality,
    /// Whether it gets anything new.
    pub readiness: EndpointReadiness,
}

/// How far an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locality {
    /// In the site of the edge.
    Here,
    /// In another site.
    Elsewhere,
}

/// Whether an instance gets anything new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointReadiness {
    /// It does.
    Ready,
    /// It finishes what it has, within the drain time of its service.
    Leaving,
}

impl Domain {
    /// # Errors
    /// If it is no host name in lower case, with or without `*.` before it.
    pub fn new(text: &str) -> Result<Self, InvalidRouteKey> {
        let host = text.strip_prefix("*.").unwrap_or(text);
        if host.len() <= 253 && host.split('.').all(is_label) && host.parse::<IpAddr>().is_err() {
            return Ok(Self(text.into()));
        }
        let rule = "use a host name in lower case, or `*.` and one";
        Err(InvalidRouteKey { kind: "domain", text: text.to_owned(), rule })
    }

    /// The domain as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What follows `*.`, if it is a wildcard.
    pub fn wildcard_base(&self) -> Option<&str> {
        self.0.strip_prefix("*.")
    }

    /// Whether it is for a host, which is in lower case and without port.
    pub fn matches(&self, host: &str) -> bool {
        match self.wildcard_base() {
            None => *self.0 == *host,
            Some(base) => host
                .split_once('.')
                .is_some_and(|(label, rest)| !label.is_empty() && label != "*" && rest == base),
        }
    }
}

impl PathPrefix {
    /// The path; a `/` at its end is dropped.
    ///
    /// # Errors
    /// If it does not begin with `/`, or has something that no path of a request has once it is normalised: a query,
    /// `.` and `..` as segments, two `/` in a row, percent signs, characters that are not printable ASCII.
    pub fn new(text: &str) -> Result<Self, InvalidRouteKey> {
        let trimmed = text.strip_suffix('/').unwrap_or(text);
        let mut segments = trimmed.split('/');
        let rooted = text.starts_with('/') && segments.next() == Some("");
        let is_segment = |segment: &str| {
            let allowed = |c: char| c.is_ascii_graphic() && !"?#%\\\"<>^`{|}".contains(c);
            !matches!(segment, "" | "." | "..") && segment.chars().all(allowed)
        };
        if rooted && text.len() <= 1024 && segments.all(is_segment) {
            return Ok(Self(if trimmed.is_empty() { "/".into() } else { trimmed.into() }));
        }
        let rule =
            "begin with `/`, and use whole segments of printable ASCII without `?`, `#` and `%`";
        Err(InvalidRouteKey { kind: "path", text: text.to_owned(), rule })
    }

    /// The path of everything.
    pub fn root() -> Self {
        Self("/".into())
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is for a path.
    pub fn matches(&self, path: &str) -> bool {
        *self.0 == *"/"
            || path
                .strip_prefix(&*self.0)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Route {
    /// A route to a service, without anything else.
    pub fn to(service: ServiceKey, port: u16) -> Self {
        let upstream = Upstream {
            target: Target { service, port },
            protocol: UpstreamProtocol::Http,
            path: PathHandling::Keep,
            timeout: None,
            sticky: None,
            weights: BTreeMap::new(),
        };
        Self::with(Action::Forward(upstream))
    }

    /// A route that does this, without anything else.
    pub fn with(action: Action) -> Self {
        Self {
            action,
            tls: TlsMode::Off,
            hsts: None,
            body_max: None,
            request_headers: HeaderEdits::default(),
            response_headers: HeaderEdits::default(),
            basic_auth: None,
            allowed_sources: BTreeSet::new(),
        }
    }
}

impl SourceRange {
    /// The range of this first address and length of prefix, in bits.
    ///
    /// # Errors
    /// If the prefix is longer than the address, or the address is not the first of such a range.
    pub fn new(address: IpAddr, length: u8) -> Result<Self, InvalidSourceRange> {
        let range = Self { address, length };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if length <= bits && range.masked(address) == to_bits(address) {
            Ok(range)
        } else {
            Err(InvalidSourceRange { text: format!("{address}/{length}") })
        }
    }

    /// Whether an address is in it. An IPv4 address in the clothes of IPv6 is the IPv4 address.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.address.is_ipv4() == address.is_ipv4() && self.masked(address) == to_bits(self.address)
    }

    fn masked(self, address: IpAddr) -> u128 {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let host = u32::from(bits - self.length.min(bits));
        to_bits(address).checked_shr(host).unwrap_or(0).checked_shl(host).unwrap_or(0)
    }
}

impl FromStr for SourceRange {
    type Err = InvalidSourceRange;

    fn from_str(text: &str) -> Result<Self, InvalidSourceRange> {
        let invalid = || InvalidSourceRange { text: text.to_owned() };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(whole), str::parse).map_err(|_| invalid())?;
        Self::new(address, length)
    }
}

impl fmt::Display for SourceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.domain, self.path)
    }
}

/// Whoever prints a plan sees no password, not even hashed.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordHash").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users: Vec<&String> = self.users.keys().collect();
        f.debug_struct("BasicAuth").field("realm", &self.realm).field("users", &users).finish()
    }
}

fn is_label(label: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    (1..=63).contains(&label.len())
        && label.chars().all(allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(text: &str) -> Domain {
        Domain::new(text).unwrap()
    }

    #[test]
    fn domains_are_exact_or_one_label_below() {
        assert!(domain("a.example").matches("a.example"));
        assert!(!domain("a.example").matches("b.a.example"));
        assert!(domain("*.example").matches("a.example"));
        for host in ["example", "b.a.example", ".example", "*.example"] {
            assert!(!domain("*.example").matches(host), "{host}");
        }
        for text in ["", "A.example", "a..b", "*", "*.", "a.*.b", "-a", "10.0.0.1", "a b", "[::1]"]
        {
            assert!(Domain::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_are_prefixes_by_segment() {
        let api = PathPrefix::new("/api/").unwrap();
        assert_eq!(api.as_str(), "/api");
        assert!(api.matches("/api") && api.matches("/api/") && api.matches("/api/x"));
        assert!(!api.matches("/apis") && !api.matches("/"));
        assert!(PathPrefix::new("/").unwrap().matches("/anything"));
        for text in ["", "api", "//", "/a//b", "/a/..", "/a?b", "/%61", "/a b", "/ü"] {
            assert!(PathPrefix::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_begin_at_a_multiple_of_their_size() {
        let range = |text: &str| text.parse::<SourceRange>().unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(range("10.0.0.0/8").contains(address("10.255.0.1")));
        assert!(range("10.0.0.0/8").contains(address("::ffff:10.1.2.3")));
        assert!(!range("10.0.0.0/8").contains(address("11.0.0.0")));
        assert!(range("0.0.0.0/0").contains(address("1.2.3.4")));
        assert!(!range("0.0.0.0/0").contains(address("2001:db8::1")));
        assert!(range("::/0").contains(address("2001:db8::1")));
        assert!(range("2001:db8::/32").contains(address("2001:db8:1::1")));
        assert!(range("192.0.2.1").contains(address("192.0.2.1")));
        for text in ["10.0.0.1/8", "10.0.0.0/33", "2001:db8::/129", "x", "1.2.3.4/", "1.2.3.4/a"] {
            assert!(text.parse::<SourceRange>().is_err(), "{text}");
        }
    }
}

//! Answers a request: what may be answered here is, what is wrong is refused by name, the rest goes to an instance.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::{Body, Incoming};
use hyper::ext::Protocol;
use hyper::upgrade::OnUpgrade;
use jaco_types::route::{RouteProtocol, RouteTls, SessionAffinity};

use super::connection::{Active, Connection, Decision};
use super::forward::{Job, Kind, Lease, Reply, forward};
use super::headers::{
    client_of, cookie, has_token, join_cookies, set_forwarded, strip_hop_by_hop, strip_lookalikes,
    wants_websocket,
};
use super::log::Line;
use super::span::OpenSpan;
use super::tunnel::{self, Asked};
use crate::auth::Guard;
use crate::backend::Backend;
use crate::body::{Answer, AtEnd, BodyLimits, End, Outgoing};
use crate::refusal::Refusal;
use crate::view::{ReadyAction, RouteEntry, View, contains};
use crate::wire::host::normalize_host;
use crate::wire::path::{NormalPath, is_readable, normalize_path};

const REASON: HeaderName = HeaderName::from_static("x-jaco-reason");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The cookie of routes with affinity: it names an instance.
const STICKY: &str = "jaco-instance";
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// A request on its way through.
struct Exchange {
    connection: Arc<Connection>,
    began: Instant,
    active: Active,
    line: Option<Box<Line>>,
    span: Option<Box<OpenSpan>>,
    route: Option<Arc<RouteEntry>>,
}

/// What a request is answered with.
enum Outcome {
    /// By the edge.
    Own(Response<Answer>),
    /// By an instance.
    Forwarded(Response<Incoming>, Lease),
}

/// Who answers a challenge.
enum Challenged {
    /// The edge, with this.
    Answered(String),
    /// The service behind the route.
    ByService,
}

/// Whether the challenges of a host are its services' own: the cluster orders no certificate for it.
fn is_service(view: &View, host: &str) -> bool {
    let mut routes = view.routes.of_host(host).map(|(_, route)| &route.spec().tls).peekable();
    routes.peek().is_some() && routes.all(|tls| *tls != RouteTls::Auto)
}

/// Answers a request.
pub(super) async fn handle(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let active = connection.begin();
    let version = request.version();
    let may_change = version != Version::HTTP_2 && request.headers().contains_key(header::UPGRADE);
    let mut exchange =
        Exchange { connection, began: Instant::now(), active, line: None, span: None, route: None };
    let outcome = exchange.answer(request).await;
    let connection = Arc::clone(&exchange.connection);
    let is_lost = outcome.as_ref().is_err_and(|refusal| refusal.ends_connection());
    let mut response = exchange.finish(outcome);
    if may_change {
        let changes = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        connection.decide(if changes { Decision::Changes } else { Decision::Stays });
    }
    let is_last = is_lost || connection.shared.draining.is_cancelled();
    if is_last && version != Version::HTTP_2 && response.status() != StatusCode::SWITCHING_PROTOCOLS
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

impl Exchange {
    async fn answer(&mut self, request: Request<Incoming>) -> Result<Outcome, Refusal> {
        let is_stand_in = request.uri().scheme().is_none() && request.uri().authority().is_some();
        if is_stand_in && request.version() != Version::HTTP_2 {
            let fault = self.connection.fault();
            return Err(fault.map_or(Refusal::MalformedRequest, Refusal::from));
        }
        let host = host_of(&request)?.into_owned();
        let uri = request.uri().clone();
        let path = normalize_path(uri.path());
        let line = (request.method(), request.version());
        self.line = Line::begin(&self.connection, line, (&host, uri.path()));
        self.span = OpenSpan::begin(&self.connection, request.method(), request.headers());
        let asked = asked(&request)?;
        if !is_readable(uri.path()) || has_many(&request, &header::CONTENT_LENGTH) {
            return Err(Refusal::MalformedRequest);
        }
        if let Some(named) = &self.connection.tls_host
            && *named != host
        {
            return Err(Refusal::MisdirectedRequest);
        }
        if let Some(answer) = self.challenge(&host, &path).await? {
            return Ok(Outcome::Own(answer));
        }
        let view = self.connection.shared.view.load_full();
        let route = view.routes.find(&host, &path.key).ok_or(Refusal::NoRoute)?;
        let mut other_routes =
            path.other_readings().filter_map(|path| view.routes.find(&host, &path));
        if other_routes.any(|other| other.key != route.key) {
            return Err(Refusal::MalformedRequest);
        }
        self.route = Some(Arc::clone(route));
        if let Some(line) = &mut self.line {
            line.route(&route.key);
        }
        if let Some(span) = &mut self.span {
            span.route(&route.key);
        }
        if let Some(redirect) = self.redirect_to_tls(&view, route, &request, &host)? {
            return Ok(Outcome::Own(redirect));
        }
        self.admit(route, &request).await?;
        match &route.action {
            ReadyAction::Redirect { location, append, status } => {
                let rest = append.then(|| path.after(route.key.path.prefix()));
                let location = redirect_location(location, rest, uri.query());
                Ok(Outcome::Own(redirect(*status, &location)))
            }
            ReadyAction::Forward { backend, strip } => {
                let path = if *strip {
                    path.after(route.key.path.prefix())
                } else {
                    Cow::Borrowed(&*path.forwarded)
                };
                self.forward(route, backend, request, (&host, &path), asked).await
            }
        }
    }

    /// The answer to a challenge of a CA, which comes in clear: as soon as this edge knows it.
    async fn challenge(
        &self,
        host: &str,
        path: &NormalPath<'_>,
    ) -> Result<Option<Response<Answer>>, Refusal> {
        let token = path.key.strip_prefix(CHALLENGES);
        let Some(token) = token.filter(|_| self.connection.tls_host.is_none()) else {
            return Ok(None);
        };
        let look = |view: &View| {
            let answer = view.challenges.get(token).cloned().map(Challenged::Answered);
            answer.or_else(|| is_service(view, host).then_some(Challenged::ByService))
        };
        let awaited = &self.connection.shared.awaited;
        match awaited.find(self.connection.client.ip(), look).await {
            Some(Challenged::Answered(authorization)) => {
                let mut response = Response::new(Answer::Own(Some(authorization.into())));
                let text = HeaderValue::from_static("text/plain");
                response.headers_mut().insert(header::CONTENT_TYPE, text);
                Ok(Some(response))
            }
            Some(Challenged::ByService) => Ok(None),
            None => Err(Refusal::UnknownChallenge),
        }
    }

    /// Nothing that has to be encrypted is served in clear.
    fn redirect_to_tls(
        &self,
        view: &View,
        route: &RouteEntry,
        request: &Request<Incoming>,
        host: &str,
    ) -> Result<Option<Response<Answer>>, Refusal> {
        if self.connection.tls_host.is_some() || route.spec().tls == RouteTls::Off {
            return Ok(None);
        }
        let said = request.headers().get(FORWARDED_PROTO);
        let is_said = said.is_some_and(|said| said.as_bytes().eq_ignore_ascii_case(b"https"));
        if is_said && view.trusts(self.connection.client.ip()) {
            return Ok(None);
        }
        if view.certificate_of(route).is_none() {
            return Err(Refusal::CertificateMissing);
        }
        let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let location = format!("https://{host}{target}");
        Ok(Some(redirect(StatusCode::PERMANENT_REDIRECT, &location)))
    }

    /// Whether the client may use the route for this.
    async fn admit(
        &mut self,
        route: &RouteEntry,
        request: &Request<Incoming>,
    ) -> Result<(), Refusal> {
        let ranges = route.spec().sources.as_set();
        if !ranges.is_empty() || self.line.is_some() {
            let client = client_of(&self.connection, request.headers());
            if let Some(line) = &mut self.line {
                line.client(client);
            }
            if !ranges.is_empty() && !contains(ranges, client) {
                return Err(Refusal::SourceNotAllowed);
            }
        }
        if let Some(guard) = &route.guard
            && !guard.admits(request.headers()).await
        {
            return Err(Refusal::Unauthorized);
        }
        let announced = request.body().size_hint().lower();
        match route.spec().body_max {
            Some(most) if announced > most.size().0 => Err(Refusal::BodyTooLarge),
            Some(_) | None => Ok(()),
        }
    }

    async fn forward(
        &mut self,
        route: &Arc<RouteEntry>,
        backend: &Backend,
        mut request: Request<Incoming>,
        target: (&str, &str),
        asked: Option<Asked>,
    ) -> Result<Outcome, Refusal> {
        let Some(upstream) = route.spec().upstream() else { return Err(Refusal::NoRoute) };
        let shared = Arc::clone(&self.connection.shared);
        let client = asked.map(|asked| (asked, hyper::upgrade::on(&mut request)));
        let (mut parts, incoming) = request.into_parts();
        let is_sticky = upstream.affinity == SessionAffinity::Cookie;
        let sticky = if is_sticky { sticky_of(&parts) } else { None };
        let is_http2 = upstream.protocol == RouteProtocol::H2c && asked.is_none();
        self.prepare(
            route,
            &mut parts,
            target,
            if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 },
        )?;
        let kind = match &client {
            Some((asked, _)) => {
                tunnel::prepare(*asked, &mut parts);
                Kind::Upgrade
            }
            None => Kind::Plain,
        };
        let limits = shared.options.limits;
        let progress = Arc::default();
        let bounds = BodyLimits {
            bytes_max: route.spec().body_max.map(|most| most.size().0),
            idle: limits.body_idle,
        };
        let body = match kind {
            Kind::Plain => Outgoing::new(incoming, bounds, &progress),
            Kind::Upgrade => Outgoing::Empty,
        };
        let timeout = upstream.timeout.map(|timeout| Duration::from_millis(timeout.length().0));
        let job = Job {
            backend,
            counters: &route.counters,
            parts,
            kind,
            sticky,
            timeout: timeout.unwrap_or(limits.response_timeout),
        };
        let mut reply = forward(&shared, job, body, &progress).await?;
        if let Some(line) = &mut self.line {
            line.instance(&reply.lease.upstream.instance.id);
        }
        if let Some(span) = &mut self.span {
            span.instance(&reply.lease.upstream.instance.id);
        }
        if is_sticky && sticky != Some(reply.lease.upstream.sticky) {
            let is_secure = self.connection.tls_host.is_some();
            set_sticky(&mut reply.response, reply.lease.upstream.sticky, is_secure);
        }
        conclude(&self.connection, client, reply)
    }

    /// Makes a request one to an instance.
    fn prepare(
        &self,
        route: &RouteEntry,
        parts: &mut Parts,
        target: (&str, &str),
        version: Version,
    ) -> Result<(), Refusal> {
        let (host, path) = target;
        let headers = &mut parts.headers;
        let wants_trailers = has_token(headers, &header::TE, "trailers");
        strip_hop_by_hop(headers);
        strip_lookalikes(headers);
        // The edge itself asks for the body, once it reads the first byte.
        headers.remove(header::EXPECT);
        let authority = match parts.uri.authority() {
            Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
            None => headers.get(header::HOST).cloned(),
        };
        let authority = authority.or_else(|| HeaderValue::from_str(host).ok());
        let authority = authority.ok_or(Refusal::InvalidHost)?;
        join_cookies(headers);
        set_forwarded(&self.connection, headers, &authority);
        if let Some(span) = &self.span {
            span.propagate(headers);
        }
        headers.insert(header::HOST, authority);
        route.request_headers.apply(headers);
        let target = match parts.uri.query() {
            Some(query) => Cow::Owned(format!("{path}?{query}")),
            None => Cow::Borrowed(path),
        };
        let target: PathAndQuery = target.parse().map_err(|_| Refusal::MalformedRequest)?;
        parts.uri = if version == Version::HTTP_2 {
            if wants_trailers {
                headers.insert(header::TE, HeaderValue::from_static("trailers"));
            }
            let authority = headers.remove(header::HOST).ok_or(Refusal::InvalidHost)?;
            let uri = Uri::builder().scheme("http").authority(authority.as_bytes());
            uri.path_and_query(target).build().map_err(|_| Refusal::InvalidHost)?
        } else {
            Uri::from(target)
        };
        parts.version = version;
        Ok(())
    }

    /// The response for the client.
    fn finish(mut self, outcome: Result<Outcome, Refusal>) -> Response<Answer> {
        let reason = outcome.as_ref().err().map(|refusal| refusal.reason());
        let (mut response, lease) = match outcome {
            Ok(Outcome::Own(response)) => (response, None),
            Ok(Outcome::Forwarded(response, lease)) => {
                let (parts, incoming) = response.into_parts();
                (Response::from_parts(parts, Answer::Own(None)), Some((incoming, lease)))
            }
            Err(refusal) => (self.refusal(refusal), None),
        };
        if let Some(route) = &self.route {
            route.response_headers.apply(response.headers_mut());
            if let (Some(hsts), true) = (&route.hsts, self.connection.tls_host.is_some()) {
                let name = header::STRICT_TRANSPORT_SECURITY;
                response.headers_mut().insert(name, hsts.clone());
            }
            route.counters.answered(response.status(), self.began.elapsed());
            if reason.is_some() {
                route.counters.refused(response.status());
            }
        }
        if let Some(line) = &mut self.line {
            line.head(response.status(), reason);
        }
        if let Some(span) = &mut self.span {
            span.head(response.status(), reason);
        }
        self.active.answered();
        let Some((incoming, lease)) = lease else {
            if let Some(line) = self.line.take() {
                line.end(response.body().size_hint().lower(), End::Complete);
            }
            if let Some(span) = self.span.take() {
                span.end(End::Complete);
            }
            return response;
        };
        let released = is_event_stream(&response).then(|| lease.in_flight.released());
        let (line, span) = (self.line.take(), self.span.take());
        let closing = Closing { lease, line, span, active: self.active };
        let answer = Answer::forwarded(incoming, Box::new(closing));
        response.map(|_| match released {
            Some(released) => answer.until(released),
            None => answer,
        })
    }

    fn refusal(&self, refusal: Refusal) -> Response<Answer> {
        let text = format!("{}: {}\n", refusal.reason(), refusal.meaning());
        let mut response = Response::new(Answer::Own(Some(text.into())));
        *response.status_mut() = refusal.status();
        let headers = response.headers_mut();
        headers.insert(REASON, HeaderValue::from_static(refusal.reason()));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if refusal == Refusal::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, Guard::challenge());
        }
        response
    }
}

/// What is left to do at the end of a response of an instance.
struct Closing {
    lease: Lease,
    line: Option<Box<Line>>,
    span: Option<Box<OpenSpan>>,
    active: Active,
}

impl AtEnd for Closing {
    fn ended(self: Box<Self>, bytes: u64, end: End) {
        let Self { lease, line, span, active } = *self;
        if end == End::Complete {
            lease.complete();
        }
        if let Some(line) = line {
            line.end(bytes, end);
        }
        if let Some(span) = span {
            span.end(end);
        }
        drop(active);
    }
}

/// The answer of an instance: another protocol, if that was asked for, or a response.
fn conclude(
    connection: &Arc<Connection>,
    client: Option<(Asked, OnUpgrade)>,
    mut reply: Reply,
) -> Result<Outcome, Refusal> {
    match client {
        Some((asked, client)) if tunnel::is_agreed(&reply.response) => {
            Ok(Outcome::Own(tunnel::join(connection, asked, client, reply)))
        }
        // For a client of HTTP/2 any success would mean that the WebSocket is there.
        Some((Asked::Http2, _)) if reply.response.status().is_success() => {
            Err(Refusal::UpstreamInvalid)
        }
        Some(_) | None if reply.response.status().is_informational() => {
            Err(Refusal::UpstreamInvalid)
        }
        Some(_) | None => {
            let headers = reply.response.headers_mut();
            if headers.contains_key(header::TRANSFER_ENCODING) {
                headers.remove(header::CONTENT_LENGTH);
            }
            strip_hop_by_hop(headers);
            Ok(Outcome::Forwarded(reply.response, reply.lease))
        }
    }
}

/// Whether a field is there twice, which the head of HTTP/1 is refused for before.
fn has_many(request: &Request<Incoming>, name: &HeaderName) -> bool {
    request.headers().get_all(name).iter().nth(1).is_some()
}

/// The host that a request is for.
fn host_of(request: &Request<Incoming>) -> Result<Cow<'_, str>, Refusal> {
    if has_many(request, &header::HOST) {
        return Err(Refusal::InvalidHost);
    }
    let named = request.headers().get(header::HOST);
    let named = named.map(HeaderValue::to_str).transpose().map_err(|_| Refusal::InvalidHost)?;
    let in_target = request.uri().authority().map(|authority| authority.as_str());
    let normal = |host: &'_ str| normalize_host(host).map(Cow::into_owned);
    let host = match (in_target, named) {
        (Some(target), Some(named)) if normal(target) != normal(named) => None,
        (Some(host), _) | (None, Some(host)) => normalize_host(host),
        (None, None) => None,
    };
    host.ok_or(Refusal::InvalidHost)
}

/// Whether a request asks for a WebSocket, and how.
fn asked(request: &Request<Incoming>) -> Result<Option<Asked>, Refusal> {
    let path_is_rooted = request.uri().path().starts_with('/');
    if *request.method() == Method::CONNECT {
        let protocol = request.extensions().get::<Protocol>();
        let is_websocket = protocol.is_some_and(|protocol| protocol.as_str() == "websocket");
        let is_fine = is_websocket && path_is_rooted;
        return if is_fine { Ok(Some(Asked::Http2)) } else { Err(Refusal::MethodNotSupported) };
    }
    if *request.method() == Method::TRACE || !is_common(request.method()) || !path_is_rooted {
        return Err(Refusal::MethodNotSupported);
    }
    let is_websocket = request.version() == Version::HTTP_11
        && *request.method() == Method::GET
        && request.body().is_end_stream()
        && wants_websocket(request.headers());
    Ok(is_websocket.then_some(Asked::Http1))
}

/// Whether a method is written as all that there are: some servers take `get` for `GET`, and others for no HTTP.
fn is_common(method: &Method) -> bool {
    method.as_str().bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_'))
}

/// The instance that a cookie names.
fn sticky_of(parts: &Parts) -> Option<u64> {
    cookie(&parts.headers, STICKY).and_then(|value| u64::from_str_radix(value, 16).ok())
}

fn set_sticky(response: &mut Response<Incoming>, sticky: u64, is_secure: bool) {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{STICKY}={sticky:016x}; Path=/; HttpOnly; SameSite=Lax{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

fn is_event_stream(response: &Response<Answer>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

fn redirect(status: StatusCode, location: &str) -> Response<Answer> {
    let mut response = Response::new(Answer::empty());
    *response.status_mut() = status;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The location of a redirect with the rest of the path and the query.
fn redirect_location(location: &str, rest: Option<Cow<'_, str>>, query: Option<&str>) -> String {
    let Some(rest) = rest else { return location.to_owned() };
    let mut whole = format!("{}{rest}", location.trim_end_matches('/'));
    if let Some(query) = query {
        whole.push('?');
        whole.push_str(query);
    }
    whole
}

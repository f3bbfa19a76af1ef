//! `routes` and `acme`.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use jaco_types::route::{
    AllowedSources, AllowedUsers, BodyLimit, DEPLOYMENT_ROUTES_MAX, ForwardedPath, HeaderName,
    HeaderRules, HeaderValue, HstsAge, IpRange, PasswordHash, Redirect, RedirectRest,
    RedirectStatus, RedirectTarget, RouteAction, RouteDomain, RouteHeaders, RoutePath,
    RouteProtocol, RouteTimeout, RouteTls, SessionAffinity, Upstream, UserName,
};
use jaco_types::unit::Bytes;
use jaco_types::{CertificateName, InvalidName, Route, RouteKey, ServiceName};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::overlay::types::{Acme, RouteOverlay};
use crate::overlay::value::millis;
use crate::yaml::node::{Map, Node, Value};

/// `on` and `off` are texts in YAML 1.2 and truth values in 1.1; both are meant.
pub(crate) fn acme(node: Option<&Node>, report: &mut Report) -> Acme {
    let Some(node) = node else {
        return Acme::On;
    };
    match (&node.value, node.as_str().map(str::to_ascii_lowercase).as_deref()) {
        (Value::Bool(true) | Value::Null, _) | (_, Some("on" | "")) => Acme::On,
        (Value::Bool(false), _) | (_, Some("off")) => Acme::Off,
        _ => {
            report
                .error(node.pos, Code::ValidationFailed, "`acme` must be `on` or `off`")
                .expected("`on` or `off`");
            Acme::On
        }
    }
}

/// The route at `index` of the list; `None` where a problem was reported that leaves none.
pub(crate) fn route(
    node: &Node,
    index: usize,
    acme: Acme,
    report: &mut Report,
) -> Option<RouteOverlay> {
    // Everything is read before anything is missed, so that all problems are told.
    let domain = domain(node.get("domain"), report);
    let path = value(node.get("path"), report, RoutePath::parse);
    let action = action(node, index, report);
    let route = action.map(|action| Route {
        tls: tls(node.get("tls"), acme, report),
        hsts: node.get("hsts").and_then(|node| hsts(node, report)),
        body_max: node.get("body_max").and_then(|node| body_max(node, report)),
        headers: headers(node.get("headers"), report),
        users: users(node.get("basic_auth"), report),
        sources: sources(node.get("allow_from"), report),
        ..Route::new(action)
    });
    if node.get("path").is_some() && path.is_none() {
        return None;
    }
    let key = RouteKey { domain: domain?, path: path.unwrap_or_default() };
    let route = route?;
    if let Err(problem) = route.check(&key) {
        let message = format!("the route of `{key}` cannot be: {problem}");
        report.error(node.pos, Code::ValidationFailed, message).suggest(problem.advice());
    }
    Some(RouteOverlay { key, route, pos: node.pos })
}

fn domain(node: Option<&Node>, report: &mut Report) -> Option<RouteDomain> {
    let node = node?;
    let text = node.as_str()?.to_ascii_lowercase();
    if text.is_empty() {
        report.error(node.pos, Code::ValidationFailed, "the route has no domain");
        return None;
    }
    read(RouteDomain::new(&text), node.pos, report)
}

/// What answers: a service with its port, or a redirect.
fn action(node: &Node, index: usize, report: &mut Report) -> Option<RouteAction> {
    let port = node.get("port").and_then(|node| port(node, report));
    let Some(redirect) = node.get("redirect") else {
        return upstream(node, index, port, report).map(RouteAction::Forward);
    };
    let of_services = ["port", "protocol", "service", "sticky", "strip_path", "timeout"];
    let map = node.as_map()?;
    for entry in of_services.iter().filter_map(|key| map.entry(key)) {
        let message =
            format!("a route with `redirect` goes to no service, so it has no `{}`", entry.key);
        report.error(entry.key_pos, Code::ValidationFailed, message);
    }
    self::redirect(redirect, report).map(RouteAction::Redirect)
}

fn port(node: &Node, report: &mut Report) -> Option<NonZeroU16> {
    let number = node.as_int().and_then(|number| u16::try_from(number).ok());
    let number = number.and_then(NonZeroU16::new);
    if number.is_none() {
        let message = "the port of the route is not a valid port number";
        report
            .error(node.pos, Code::ValidationFailed, message)
            .expected("a number from 1 to 65535");
    }
    number
}

fn upstream(
    node: &Node,
    index: usize,
    port: Option<NonZeroU16>,
    report: &mut Report,
) -> Option<Upstream> {
    for key in ["port", "service"].into_iter().filter(|key| node.get(key).is_none()) {
        let message = format!("`routes[{index}]` has no `{key}`");
        report.error(node.pos, Code::MissingKey, message);
    }
    let service = node.get("service").and_then(|service| {
        if service.as_str() == Some("") {
            report.error(service.pos, Code::ValidationFailed, "the route has no service");
            return None;
        }
        value(Some(service), report, ServiceName::new)
    });
    let timeout = node.get("timeout").and_then(|node| {
        let timeout = RouteTimeout::new(millis(node)?);
        read(timeout, node.pos, report)
    });
    let strips = node.get("strip_path").and_then(Node::as_bool) == Some(true);
    let sticky = node.get_str("sticky") == Some("cookie");
    Some(Upstream {
        forwarded_path: if strips { ForwardedPath::Rest } else { ForwardedPath::Whole },
        protocol: node.get_str("protocol").and_then(RouteProtocol::parse).unwrap_or_default(),
        affinity: if sticky { SessionAffinity::Cookie } else { SessionAffinity::None },
        timeout,
        ..Upstream::new(service?, port?)
    })
}

fn redirect(node: &Node, report: &mut Report) -> Option<Redirect> {
    let status = match node.get("status") {
        None => RedirectStatus::default(),
        Some(status) => {
            let number = status.as_int().and_then(|number| u16::try_from(number).ok());
            let known = number.and_then(RedirectStatus::from_number);
            if known.is_none() {
                let message = "the status of the redirect is none of a redirect";
                report
                    .error(status.pos, Code::InvalidValue, message)
                    .expected("301, 302, 307 or 308");
            }
            known?
        }
    };
    let rest = match node.get_str("rest") {
        Some("drop") => RedirectRest::Drop,
        Some(_) | None => RedirectRest::Append,
    };
    Some(Redirect { to: value(node.get("to"), report, RedirectTarget::new)?, rest, status })
}

fn tls(node: Option<&Node>, acme: Acme, report: &mut Report) -> RouteTls {
    let default = if acme == Acme::Off { RouteTls::Off } else { RouteTls::Auto };
    let Some(node) = node else { return default };
    match (&node.value, node.as_str()) {
        (Value::Bool(false), _) | (_, Some("off")) => RouteTls::Off,
        (_, Some("auto")) => RouteTls::Auto,
        (_, Some(name)) if name != "on" => {
            let named = read(CertificateName::new(name), node.pos, report);
            named.map_or(default, RouteTls::Certificate)
        }
        _ => {
            let message = "`tls` must be `auto`, `off` or the name of a certificate";
            report
                .error(node.pos, Code::ValidationFailed, message)
                .expected("`auto`, `off`, or a name that `jaco certificate ls` shows");
            default
        }
    }
}

fn hsts(node: &Node, report: &mut Report) -> Option<HstsAge> {
    let secs = u32::try_from(millis(node)?.0 / 1000).unwrap_or(u32::MAX);
    read(HstsAge::new(secs), node.pos, report)
}

fn body_max(node: &Node, report: &mut Report) -> Option<BodyLimit> {
    // Compose's -1 is without a limit, which is the default.
    let bytes = node.as_str()?.parse().ok()?;
    read(BodyLimit::new(Bytes(bytes)), node.pos, report)
}

fn headers(node: Option<&Node>, report: &mut Report) -> RouteHeaders {
    let mut rules = |key: &str| {
        let node = node.and_then(|node| node.get(key));
        node.and_then(|node| header_rules(node, report)).unwrap_or_default()
    };
    RouteHeaders { request: rules("request"), response: rules("response") }
}

fn header_rules(node: &Node, report: &mut Report) -> Option<HeaderRules> {
    let mut set = BTreeMap::new();
    for entry in node.get("set").and_then(Node::as_map).into_iter().flat_map(Map::iter) {
        let name = read(HeaderName::parse(&entry.key), entry.key_pos, report);
        let value = value(Some(&entry.node), report, HeaderValue::new);
        let Some((name, value)) = name.zip(value) else { continue };
        if set.insert(name, value).is_some() {
            let message = format!("the header `{}` is set twice", entry.key);
            report.error(entry.key_pos, Code::DuplicateValue, message);
        }
    }
    let names = node.get("remove").and_then(Node::as_seq).unwrap_or_default();
    let remove = names.iter().filter_map(|name| value(Some(name), report, HeaderName::parse));
    let remove: BTreeSet<HeaderName> = remove.collect();
    read(HeaderRules::new(set, remove), node.pos, report)
}

fn users(node: Option<&Node>, report: &mut Report) -> AllowedUsers {
    let Some(node) = node else { return AllowedUsers::default() };
    let mut users = BTreeMap::new();
    for entry in node.as_map().into_iter().flat_map(Map::iter) {
        let name = read(UserName::new(&entry.key), entry.key_pos, report);
        let hash = value(Some(&entry.node), report, PasswordHash::parse);
        users.extend(name.zip(hash));
    }
    read(AllowedUsers::new(users), node.pos, report).unwrap_or_default()
}

fn sources(node: Option<&Node>, report: &mut Report) -> AllowedSources {
    let Some(node) = node else { return AllowedSources::default() };
    let items = node.as_seq().unwrap_or_default();
    let ranges = items.iter().filter_map(|item| value(Some(item), report, str::parse::<IpRange>));
    let ranges: BTreeSet<IpRange> = ranges.collect();
    read(AllowedSources::new(ranges), node.pos, report).unwrap_or_default()
}

/// Reads a text; what is no text was reported when the tree was checked.
fn value<T>(
    node: Option<&Node>,
    report: &mut Report,
    parse: impl Fn(&str) -> Result<T, InvalidName>,
) -> Option<T> {
    let node = node?;
    read(parse(node.as_str()?), node.pos, report)
}

/// Takes a value, or reports at its place which rule it breaks.
fn read<T>(result: Result<T, InvalidName>, pos: Pos, report: &mut Report) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(InvalidName { kind, text, rule }) => {
            let message = format!("`{text}` cannot be the {kind}");
            report.error(pos, Code::ValidationFailed, message).suggest(rule);
            None
        }
    }
}

/// The rules about several routes; `list` is the node of all.
pub(crate) fn check_routes(list: Option<&Node>, routes: &[RouteOverlay], report: &mut Report) {
    if let Some(list) = list.filter(|_| routes.len() > DEPLOYMENT_ROUTES_MAX) {
        let message = format!("the deployment has {} routes", routes.len());
        report
            .error(list.pos, Code::TooLarge, message)
            .expected(format!("at most {DEPLOYMENT_ROUTES_MAX}"));
    }
    let mut tls: BTreeMap<&RouteDomain, &RouteTls> = BTreeMap::new();
    let mut seen: BTreeSet<&RouteKey> = BTreeSet::new();
    for RouteOverlay { key, route, pos } in routes {
        let RouteKey { domain, path } = key;
        let first = *tls.entry(domain).or_insert(&route.tls);
        if *first != route.tls {
            let message =
                format!("the routes of `{domain}` set `tls` to both {}", both(first, &route.tls));
            report.error(*pos, Code::RouteTlsMixed, message);
        }
        if seen.insert(key) {
            continue;
        }
        if path.is_whole() {
            let message = format!("`{domain}` has a second route without a `path`");
            report.error(*pos, Code::RouteMultipleCatchall, message);
        } else {
            let message = format!("`{domain}` has two routes for `{path}`");
            report.error(*pos, Code::ValidationFailed, message);
        }
    }
}

/// Two values in an order that does not depend on that of the routes.
fn both(one: &RouteTls, other: &RouteTls) -> String {
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    format!("`{first}` and `{second}`")
}

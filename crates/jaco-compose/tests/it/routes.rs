//! Routes of jaco.yaml: what every key becomes, and how mistakes are told at their place.

use expect_test::{Expect, expect};
use jaco_types::route::{
    BodyLimit, DrainTime, ForwardedPath, HstsAge, RedirectRest, RedirectStatus, RouteAction,
    RouteProtocol, RouteTimeout, RouteTls, SessionAffinity,
};
use jaco_types::unit::Bytes;
use jaco_types::{Millis, Route, RouteKey};

use crate::util::{problems_of, resolve_text};

const COMPOSE: &str =
    "services: {web: {image: i}, db: {image: i}, job: {image: i, network_mode: none}}";

const HASH: &str = "pbkdf2-sha256:600000:00112233445566778899aabbccddeeff:\
                    0000000000000000000000000000000000000000000000000000000000000000";

fn routes(list: &str) -> Vec<(RouteKey, Route)> {
    let overlay = format!("deployment: shop\nroutes:\n{list}");
    let resolved = resolve_text(COMPOSE, Some(&overlay));
    let resolved = resolved.unwrap_or_else(|problems| panic!("{problems}"));
    resolved.routes.into_iter().collect()
}

/// The errors of one route, which has this written.
fn refused(route: &str, expected: Expect) {
    let overlay = format!("deployment: shop\nroutes:\n- {{{route}}}\n");
    let problems = resolve_text(COMPOSE, Some(&overlay)).expect_err("it is refused");
    expected.assert_eq(&problems_of(&problems));
}

/// R-EDGE-2: a route with a domain, a service and a port has defaults for all else.
#[test]
fn a_route_has_defaults() {
    let [(key, route)] = &routes("- {domain: Shop.example.com, service: web, port: '8080'}")[..]
    else {
        panic!("it is one route")
    };
    assert_eq!(key.to_string(), "shop.example.com");
    let upstream = route.upstream().unwrap();
    assert_eq!((upstream.service.as_str(), upstream.port.get()), ("web", 8080));
    assert_eq!(*route, Route::new(RouteAction::Forward(upstream.clone())));
    assert_eq!((&route.tls, upstream.protocol), (&RouteTls::Auto, RouteProtocol::Http));
}

/// R-EDGE-2: every key of a route is read.
#[test]
fn every_key_of_a_route_is_read() {
    let text = format!(
        "- domain: '*.example.com'
  path: /api/
  service: web
  port: 80
  strip_path: true
  tls: own
  protocol: h2c
  sticky: cookie
  timeout: 1m30s
  body_max: 10m
  hsts: 24h
  headers:
    request: {{set: {{X-A: b}}, remove: [X-C]}}
    response: {{remove: [Server]}}
  basic_auth: {{ann: '{HASH}'}}
  allow_from: [10.0.0.0/8, '::1']
- {{domain: www.example.com, redirect: {{to: 'https://example.com', rest: drop, status: 301}}}}
- {{domain: www.example.com, path: /new, redirect: {{to: /old}}}}
"
    );
    let all = routes(&text);
    let [(key, route), (_, whole), (_, part)] = &all[..] else { panic!("they are three") };
    assert_eq!(key.to_string(), "*.example.com/api");
    assert_eq!(route.tls.to_string(), "own");
    assert_eq!(route.hsts, Some(HstsAge::new(86_400).unwrap()));
    assert_eq!(route.body_max, Some(BodyLimit::new(Bytes(10 << 20)).unwrap()));
    let upstream = route.upstream().unwrap();
    assert_eq!(upstream.forwarded_path, ForwardedPath::Rest);
    assert_eq!(upstream.protocol, RouteProtocol::H2c);
    assert_eq!(upstream.affinity, SessionAffinity::Cookie);
    assert_eq!(upstream.timeout, Some(RouteTimeout::new(Millis(90_000)).unwrap()));
    let set = route.headers.request.set().iter();
    let set: Vec<_> = set.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(set, [("x-a", "b")]);
    let removed = [&route.headers.request, &route.headers.response].map(|rules| rules.remove());
    let removed: Vec<_> = removed.into_iter().flatten().map(|name| name.as_str()).collect();
    assert_eq!(removed, ["x-c", "server"]);
    let users: Vec<_> = route.users.as_map().iter().collect();
    assert_eq!((users[0].0.as_str(), users[0].1.to_text()), ("ann", HASH.to_owned()));
    let sources: Vec<_> = route.sources.as_set().iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["10.0.0.0/8", "::1/128"]);
    let redirect = |route: &Route| match &route.action {
        RouteAction::Redirect(redirect) => redirect.clone(),
        RouteAction::Forward(_) => panic!("it is a redirect"),
    };
    let (whole, part) = (redirect(whole), redirect(part));
    assert_eq!((whole.to.as_str(), whole.rest), ("https://example.com", RedirectRest::Drop));
    assert_eq!((part.to.as_str(), part.rest), ("/old", RedirectRest::Append));
    let statuses = (whole.status, part.status);
    assert_eq!(statuses, (RedirectStatus::MovedPermanently, RedirectStatus::Permanent));
}

/// R-EDGE-2: what a wildcard cannot have, a password in clear, a path without prefix: with what to do.
#[test]
fn parts_that_contradict_each_other_are_refused() {
    refused(
        "domain: '*.a.b', service: web, port: 80",
        expect![[r#"
        3:3 error validation_failed: the route of `*.a.b` cannot be: no certificate for a wildcard can be ordered
          help store a certificate with `jaco certificate set NAME` and write `tls: NAME`, or write `tls: off`"#]],
    );
    refused(
        "domain: a.b, service: web, port: 80, strip_path: true",
        expect![[r#"
        3:3 error validation_failed: the route of `a.b` cannot be: without a path there is nothing to strip
          help add a `path`, or remove `strip_path`"#]],
    );
    refused(
        &format!("domain: a.b, service: web, port: 80, tls: off, basic_auth: {{ann: '{HASH}'}}"),
        expect![[r#"
            3:3 error validation_failed: the route of `a.b` cannot be: passwords would be sent without encryption
              help remove `tls: off`, or remove `basic_auth`"#]],
    );
    refused(
        "domain: a.b, service: web, port: 80, tls: off, hsts: 1h",
        expect![[r#"
        3:3 error validation_failed: the route of `a.b` cannot be: HSTS asks for the encryption that is off
          help remove `tls: off`, or remove `hsts`"#]],
    );
    refused(
        "domain: a.b, service: web, port: 80, redirect: {to: /a}",
        expect![[r#"
        3:17 error validation_failed: a route with `redirect` goes to no service, so it has no `service`
        3:31 error validation_failed: a route with `redirect` goes to no service, so it has no `port`"#]],
    );
}

/// R-EDGE-2, R-IN-1: every value is refused at its place, by the rule that it breaks.
#[test]
fn values_are_refused_at_their_place() {
    let web = |more: &str| format!("domain: a.b, service: web, port: 80, {more}");
    refused(
        "domain: a_b, service: web, port: 80",
        expect![[r#"
        3:12 error validation_failed: `a_b` cannot be the domain
          help use a domain in lower case such as shop.example.com, or *.example.com for all names one label below it; letters of other scripts in punycode (xn--…)"#]],
    );
    refused(
        "domain: 10.0.0.1, service: web, port: 80",
        expect![[r#"
        3:12 error validation_failed: `10.0.0.1` cannot be the domain
          help use a domain: no certificate and no name leads to an address"#]],
    );
    refused(
        &web("path: api"),
        expect![[r#"
        3:47 error validation_failed: `api` cannot be the path of a route
          help use `/` and segments of letters, digits and -._~!$&'()*+,;=:@, none of them empty, `.` or `..`, in 512 bytes; other letters have no place in a prefix"#]],
    );
    refused(
        &web("tls: on"),
        expect![[r#"
        3:46 error validation_failed: `tls` must be `auto`, `off` or the name of a certificate
          expected `auto`, `off`, or a name that `jaco certificate ls` shows"#]],
    );
    refused(
        &web("tls: 'a b'"),
        expect![[r#"
        3:46 error validation_failed: `a b` cannot be the name of a certificate
          help use 1 to 63 of a-z, A-Z, 0-9, '.', '-' and '_', starting with a letter or digit, and none of `auto`, `on` and `off`"#]],
    );
    refused(
        &web("protocol: grpc"),
        expect![[r#"
        3:51 error invalid_value: `routes[0].protocol` cannot be `grpc`
          expected `http`, `h2c`, `https`"#]],
    );
    refused(
        &web("sticky: ip"),
        expect![[r#"
        3:49 error invalid_value: `routes[0].sticky` cannot be `ip`
          expected `cookie`"#]],
    );
    refused(
        &web("timeout: 1ms"),
        expect![[r#"
        3:50 error validation_failed: `1ms` cannot be the timeout of a route
          help use 100 ms to 24 h"#]],
    );
    refused(
        &web("body_max: 0"),
        expect![[r#"
        3:51 error validation_failed: `0 B` cannot be the limit of a body
          help use 1 byte to 1 TiB"#]],
    );
    refused(
        &web("hsts: 0s"),
        expect![[r#"
        3:47 error validation_failed: `0s` cannot be the age of HSTS
          help use 1 s to 2 years"#]],
    );
    refused(
        &web("headers: {request: {set: {Host: a}}}"),
        expect![[r#"
        3:67 error validation_failed: `Host` cannot be the header name
          help the edge sets it itself; name another header"#]],
    );
    refused(
        &web("headers: {response: {set: {A: b, a: b}, remove: [c, 'd e']}}"),
        expect![[r#"
        3:74 error duplicate_value: the header `a` is set twice
        3:93 error validation_failed: `d e` cannot be the header name
          help use 1 to 128 letters, digits and -!#$%&'*+.^_`|~"#]],
    );
    refused(
        &web("headers: {response: {set: {a: b}, remove: [A]}}"),
        expect![[r#"
        3:61 error validation_failed: `a` cannot be the header rules
          help use at most 32, and set none that is removed"#]],
    );
    refused(
        &web("basic_auth: {ann: secret}"),
        expect![[r#"
        3:59 error validation_failed: `…` cannot be the password hash
          help use what `jaco route password` prints: pbkdf2-sha256:ROUNDS:SALT:HASH, with 10000 to 2000000 rounds, and salt and hash in hexadecimal digits"#]],
    );
    refused(
        &web("allow_from: [10.0.0.1/8]"),
        expect![[r#"
        3:54 error validation_failed: `10.0.0.1/8` cannot be the address range
          help use an address, or the first one of a range and its prefix length: 10.0.0.0/8, 2001:db8::/32"#]],
    );
    refused(
        "domain: a.b, redirect: {to: //evil.example}",
        expect![[r#"
        3:32 error validation_failed: `//evil.example` cannot be the target of a redirect
          help use a path that begins with one /, or an address that begins with http:// or https://, in at most 2048 printable characters without spaces, quotes, <, > and \"#]],
    );
    refused(
        "domain: a.b, redirect: {to: /a, status: 303}",
        expect![[r#"
        3:44 error invalid_value: the status of the redirect is none of a redirect
          expected 301, 302, 307 or 308"#]],
    );
    refused(
        "domain: a.b, redirect: {to: /a, rest: keep}",
        expect![[r#"
        3:42 error invalid_value: `routes[0].redirect.rest` cannot be `keep`
          expected `append`, `drop`"#]],
    );
}

/// R-IN-1: an unknown key has a place and the nearest name, at every depth.
#[test]
fn unknown_keys_of_routes_have_a_suggestion() {
    let web = |more: &str| format!("domain: a.b, service: web, port: 80, {more}");
    refused(
        &web("time_out: 1s"),
        expect![[r#"
        3:41 error unknown_key: `routes[0]` has no key `time_out`
          help did you mean `timeout`?"#]],
    );
    refused(
        &web("headers: {requests: {}}"),
        expect![[r#"
        3:51 error unknown_key: `routes[0].headers` has no key `requests`
          help did you mean `request`?"#]],
    );
    refused(
        &web("headers: {request: {add: {}}}"),
        expect!["3:61 error unknown_key: `routes[0].headers.request` has no key `add`"],
    );
    refused(
        "domain: a.b, redirect: {to: /a, code: 301}",
        expect!["3:36 error unknown_key: `routes[0].redirect` has no key `code`"],
    );
}

/// R-EDGE-2: a deployment has at most a thousand routes.
#[test]
fn routes_are_bounded() {
    let many = |count: usize| {
        let line = |n: usize| format!("- {{domain: a{n}.b, service: web, port: 80}}\n");
        let list: String = (0..count).map(line).collect();
        resolve_text(COMPOSE, Some(&format!("deployment: shop\nroutes:\n{list}")))
    };
    assert_eq!(many(1000).unwrap().routes.len(), 1000);
    let refused = many(1001).unwrap_err().to_string();
    assert!(refused.contains("the deployment has 1001 routes"), "{refused}");
}

/// R-EDGE-1: how long requests go on at a replica that leaves is said by its service.
#[test]
fn a_service_has_a_drain_time() {
    let drain = |text: &str| {
        let overlay = format!("deployment: shop\nservices: [{{name: web, drain: {text}}}]");
        resolve_text(COMPOSE, Some(&overlay)).map(|resolved| resolved.services["web"].facts.drain)
    };
    assert_eq!(drain("30s").unwrap(), Some(DrainTime::new(Millis(30_000)).unwrap()));
    assert_eq!(drain("0s").unwrap(), Some(DrainTime::new(Millis(0)).unwrap()));
    let problems = problems_of(&drain("2h").unwrap_err());
    expect![[r#"
        2:31 error invalid_value: `drain` cannot be 7200s
          help use 0 s to 1 h"#]]
    .assert_eq(&problems);
    assert!(drain("30").is_err(), "a time has a unit");
}

//! Routes: what each part takes, refuses and shows, and what parts mean together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU16;

use jaco_types::route::{
    AllowedSources, AllowedUsers, BodyLimit, CLUSTER_ROUTES_MAX, DEPLOYMENT_ROUTES_MAX, DrainTime,
    ForwardedPath, HEADER_RULES_MAX, HeaderName, HeaderRules, HeaderValue, HstsAge, IpRange,
    PasswordHash, RedirectStatus, RedirectTarget, RevisionWeights, RouteAction, RouteDomain,
    RoutePath, RouteProblem, RouteProtocol, RouteTimeout, RouteTls, SOURCES_MAX, USERS_MAX,
    Upstream, UserName,
};
use jaco_types::unit::Bytes;
use jaco_types::{CertificateName, Millis, Revision, Route, RouteKey, ServiceName};
use proptest::prelude::*;

fn domain(text: &str) -> RouteDomain {
    RouteDomain::new(text).unwrap()
}

fn key(domain: &str, path: &str) -> RouteKey {
    RouteKey { domain: domain.parse().unwrap(), path: path.parse().unwrap() }
}

fn upstream() -> Upstream {
    Upstream::new(ServiceName::new("web").unwrap(), NonZeroU16::new(80).unwrap())
}

fn route() -> Route {
    Route::new(RouteAction::Forward(upstream()))
}

fn password() -> PasswordHash {
    PasswordHash::new(600_000, &[7; 16], [9; 32]).unwrap()
}

/// R-EDGE-2: a domain is a name in lower case or a wildcard, and never an address.
#[test]
fn domains_are_names_or_wildcards() {
    for text in
        ["a", "localhost", "shop.example.com", "*.example.com", "*.local", "xn--bcher-kva.de"]
    {
        assert_eq!(domain(text).to_string(), text);
        assert_eq!(domain(text).is_wildcard(), text.starts_with('*'), "{text}");
    }
    let long = format!("{}.de", "a.".repeat(130));
    for text in [
        "",
        "*",
        "*.",
        "Shop.de",
        "a..de",
        "a.de.",
        "bücher.de",
        "a b",
        "**.a",
        "*.*.a",
        "a.*",
        "-a",
        &long,
    ] {
        assert!(RouteDomain::new(text).is_err(), "{text}");
    }
    for address in ["10.0.0.1", "*.1", "80"] {
        let refused = RouteDomain::new(address).unwrap_err();
        assert!(refused.rule.contains("address"), "{address}: {refused}");
    }
}

/// R-EDGE-2: a certificate is good for a domain as TLS says: a wildcard is one label.
#[test]
fn certificates_cover_domains() {
    for (own, names) in [
        ("shop.example.com", ["shop.example.com", "SHOP.example.com", "*.example.com"].as_slice()),
        ("*.example.com", &["*.example.com", "*.EXAMPLE.com"]),
        ("localhost", &["localhost"]),
    ] {
        for name in names {
            assert!(domain(own).is_covered_by(name), "{own} by {name}");
        }
    }
    for (own, name) in [
        ("example.com", "*.example.com"),
        ("a.b.example.com", "*.example.com"),
        ("*.example.com", "shop.example.com"),
        ("*.b.example.com", "*.example.com"),
        ("shop.example.com", "*.com"),
        ("localhost", "*.localhost"),
    ] {
        assert!(!domain(own).is_covered_by(name), "{own} by {name}");
    }
}

/// R-EDGE-2: a path has one spelling, so that two routes for the same requests have the same key.
#[test]
fn paths_have_one_spelling() {
    for (text, prefix, shown) in
        [("", "", "/"), ("/", "", "/"), ("/api", "/api", "/api"), ("/a/b/", "/a/b", "/a/b")]
    {
        let path = RoutePath::parse(text).unwrap();
        assert_eq!((path.prefix(), path.to_string().as_str()), (prefix, shown));
        assert_eq!(RoutePath::new(prefix), Ok(path));
    }
    for stored in ["/", "/api/"] {
        assert!(RoutePath::new(stored).is_err(), "{stored}");
    }
    let long = format!("/{}", "a".repeat(512));
    for text in
        ["api", "//", "/a//b", "/.", "/a/../b", "/%61", "/a b", "/a?b", "/ä", "/a\\b", &long]
    {
        assert!(RoutePath::parse(text).is_err(), "{text}");
    }
    assert_eq!(key("a.de", "/").to_string(), "a.de");
    assert_eq!(key("a.de", "/api/").to_string(), "a.de/api");
}

/// R-EDGE-2: a prefix is one of whole segments.
#[test]
fn paths_match_whole_segments() {
    let api = RoutePath::parse("/api").unwrap();
    for path in ["/api", "/api/", "/api/x"] {
        assert!(api.matches(path), "{path}");
    }
    for path in ["/", "/ap", "/apix", "/x/api"] {
        assert!(!api.matches(path), "{path}");
    }
    assert!(RoutePath::default().matches("/") && RoutePath::default().matches("/x"));
}

/// R-EDGE-2: passwords are taken in hashed form only, and neither a hash nor what was refused is printed.
#[test]
fn passwords_are_hashed_and_not_printed() {
    let text = format!("pbkdf2-sha256:600000:{}:{}", "07".repeat(16), "09".repeat(32));
    assert_eq!(PasswordHash::parse(&text), Ok(password()));
    assert_eq!(password().to_text(), text);
    assert!(!format!("{:?}", password()).contains("0909"));
    let (salt, hash) = ("07".repeat(16), "09".repeat(32));
    for text in [
        "secret",
        "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
        &format!("pbkdf2-sha1:600000:{salt}:{hash}"),
        &format!("pbkdf2-sha256:9999:{salt}:{hash}"),
        &format!("pbkdf2-sha256:2000001:{salt}:{hash}"),
        &format!("pbkdf2-sha256:+60000:{salt}:{hash}"),
        &format!("pbkdf2-sha256:600000:07:{hash}"),
        &format!("pbkdf2-sha256:600000:{}:{hash}", "07".repeat(65)),
        &format!("pbkdf2-sha256:600000:{salt}:{}", &hash[2..]),
        &format!("pbkdf2-sha256:600000:{salt}:{hash}:"),
    ] {
        let refused = PasswordHash::parse(text).unwrap_err().to_string();
        assert!(
            !refused.contains("secret") && refused.contains("jaco route password"),
            "{refused}"
        );
    }
    assert!(UserName::new("a:b").is_err() && UserName::new("").is_err());
    let users = |count: usize| {
        let name = |n: usize| UserName::new(&format!("u{n}")).unwrap();
        AllowedUsers::new((0..count).map(|n| (name(n), password())).collect())
    };
    assert!(users(USERS_MAX).is_ok() && users(USERS_MAX + 1).is_err());
}

/// R-EDGE-2: ranges of addresses are read as they are shown.
#[test]
fn ranges_are_read_and_refused() {
    for (text, shown) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
        ("::/0", "::/0"),
    ] {
        let range: IpRange = text.parse().unwrap();
        assert_eq!(range.to_string(), shown);
        assert_eq!(shown.parse(), Ok(range));
    }
    for text in [
        "10.0.0.1/8",
        "10.0.0.0/33",
        "10.0.0.0/+8",
        "10.0.0.0/",
        "::/129",
        "2001:db8::1/32",
        "a",
        "",
    ] {
        assert!(text.parse::<IpRange>().is_err(), "{text}");
    }
    let contains = |range: &str, address: &str| {
        range.parse::<IpRange>().unwrap().contains(address.parse().unwrap())
    };
    assert!(contains("10.0.0.0/8", "10.255.0.1") && contains("10.0.0.0/8", "::ffff:10.0.0.1"));
    assert!(!contains("10.0.0.0/8", "11.0.0.0") && !contains("0.0.0.0/0", "::1"));
    assert!(contains("::/0", "2001::1") && !contains("::/0", "1.2.3.4"));
    let ranges = |count: u32| {
        let range = |n: u32| IpRange::new(IpAddr::V4(n.into()), 32).unwrap();
        AllowedSources::new((0..count).map(range).collect())
    };
    let max = u32::try_from(SOURCES_MAX).unwrap();
    assert!(ranges(max).is_ok() && ranges(max + 1).is_err());
}

/// R-EDGE-2: headers that frame a message, or say who is at its ends, are the edge's alone.
#[test]
fn headers_are_changed_within_bounds() {
    assert_eq!(HeaderName::parse("X-Frame-Options").unwrap().as_str(), "x-frame-options");
    for name in
        ["", "a b", "a:b", "ä", "Host", "Content-Length", "Transfer-Encoding", "x-forwarded-for"]
    {
        assert!(HeaderName::parse(name).is_err(), "{name}");
    }
    assert!(HeaderName::new("X-A").is_err(), "what is stored has one spelling");
    assert!(HeaderValue::new("").is_ok() && HeaderValue::new("max-age=1; a\tb").is_ok());
    for value in [" a", "a ", "a\r\nb", "ä", &"a".repeat(4097)] {
        assert!(HeaderValue::new(value).is_err(), "{value}");
    }
    let name = |n: usize| HeaderName::new(&format!("x-{n}")).unwrap();
    let value = HeaderValue::new("a").unwrap();
    let rules = |set: usize, remove: BTreeSet<HeaderName>| {
        HeaderRules::new((0..set).map(|n| (name(n), value.clone())).collect(), remove)
    };
    assert!(rules(HEADER_RULES_MAX, BTreeSet::new()).is_ok());
    assert!(rules(HEADER_RULES_MAX + 1, BTreeSet::new()).is_err());
    assert!(rules(1, [name(0)].into()).is_err() && rules(1, [name(1)].into()).is_ok());
}

/// R-EDGE-2: a redirect leads to a path of the domain or to a URL.
#[test]
fn redirects_lead_to_paths_or_urls() {
    for text in ["/", "/new", "https://shop.example.com", "http://a/b?c=d"] {
        assert_eq!(RedirectTarget::new(text).unwrap().to_string(), text);
    }
    for text in
        ["", "new", "//evil.example", "ftp://a", "https://", "https:///a", "/a b", "/a\r\nb", "/<"]
    {
        assert!(RedirectTarget::new(text).is_err(), "{text}");
    }
    for status in RedirectStatus::ALL {
        assert_eq!(RedirectStatus::from_number(status.number()), Some(status));
    }
    assert_eq!(RedirectStatus::from_number(303), None);
}

/// R-EDGE-1, R-EDGE-2: times, sizes and weights have bounds.
#[test]
fn amounts_have_bounds() {
    let timeout = |ms: u64| RouteTimeout::new(Millis(ms)).is_ok();
    assert!(timeout(100) && timeout(86_400_000) && !timeout(99) && !timeout(86_400_001));
    let body = |bytes: u64| BodyLimit::new(Bytes(bytes)).is_ok();
    assert!(body(1) && body(1 << 40) && !body(0) && !body((1 << 40) + 1));
    let hsts = |secs: u32| HstsAge::new(secs).is_ok();
    assert!(hsts(1) && hsts(63_072_000) && !hsts(0) && !hsts(63_072_001));
    let drain = |ms: u64| DrainTime::new(Millis(ms)).is_ok();
    assert!(drain(0) && drain(3_600_000) && !drain(3_600_001));
    let weights = |all: &[(u64, u8)]| {
        let all: BTreeMap<_, _> = all.iter().map(|(id, weight)| (Revision(*id), *weight)).collect();
        RevisionWeights::new(all).is_ok()
    };
    assert!(weights(&[]) && weights(&[(1, 0), (2, 100)]));
    assert!(!weights(&[(1, 0)]) && !weights(&[(1, 101)]));
    assert!(!weights(&(0..9).map(|n| (n, 1)).collect::<Vec<_>>()));
    const { assert!(DEPLOYMENT_ROUTES_MAX <= CLUSTER_ROUTES_MAX) };
}

/// R-EDGE-2: parts that do not go together are refused, with what to do.
#[test]
fn parts_of_a_route_go_together() {
    let plain = key("a.de", "/api");
    assert_eq!(route().check(&plain), Ok(()));
    assert_eq!(route().check(&key("*.a.de", "")), Err(RouteProblem::WildcardOrdered));
    let name = CertificateName::new("own").unwrap();
    let own = Route { tls: RouteTls::Certificate(name), ..route() };
    assert_eq!(own.check(&key("*.a.de", "")), Ok(()));
    let off = Route { tls: RouteTls::Off, ..route() };
    assert_eq!(off.check(&key("*.a.de", "")), Ok(()));
    let stripped = Upstream { forwarded_path: ForwardedPath::Rest, ..upstream() };
    let stripped = Route::new(RouteAction::Forward(stripped));
    assert_eq!(stripped.check(&plain), Ok(()));
    assert_eq!(stripped.check(&key("a.de", "/")), Err(RouteProblem::NothingToStrip));
    let users = AllowedUsers::new([(UserName::new("ann").unwrap(), password())].into()).unwrap();
    let guarded = Route { users, ..route() };
    assert_eq!(guarded.check(&plain), Ok(()));
    let in_clear = Route { tls: RouteTls::Off, ..guarded };
    assert_eq!(in_clear.check(&plain), Err(RouteProblem::PasswordsInClear));
    let hsts = Some(HstsAge::new(60).unwrap());
    let told = Route { tls: RouteTls::Off, hsts, ..route() };
    assert_eq!(told.check(&plain), Err(RouteProblem::HstsInClear));
    for problem in [RouteProblem::WildcardOrdered, RouteProblem::HstsInClear] {
        assert!(!problem.advice().is_empty() && !problem.to_string().is_empty());
    }
}

/// R-EDGE-2: names of certificates and other values of `tls` are never the same.
#[test]
fn certificates_are_not_called_like_other_values() {
    for name in ["auto", "on", "off", "OFF", "", "-a", "a b"] {
        assert!(CertificateName::new(name).is_err(), "{name}");
    }
    assert!(CertificateName::new("shop.example.com").is_ok());
    for protocol in RouteProtocol::ALL {
        assert_eq!(RouteProtocol::parse(protocol.as_str()), Some(protocol));
    }
    assert_eq!(RouteProtocol::parse("h2"), None);
}

proptest! {
    /// R-EDGE-2: what is read is stored as it is shown, and what was refused never panics.
    #[test]
    fn texts_are_read_or_refused(text in "[a-z*./0-9 %:-]{0,24}") {
        if let Ok(domain) = RouteDomain::new(&text) {
            prop_assert_eq!(RouteDomain::new(domain.as_str()), Ok(domain));
        }
        if let Ok(path) = RoutePath::parse(&text) {
            prop_assert_eq!(RoutePath::new(path.prefix()), Ok(path.clone()));
            prop_assert_eq!(RoutePath::parse(&path.to_string()), Ok(path));
        }
        if let Ok(range) = text.parse::<IpRange>() {
            prop_assert_eq!(range.to_string().parse(), Ok(range));
        }
    }

    /// R-EDGE-2: a range contains exactly the addresses that share its leading bits.
    #[test]
    fn ranges_contain_what_shares_their_bits(base: u32, other: u32, length in 0_u8..=32) {
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        let range = IpRange::new(IpAddr::V4((base & mask).into()), length).unwrap();
        prop_assert_eq!(range.contains(IpAddr::V4(other.into())), other & mask == base & mask);
    }
}

//! Routes, claims and certificates.

use super::*;

pub(crate) fn route_key() -> impl Strategy<Value = RouteKey> {
    ("(\\*\\.)?[a-z][a-z0-9]{0,6}\\.de", "(/[a-z0-9]{1,4}){0,2}").prop_map(|(domain, path)| {
        let (domain, path) = (RouteDomain::new(&domain), RoutePath::new(&path));
        RouteKey { domain: domain.unwrap(), path: path.unwrap() }
    })
}

pub(crate) fn certificate_name() -> impl Strategy<Value = CertificateName> {
    "[a-z][a-z0-9.-]{3,10}".prop_map(|text| CertificateName::new(&text).unwrap())
}

pub(crate) fn route() -> impl Strategy<Value = Route> {
    let tls = prop_oneof![
        Just(RouteTls::Auto),
        Just(RouteTls::Off),
        certificate_name().prop_map(RouteTls::Certificate),
    ];
    let action = prop_oneof![
        upstream().prop_map(RouteAction::Forward),
        redirect().prop_map(RouteAction::Redirect),
    ];
    let amounts = (
        option::of((1..63_072_000_u32).prop_map(|secs| HstsAge::new(secs).unwrap())),
        option::of((1..1_u64 << 40).prop_map(|size| BodyLimit::new(Bytes(size)).unwrap())),
    );
    let headers = (header_rules(), header_rules());
    let headers = headers.prop_map(|(request, response)| RouteHeaders { request, response });
    let users = btree_map(user(), password(), 0..3);
    let users = users.prop_map(|users| AllowedUsers::new(users).unwrap());
    let sources = btree_set(ip_range(), 0..3);
    let sources = sources.prop_map(|sources| AllowedSources::new(sources).unwrap());
    (action, tls, amounts, headers, users, sources).prop_map(
        |(action, tls, (hsts, body_max), headers, users, sources)| Route {
            action,
            tls,
            hsts,
            body_max,
            headers,
            users,
            sources,
        },
    )
}

fn upstream() -> impl Strategy<Value = Upstream> {
    let kinds = (
        select(vec![ForwardedPath::Whole, ForwardedPath::Rest]),
        select(RouteProtocol::ALL.to_vec()),
        select(vec![SessionAffinity::None, SessionAffinity::Cookie]),
    );
    let timeout = option::of((100..86_400_000_u64).prop_map(|ms| RouteTimeout::new(Millis(ms))));
    let weights = btree_map(revision(), 1..=100_u8, 0..3);
    (service_name(), 1..=u16::MAX, kinds, timeout, weights).prop_map(
        |(service, port, (forwarded_path, protocol, affinity), timeout, weights)| Upstream {
            service,
            port: NonZeroU16::new(port).unwrap(),
            forwarded_path,
            protocol,
            affinity,
            timeout: timeout.transpose().unwrap(),
            weights: RevisionWeights::new(weights).unwrap(),
        },
    )
}

fn redirect() -> impl Strategy<Value = Redirect> {
    let rest = select(vec![RedirectRest::Append, RedirectRest::Drop]);
    ("(https://[a-z]{1,5})?/[a-z]{0,5}", rest, select(RedirectStatus::ALL.to_vec())).prop_map(
        |(to, rest, status)| Redirect { to: RedirectTarget::new(&to).unwrap(), rest, status },
    )
}

fn header_rules() -> impl Strategy<Value = HeaderRules> {
    let name = |prefix: &str| {
        let names = format!("{prefix}-[a-z]{{1,4}}");
        proptest::string::string_regex(&names)
            .unwrap()
            .prop_map(|text| HeaderName::new(&text).unwrap())
    };
    let value = "[a-z=;]{0,8}".prop_map(|text| HeaderValue::new(&text).unwrap());
    (btree_map(name("s"), value, 0..3), btree_set(name("r"), 0..3))
        .prop_map(|(set, remove)| HeaderRules::new(set, remove).unwrap())
}

fn user() -> impl Strategy<Value = UserName> {
    "[a-z]{1,5}".prop_map(|text| UserName::new(&text).unwrap())
}

fn password() -> impl Strategy<Value = PasswordHash> {
    (10_000..=2_000_000_u32, vec(any::<u8>(), 8..=64), any::<[u8; 32]>())
        .prop_map(|(rounds, salt, hash)| PasswordHash::new(rounds, &salt, hash).unwrap())
}

fn ip_range() -> impl Strategy<Value = IpRange> {
    prop_oneof![
        (any::<u32>(), 1..=32_u8).prop_map(|(bits, length)| {
            let first = bits & (u32::MAX << (32 - u32::from(length)));
            IpRange::new(IpAddr::V4(first.into()), length).unwrap()
        }),
        (any::<u128>(), 1..=128_u8).prop_map(|(bits, length)| {
            let first = bits & (u128::MAX << (128 - u32::from(length)));
            IpRange::new(IpAddr::V6(first.into()), length).unwrap()
        }),
    ]
}

pub(crate) fn drain_time() -> impl Strategy<Value = Option<DrainTime>> {
    option::of((0..=3_600_000_u64).prop_map(|ms| DrainTime::new(Millis(ms)).unwrap()))
}

pub(crate) fn sealed_key() -> impl Strategy<Value = SealedKey> {
    vec(any::<u8>(), 0..20).prop_map(|bytes| SealedKey(bytes.into()))
}

fn dns_names() -> impl Strategy<Value = BTreeSet<Arc<str>>> {
    btree_set("[a-z]{1,6}".prop_map(Arc::from), 0..3)
}

pub(crate) fn certificate_store() -> impl Strategy<Value = Command> {
    let times = (moment(), moment());
    (certificate_name(), text(), sealed_key(), dns_names(), times, any::<[u8; 32]>()).prop_map(
        |(name, chain, key, names, (not_before, not_after), fingerprint)| {
            let chain = chain.into();
            CertificateStore { name, chain, key, names, not_before, not_after, fingerprint }.into()
        },
    )
}

pub(crate) fn edges() -> impl Strategy<Value = Edges> {
    let claim = (deployment_name(), moment())
        .prop_map(|(deployment, since)| RouteClaim { deployment, since });
    let times = (moment(), moment(), moment());
    let certificate = (text(), sealed_key(), dns_names(), times, any::<[u8; 32]>(), identity());
    let certificate = certificate.prop_map(|(chain, key, names, times, fingerprint, by)| {
        let (not_before, not_after, stored_at) = times;
        let chain = chain.into();
        Certificate { chain, key, names, not_before, not_after, fingerprint, stored_at, by }
    });
    let claims = btree_map(route_key(), claim, 0..4);
    let certificates = btree_map(certificate_name(), certificate, 0..4);
    (option::of(index()), claims, certificates, port_claims(), acme()).prop_map(
        |(begun, claims, certificates, ports, acme)| Edges {
            begun,
            claims: claims.into_iter().collect(),
            certificates: certificates.into_iter().collect(),
            ports,
            acme,
        },
    )
}

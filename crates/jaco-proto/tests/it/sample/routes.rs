//! Routes, claims and certificates.

use super::*;

pub(crate) fn certificate_name() -> CertificateName {
    CertificateName::new("own").unwrap()
}

fn route_key(domain: &str, path: &str) -> RouteKey {
    RouteKey { domain: RouteDomain::new(domain).unwrap(), path: RoutePath::new(path).unwrap() }
}

fn dns_names() -> BTreeSet<Arc<str>> {
    ["*.example.com", "example.com"].map(Arc::from).into()
}

pub(crate) fn certificate_store() -> CertificateStore {
    CertificateStore {
        name: certificate_name(),
        chain: "PEM".into(),
        key: SealedKey([7; 40].into()),
        names: dns_names(),
        not_before: Timestamp(1_690_000_000_000),
        not_after: Timestamp(1_710_000_000_000),
        fingerprint: [0x44; 32],
    }
}

/// A route to a service with every option.
fn forward() -> Route {
    let header = |name: &str| HeaderName::new(name).unwrap();
    let value = HeaderValue::new("b").unwrap();
    let rules = |set: &str, remove: &str| {
        HeaderRules::new([(header(set), value.clone())].into(), [header(remove)].into()).unwrap()
    };
    let upstream = Upstream {
        service: ServiceName::new("web").unwrap(),
        port: NonZeroU16::new(8080).unwrap(),
        forwarded_path: ForwardedPath::Rest,
        protocol: RouteProtocol::H2c,
        affinity: SessionAffinity::Cookie,
        timeout: Some(RouteTimeout::new(Millis(30_000)).unwrap()),
        weights: RevisionWeights::new([(Revision(1), 90), (Revision(2), 10)].into()).unwrap(),
    };
    let password = PasswordHash::new(600_000, &[5; 16], [6; 32]).unwrap();
    let users = [(UserName::new("ann").unwrap(), password)];
    let sources = ["10.0.0.0/8", "2001:db8::/32"].map(|range| range.parse::<IpRange>().unwrap());
    Route {
        action: RouteAction::Forward(upstream),
        tls: RouteTls::Certificate(certificate_name()),
        hsts: Some(HstsAge::new(86_400).unwrap()),
        body_max: Some(BodyLimit::new(Bytes(10 << 20)).unwrap()),
        headers: RouteHeaders { request: rules("x-a", "x-c"), response: rules("x-d", "server") },
        users: AllowedUsers::new(users.into()).unwrap(),
        sources: AllowedSources::new(sources.into()).unwrap(),
    }
}

/// A spec with a route of each kind, and a drain time.
pub(crate) fn spec_with_routes() -> DeploymentSpec {
    let mut spec = spec_with_networks();
    let web = ServiceName::new("web").unwrap();
    let drain = DrainTime::new(Millis(30_000)).unwrap();
    Arc::make_mut(spec.services.get_mut(&web).unwrap()).drain = Some(drain);
    let plain = |protocol| {
        let port = NonZeroU16::new(80).unwrap();
        Route::new(RouteAction::Forward(Upstream { protocol, ..Upstream::new(web.clone(), port) }))
    };
    let redirect = |to: &str, rest, status| {
        let to = RedirectTarget::new(to).unwrap();
        let redirect = RouteAction::Redirect(Redirect { to, rest, status });
        Route { tls: RouteTls::Off, ..Route::new(redirect) }
    };
    let (append, drop) = (RedirectRest::Append, RedirectRest::Drop);
    spec.routes = [
        (route_key("*.example.com", "/api"), forward()),
        (route_key("a.example.com", ""), plain(RouteProtocol::Http)),
        (route_key("a.example.com", "/tls"), plain(RouteProtocol::Https)),
        (route_key("b.example.com", ""), redirect("/new", append, RedirectStatus::Permanent)),
        (route_key("c.example.com", ""), redirect("https://d.de", drop, RedirectStatus::Found)),
    ]
    .into();
    spec
}

/// The commands about certificates, and an apply with routes.
pub(crate) fn commands_of_routes() -> Vec<Command> {
    vec![
        EdgeBegin.into(),
        certificate_store().into(),
        CertificateRemove::new(certificate_name()).into(),
        DeploymentApply::new(deployment_name(), spec_with_routes()).into(),
    ]
}

/// A state with claims and certificates, and nothing else.
pub(crate) fn state_of_routes() -> ClusterState {
    let CertificateStore { name, chain, key, names, not_before, not_after, fingerprint } =
        certificate_store();
    let (stored_at, by) = (Timestamp(1_700_000_000_123), Identity::Local { uid: 1000 });
    let certificate =
        Certificate { chain, key, names, not_before, not_after, fingerprint, stored_at, by };
    let claim = |since| RouteClaim { deployment: deployment_name(), since: Timestamp(since) };
    let claims = [
        (route_key("*.example.com", "/api"), claim(1_700_000_000_456)),
        (route_key("a.example.com", ""), claim(1_700_000_000_789)),
    ];
    let edges = Edges {
        begun: Some(StateIndex(41)),
        claims: claims.into_iter().collect(),
        certificates: [(name, certificate)].into_iter().collect(),
        ..Edges::default()
    };
    ClusterState { index: StateIndex(42), edges, ..ClusterState::default() }
}

//! TLS: certificates by name, what is refused, challenges, and that nothing is served in clear that must not be.

use std::sync::Arc;
use std::time::Duration;

use jaco_edge::{CertificatePem, Limits, Options};
use jaco_types::StateIndex;
use jaco_types::route::{HstsAge, RouteProtocol, RouteTls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::forwarding::upstream;
use crate::instances::{echo, raw, saying};
use crate::lab::{Lab, PATIENCE};
use crate::wire::{Reply, ask, get, is_closed, once, read_head};

/// A certificate for these names, signed by itself.
pub(crate) fn certificate(names: &[&str]) -> Arc<CertificatePem> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (chain, key) =
        (made.cert.pem().into_bytes(), made.signing_key.serialize_pem().into_bytes());
    Arc::new(CertificatePem { chain, key })
}

fn der(certificate: &CertificatePem) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(&certificate.chain).unwrap()
}

/// How a client greets.
pub(crate) struct Greeting<'a> {
    pub(crate) name: &'a str,
    pub(crate) protocols: &'a [&'a str],
    pub(crate) versions: &'a [&'static SupportedProtocolVersion],
}

impl<'a> Greeting<'a> {
    pub(crate) fn to(name: &'a str) -> Self {
        Self { name, protocols: &["http/1.1"], versions: rustls::ALL_VERSIONS }
    }

    pub(crate) fn with(self, protocols: &'a [&'a str]) -> Self {
        Self { protocols, ..self }
    }
}

/// A TLS connection by a client that trusts one certificate.
pub(crate) async fn greet(
    lab: &Lab,
    trusted: &CertificatePem,
    greeting: Greeting<'_>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(der(trusted)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(greeting.versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols =
        greeting.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(lab.tls).await?;
    let name = ServerName::try_from(greeting.name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

pub(crate) async fn get_tls(lab: &Lab, trusted: &CertificatePem, host: &str, path: &str) -> Reply {
    let mut client = greet(lab, trusted, Greeting::to(host)).await.unwrap();
    ask(&mut client, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await
}

#[tokio::test]
async fn a_route_is_encrypted_as_soon_as_it_can_be_and_never_in_clear() {
    let one = echo();
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    lab.ready(&[one.address]);
    lab.apply();
    let reply = get(&lab, "a.example", "/x?y").await;
    assert_eq!((reply.status, reply.reason()), (503, "certificate_missing"));
    let pem = certificate(&["a.example"]);
    assert!(greet(&lab, &pem, Greeting::to("a.example")).await.is_err());

    lab.certificates.by_domain.insert("a.example".parse().unwrap(), Arc::clone(&pem));
    lab.apply();
    let reply = get(&lab, "a.example:80", "/x?y").await;
    assert_eq!((reply.status, reply.field("location")), (308, Some("https://a.example/x?y")));
    let reply = get_tls(&lab, &pem, "a.example", "/x?y").await;
    assert_eq!((reply.status, reply.sent("x-forwarded-proto")), (200, Some("https")));
    assert_eq!(one.connections(), 1, "nothing came there in clear");

    // A proxy before the edge that is trusted may have done the encryption.
    lab.plan.trusted_proxies = ["127.0.0.1".parse().unwrap()].into();
    lab.apply();
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Proto: https\r\n\r\n";
    assert_eq!(once(&lab, request).await.status, 200);
    assert_eq!(get(&lab, "a.example", "/").await.status, 308);
}

#[tokio::test]
async fn both_versions_and_both_protocols_are_spoken() {
    let one = saying("one");
    let pem = certificate(&["a.example"]);
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| {
        route.tls = RouteTls::Certificate("own".parse().unwrap());
        route.hsts = Some(HstsAge::new(60).unwrap());
    });
    lab.certificates.by_name.insert("own".parse().unwrap(), Arc::clone(&pem));
    lab.ready(&[one.address]);
    lab.apply();
    for version in [&TLS12, &TLS13] {
        let greeting = Greeting { versions: &[version], ..Greeting::to("a.example") };
        let mut client = greet(&lab, &pem, greeting).await.unwrap();
        let reply = ask(&mut client, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        assert_eq!(reply.text(), "one");
        assert_eq!(reply.field("strict-transport-security"), Some("max-age=60"));
    }
    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1"][..], Some("http/1.1")),
        (&[][..], None),
    ] {
        let client = greet(&lab, &pem, Greeting::to("a.example").with(offered)).await.unwrap();
        let spoken = client.get_ref().1.alpn_protocol();
        assert_eq!(spoken, chosen.map(str::as_bytes), "{offered:?}");
    }
    let strange = greet(&lab, &pem, Greeting::to("a.example").with(&["spdy/1"])).await;
    assert!(strange.is_err(), "a protocol that nobody speaks");
    let clear = get(&lab, "a.example", "/").await;
    assert_eq!(clear.field("strict-transport-security"), None);
}

#[tokio::test]
async fn who_asks_for_another_name_gets_nothing() {
    let one = saying("one");
    let pem = certificate(&["a.example", "*.w.example", "127.0.0.1"]);
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    lab.route("*.w.example", "/", |route| {
        route.tls = RouteTls::Certificate("wild".parse().unwrap());
    });
    lab.route("clear.example", "/", |_| {});
    lab.certificates.by_domain.insert("a.example".parse().unwrap(), Arc::clone(&pem));
    lab.certificates.by_name.insert("wild".parse().unwrap(), Arc::clone(&pem));
    lab.ready(&[one.address]);
    lab.apply();
    for name in ["b.example", "clear.example", "w.example", "x.y.w.example", "127.0.0.1"] {
        assert!(greet(&lab, &pem, Greeting::to(name)).await.is_err(), "{name}");
    }
    assert_eq!(get_tls(&lab, &pem, "x.w.example", "/").await.text(), "one");
    for other in ["x.w.example", "clear.example", "b.example"] {
        let mut client = greet(&lab, &pem, Greeting::to("a.example")).await.unwrap();
        let reply = ask(&mut client, &format!("GET / HTTP/1.1\r\nHost: {other}\r\n\r\n")).await;
        assert_eq!((reply.status, reply.reason()), (421, "misdirected_request"), "{other}");
    }
}

/// Names of certificates may look like domains: whoever stores one takes no domain over by it.
#[tokio::test]
async fn the_name_of_a_certificate_is_no_domain() {
    let pem = certificate(&["a.example"]);
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    lab.certificates.by_name.insert("a.example".parse().unwrap(), Arc::clone(&pem));
    lab.apply();
    assert!(greet(&lab, &pem, Greeting::to("a.example")).await.is_err());
    assert_eq!(get(&lab, "a.example", "/").await.reason(), "certificate_missing");
}

#[tokio::test]
async fn a_certificate_is_replaced_at_once_and_a_broken_one_is_named() {
    let one = saying("one");
    let (first, second) = (certificate(&["a.example"]), certificate(&["a.example"]));
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    lab.ready(&[one.address]);
    for (given, other) in [(&first, &second), (&second, &first)] {
        lab.certificates.by_domain.insert("a.example".parse().unwrap(), Arc::clone(given));
        lab.apply();
        assert_eq!(lab.status().problems.len(), 0);
        assert_eq!(get_tls(&lab, given, "a.example", "/").await.text(), "one");
        assert!(greet(&lab, other, Greeting::to("a.example")).await.is_err());
    }
    let broken = [
        CertificatePem { chain: first.chain.clone(), key: second.key.clone() },
        CertificatePem { chain: Vec::new(), key: first.key.clone() },
        CertificatePem { chain: first.chain.clone(), key: b"none".to_vec() },
    ];
    for pem in broken {
        lab.certificates.by_domain.insert("a.example".parse().unwrap(), Arc::new(pem));
        lab.apply();
        let problems = lab.status().problems;
        assert_eq!(problems.keys().collect::<Vec<_>>(), ["certificate of a.example"]);
        assert_eq!(get(&lab, "a.example", "/").await.reason(), "certificate_missing");
    }
}

#[tokio::test]
async fn challenges_are_answered_before_anything_else() {
    let one = echo();
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    lab.route("b.example", "/", |_| {});
    lab.plan.challenges.insert("token".to_owned(), "token.thumbprint".to_owned());
    let challenge = certificate(&["a.example"]);
    lab.certificates.challenges.insert("a.example".parse().unwrap(), Arc::clone(&challenge));
    lab.ready(&[one.address]);
    lab.apply();
    // By token alone: a CA may come by any name.
    for host in ["a.example", "b.example", "c.example"] {
        let reply = get(&lab, host, "/.well-known/acme-challenge/token").await;
        assert_eq!((reply.status, reply.text()), (200, "token.thumbprint"));
    }
    let unknown = "/.well-known/acme-challenge/other";
    assert_eq!(get(&lab, "a.example", unknown).await.reason(), "unknown_challenge");
    assert!(get(&lab, "b.example", unknown).await.text().starts_with("GET /.well-known/"));

    let greeting = Greeting::to("a.example").with(&["acme-tls/1"]);
    let mut client = greet(&lab, &challenge, greeting).await.unwrap();
    assert_eq!(client.get_ref().1.alpn_protocol(), Some(&b"acme-tls/1"[..]));
    assert!(is_closed(&mut client, PATIENCE).await, "there is nothing else to be had");
    assert!(
        greet(&lab, &challenge, Greeting::to("a.example")).await.is_err(),
        "it is no certificate"
    );
    let other = greet(&lab, &challenge, Greeting::to("b.example").with(&["acme-tls/1"])).await;
    assert!(other.is_err());
}

/// R-EDGE-2: an authority that asks before this edge knows the token is answered as soon as it does, by HTTP and by TLS.
#[tokio::test]
async fn a_challenge_waits_for_the_plan_that_has_it() {
    let limits = Limits { challenge_hold: PATIENCE, ..Limits::default() };
    let mut lab = Lab::with(Options { limits, ..Options::default() });
    lab.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    lab.apply();
    let challenge = certificate(&["a.example"]);
    let (mut plan, mut certificates) = (lab.plan.clone(), lab.certificates.clone());
    plan.challenges.insert("token".to_owned(), "token.thumbprint".to_owned());
    certificates.challenges.insert("a.example".parse().unwrap(), Arc::clone(&challenge));
    let asked = async {
        let greeting = Greeting::to("a.example").with(&["acme-tls/1"]);
        let path = "/.well-known/acme-challenge/token";
        // The route itself may be newer than the plan of this edge.
        tokio::join!(
            get(&lab, "a.example", path),
            get(&lab, "new.example", path),
            greet(&lab, &challenge, greeting)
        )
    };
    let mut asked = std::pin::pin!(asked);
    let unanswered = tokio::time::timeout(Duration::from_millis(200), &mut asked).await;
    assert!(unanswered.is_err(), "nobody knows the token");
    lab.edge.apply(StateIndex(9), Arc::new(plan), Arc::new(certificates));
    let answered = tokio::time::timeout(PATIENCE / 2, asked).await;
    let (one, other, stream) =
        answered.expect("all are answered by the plan, not by the end of the hold");
    for reply in [one, other] {
        assert_eq!((reply.status, reply.text()), (200, "token.thumbprint"));
    }
    assert_eq!(stream.unwrap().get_ref().1.alpn_protocol(), Some(&b"acme-tls/1"[..]));
}

/// R-EDGE-2: few questions wait: whoever asks for more is refused at once.
#[tokio::test]
async fn challenges_that_wait_have_a_bound() {
    let limits =
        Limits { challenge_hold: PATIENCE, challenges_held_per_source_max: 0, ..Limits::default() };
    let mut lab = Lab::with(Options { limits, ..Options::default() });
    lab.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    lab.apply();
    let asked = get(&lab, "a.example", "/.well-known/acme-challenge/token");
    let reply = tokio::time::timeout(PATIENCE / 2, asked).await.expect("it is not held");
    assert_eq!((reply.status, reply.reason()), (404, "unknown_challenge"));
}

/// R-EDGE-2: a token that no plan brings is refused after the hold, not kept.
#[tokio::test]
async fn a_challenge_that_never_comes_is_refused() {
    let hold = Duration::from_millis(200);
    let limits = Limits { challenge_hold: hold, ..Limits::default() };
    let mut lab = Lab::with(Options { limits, ..Options::default() });
    lab.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    lab.apply();
    let begun = std::time::Instant::now();
    let reply = get(&lab, "a.example", "/.well-known/acme-challenge/token").await;
    assert_eq!((reply.status, reply.reason()), (404, "unknown_challenge"));
    assert!(begun.elapsed() >= hold, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn handshakes_have_bounds() {
    let pem = certificate(&["a.example"]);
    let limits = Limits {
        head_timeout: Duration::from_millis(300),
        handshakes_per_source_max: 2,
        ..Limits::default()
    };
    let mut lab = Lab::with(Options { limits, ..Options::default() });
    lab.route("a.example", "/", |route| route.tls = RouteTls::Auto);
    lab.certificates.by_domain.insert("a.example".parse().unwrap(), Arc::clone(&pem));
    lab.apply();
    let mut silent = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(lab.tls).await.unwrap();
        stream.write_all(&[22, 3, 1]).await.unwrap();
        silent.push(stream);
    }
    // Both are in progress once a third is refused at once.
    let refused = async { while greet(&lab, &pem, Greeting::to("a.example")).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
    for stream in &mut silent {
        assert!(is_closed(stream, PATIENCE).await);
    }
    let mut garbage = TcpStream::connect(lab.tls).await.unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut garbage, &mut rest);
    let ended = tokio::time::timeout(PATIENCE, read).await.expect("it ends");
    assert!(ended.is_err() || rest.len() < 16, "at most an alert: {rest:?}");
    assert!(greet(&lab, &pem, Greeting::to("a.example")).await.is_ok());
}

#[tokio::test]
async fn instances_may_want_tls_themselves() {
    let pem = certificate(&["whatever"]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::from_pem_slice(&pem.key).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der(&pem)], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let one = raw(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            while read_head(&mut stream).await.is_some() {
                let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntls";
                stream.write_all(reply).await.unwrap();
            }
        }
    });
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| {
        upstream(route, |to| to.protocol = RouteProtocol::Https);
    });
    lab.ready(&[one.address]);
    lab.apply();
    for _ in 0..3 {
        assert_eq!(get(&lab, "a.example", "/").await.text(), "tls");
    }
    assert_eq!(one.connections(), 1);
}

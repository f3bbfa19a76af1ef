//! Who may use a route: by source, by password, through trusted proxies.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use data_encoding::BASE64;
use jaco_types::route::{AllowedSources, AllowedUsers, PasswordHash, UserName};
use ring::pbkdf2;
use tokio::io::AsyncWriteExt;

use crate::instances::{echo, saying};
use crate::lab::{Lab, PATIENCE};
use crate::wire::{ask, get, is_closed, once, read};

fn hash(password: &str) -> PasswordHash {
    let (salt, rounds) = (b"salt of the test", NonZeroU32::new(10_000).unwrap());
    let mut hash = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password.as_bytes(), &mut hash);
    PasswordHash::new(rounds.get(), salt, hash).unwrap()
}

#[tokio::test]
async fn a_route_may_ask_for_a_password() {
    let one = saying("one");
    let mut lab = Lab::new();
    let users = BTreeMap::from([(UserName::new("ann").unwrap(), hash("right"))]);
    lab.route("a.example", "/", |route| route.users = AllowedUsers::new(users).unwrap());
    lab.ready(&[one.address]);
    lab.apply();
    let with = |scheme: &str, pair: &str| {
        let encoded = BASE64.encode(pair.as_bytes());
        format!("GET / HTTP/1.1\r\nHost: a.example\r\nAuthorization: {scheme} {encoded}\r\n\r\n")
    };
    for _ in 0..3 {
        assert_eq!(once(&lab, &with("Basic", "ann:right")).await.text(), "one");
    }
    assert_eq!(once(&lab, &with("basic", "ann:right")).await.status, 200);
    for (scheme, pair) in [
        ("Basic", "ann:wrong"),
        ("Basic", "bob:right"),
        ("Basic", "ann"),
        ("Bearer", "ann:right"),
        ("Basic", ":"),
    ] {
        let reply = once(&lab, &with(scheme, pair)).await;
        assert_eq!((reply.status, reply.reason()), (401, "unauthorized"), "{scheme} {pair}");
        let challenge = reply.field("www-authenticate");
        assert_eq!(challenge, Some("Basic realm=\"restricted\", charset=\"UTF-8\""));
    }
    assert_eq!(get(&lab, "a.example", "/").await.status, 401);
    assert!(!format!("{:?}", lab.plan.routes).contains("salt"));
}

#[tokio::test]
async fn a_route_may_be_for_some_sources_only() {
    let one = saying("one");
    let mut lab = Lab::new();
    let ranges = |ranges: &[&str]| ranges.iter().map(|range| range.parse().unwrap()).collect();
    let allow = |texts: &[&str]| AllowedSources::new(ranges(texts)).unwrap();
    lab.route("in.example", "/", |route| route.sources = allow(&["127.0.0.0/8"]));
    lab.route("out.example", "/", |route| route.sources = allow(&["203.0.113.0/24", "::1"]));
    lab.ready(&[one.address]);
    lab.apply();
    assert_eq!(get(&lab, "in.example", "/").await.status, 200);
    assert_eq!(get(&lab, "out.example", "/").await.reason(), "source_not_allowed");
    let claiming = "GET / HTTP/1.1\r\nHost: out.example\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n";
    assert_eq!(once(&lab, claiming).await.reason(), "source_not_allowed");
    lab.plan.trusted_proxies = ranges(&["127.0.0.0/8"]);
    lab.apply();
    assert_eq!(once(&lab, claiming).await.status, 200);
    // Only the part of the chain that trusted proxies wrote counts.
    let forged =
        "GET / HTTP/1.1\r\nHost: out.example\r\nX-Forwarded-For: 203.0.113.9, 198.51.100.1\r\n\r\n";
    assert_eq!(once(&lab, forged).await.reason(), "source_not_allowed");
}

#[tokio::test]
async fn the_proxy_protocol_counts_from_trusted_peers_only() {
    let one = echo();
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    let v1 = "PROXY TCP4 203.0.113.9 192.0.2.1 5000 80\r\n";
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    assert_eq!(once(&lab, &format!("{v1}{request}")).await.reason(), "malformed_request");
    lab.plan.trusted_proxies = ["127.0.0.1".parse().unwrap()].into();
    lab.apply();
    let reply = once(&lab, &format!("{v1}{request}")).await;
    assert_eq!(reply.sent("x-forwarded-for"), Some("203.0.113.9"));
    assert_eq!(
        ask(&mut lab.connect().await, request).await.sent("x-forwarded-for"),
        Some("127.0.0.1")
    );
    let (client, used) = ("[2001:db8::9]:1".parse().unwrap(), "[2001:db8::1]:80".parse().unwrap());
    let header =
        jaco_edge::wire::proxy::write(client, used, jaco_edge::wire::proxy::Carried::Stream);
    let mut stream = lab.connect().await;
    // In two parts, as networks do.
    stream.write_all(&header[..20]).await.unwrap();
    tokio::task::yield_now().await;
    stream.write_all(&header[20..]).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let reply = read(&mut stream).await.unwrap();
    assert_eq!(reply.sent("x-forwarded-for"), Some("2001:db8::9"));
    let mut broken = lab.connect().await;
    broken.write_all(b"PROXY TCP4 nonsense\r\n").await.unwrap();
    assert!(is_closed(&mut broken, PATIENCE).await);
}

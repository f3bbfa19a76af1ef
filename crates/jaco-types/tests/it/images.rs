//! Names of images and registries, at the bounds of what is accepted (R-CLI-6, R-ROLL-5).

use jaco_types::{ImageDigest, RegistryName, SpecHash, is_image_name};
use proptest::prelude::*;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn refused(text: &str) -> String {
    RegistryName::parse(text).expect_err(text).to_string()
}

/// The whole of an image's name has a bound; one byte more is refused.
#[test]
fn digests_have_a_longest_name() {
    let named = |length: usize| format!("{}@sha256:{HEX}", "r".repeat(length - 72));
    assert_eq!(named(512).len(), 512);
    assert!(ImageDigest::parse(&named(512)).is_some());
    assert!(ImageDigest::parse(&named(513)).is_none());
    assert!(ImageDigest::parse(&named(73)).is_some(), "one character is a repository");
}

/// Each digit of a digest is a small hex digit, and there are 64 of them.
#[test]
fn digests_are_small_hex() {
    let with = |c: char| format!("web@sha256:{c}{}", &HEX[1..]);
    for c in (0..128_u8).map(char::from) {
        let expected = c.is_ascii_digit() || ('a'..='f').contains(&c);
        assert_eq!(ImageDigest::parse(&with(c)).is_some(), expected, "{c:?}");
    }
    for digits in [0, 63] {
        assert!(ImageDigest::parse(&format!("web@sha256:{}", &HEX[..digits])).is_none());
    }
    for text in ["web", "web@sha512:ab", "web@sha256", "@", "", "web:1@sha256"] {
        assert_eq!(ImageDigest::parse(text), None, "{text:?}");
    }
    let tagged = ImageDigest::parse(&format!("host:5000/web:1@sha256:{HEX}")).unwrap();
    assert_eq!(tagged.digest(), format!("sha256:{HEX}"));
    assert_eq!(format!("{tagged:?}"), format!("{:?}", tagged.as_str()));
    assert_eq!(format!("{tagged:>100}").len(), 100);
    assert_eq!(SpecHash([0xab; 32]).short(), "abababababab");
}

/// Every port that there is, in one spelling.
#[test]
fn registries_have_ports() {
    for port in ["1", "80", "5000", "65535"] {
        let name = format!("localhost:{port}");
        assert_eq!(RegistryName::parse(&name).unwrap().as_str(), name);
    }
    for port in ["0", "00", "080", "65536", "99999", "-1", "+1", "1 ", "a", "1:2", ""] {
        assert!(RegistryName::parse(&format!("localhost:{port}")).is_err(), "{port:?}");
    }
}

/// A refusal says which of the three rules is broken, and what was written, cut.
#[test]
fn refusals_of_registries_say_what_to_write() {
    let with_path = refused("ghcr.io/team");
    assert!(with_path.starts_with("invalid registry \"ghcr.io/team\": "), "{with_path}");
    let (short, wrong) = (refused("ghcr"), refused("ghcr.io:0"));
    assert!(with_path != short && short != wrong);
    let long = refused(&format!("{}/x", "a".repeat(200)));
    assert!(long.contains(&format!("\"{}\"", "a".repeat(80))), "{long}");
    for scheme in ["https://", "http://"] {
        let name = RegistryName::parse(&format!("{scheme}Registry.example.com/"));
        assert_eq!(name.unwrap().as_str(), "registry.example.com");
        assert!(RegistryName::parse(scheme).is_err(), "{scheme}");
    }
    assert!(RegistryName::parse("ftp://ghcr.io").is_err());
}

/// The longest host name is a registry, one byte more is none; addresses are in brackets.
#[test]
fn hosts_of_registries_are_bounded() {
    let label = "a".repeat(63);
    let longest = [&label[..], &label, &label, &label[..61]].join(".");
    assert_eq!(RegistryName::parse(&longest).unwrap().as_str(), longest);
    assert!(RegistryName::parse(&format!("{longest}a")).is_err());
    for (text, expected) in [
        ("[::1]", true),
        ("[2001:db8::1]:443", true),
        ("[::1", false),
        ("::1", false),
        ("[::g]", false),
        ("[::1]:", false),
        ("[127.0.0.1]", false),
        ("127.0.0.1", true),
    ] {
        assert_eq!(RegistryName::parse(text).is_ok(), expected, "{text}");
    }
}

/// R-IN-3: each part of an image's name at its bounds, and what no engine takes.
#[test]
fn image_names_have_bounds() {
    let path = |length: usize| "r".repeat(length);
    let tag = |length: usize| format!("web:{}", "t".repeat(length));
    let digest = |length: usize| format!("web@sha256:{}", "a".repeat(length));
    for (name, expected) in [
        (path(255), true),
        (path(256), false),
        (format!("h.example/{}", path(245)), true),
        (format!("h.example/{}", path(246)), false),
        (tag(0), false),
        (tag(1), true),
        (tag(128), true),
        (tag(129), false),
        (digest(31), false),
        (digest(32), true),
        (digest(256), true),
        (digest(257), false),
    ] {
        assert_eq!(is_image_name(&name), expected, "{name}");
    }
    for wrong in [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        "-a",
        "a-",
        "a..b",
        "a___b",
        "a._b",
        "A",
        "a/B",
        "host:/a",
        "host.:80/a",
        "-h.example/a",
        "h.example-/a",
        "[::g]/a",
        "[]/a",
        "a:.t",
        "a:-t",
        "a:t t",
        "a@",
        "a@sha256",
        "a@:aa",
        "a@1sha:aa",
        "a b",
        "a:1:2",
        "http://a/b",
    ] {
        assert!(!is_image_name(wrong), "{wrong:?}");
    }
}

/// R-IN-3: what cannot be a host, though it has a dot, is the first part of a path, as the grammar of references reads it.
#[test]
fn the_first_part_of_a_path_may_look_like_a_host() {
    for name in ["a_a.0/0", "a__b.c/d:1", "a.b_c/d", "a_a.0/0/1"] {
        assert!(is_image_name(name), "{name}");
    }
    for wrong in ["a_a.0:80/0", "a_A.0/0", "a_.0/0", "a_a.0/B", "-a.0/0"] {
        assert!(!is_image_name(wrong), "{wrong}");
    }
}

proptest! {
    /// R-IN-3: whatever is put together by the grammar of references is a name, and no longer one with a character
    /// that the grammar has nowhere, wherever that stands.
    #[test]
    fn image_names_follow_the_grammar(
        host in prop::option::of("(localhost|[A-Za-z0-9]{1,4}(-[a-z0-9])?\\.[a-z0-9]{1,3}|\\[[0-9a-f]{1,4}::1\\]:[0-9]{1,5})"),
        path in "[a-z0-9]{1,4}((\\.|_|__|-{1,3})[a-z0-9]{1,3}){0,2}(/[a-z0-9]{1,3}((\\.|_|__|-{1,3})[a-z0-9]{1,3}){0,2}){0,2}",
        tag in prop::option::of("[A-Za-z0-9_][A-Za-z0-9_.-]{0,6}"),
        digest in prop::option::of("(sha256|sha512|a\\+b):[0-9a-fA-F]{64}"),
        at in any::<prop::sample::Index>(),
        foreign in prop::sample::select(vec![' ', '\n', '$', '#', '?', '\\', 'é', '\0', '%']),
    ) {
        let host = host.map(|host| host + "/").unwrap_or_default();
        let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
        let digest = digest.map(|digest| format!("@{digest}")).unwrap_or_default();
        let name = format!("{host}{path}{tag}{digest}");
        prop_assert!(is_image_name(&name), "{name}");
        let mut spoiled = name.clone();
        spoiled.insert(at.index(name.len() + 1), foreign);
        prop_assert!(!is_image_name(&spoiled), "{spoiled}");
    }
}

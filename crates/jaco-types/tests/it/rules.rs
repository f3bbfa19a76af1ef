//! The rules of names, character by character: what a rule's words say is accepted, and nothing else.

use jaco_types::{
    ClusterId, ConsumerName, ContentName, DeploymentName, Hostname, InvalidName, RegistryUsername,
    ReplicaId, RequestId, ServiceName, TokenId,
};

/// Characters to try: all of ASCII, and some that look like ones that are allowed.
fn characters() -> impl Iterator<Item = char> {
    (0..128_u8).map(char::from).chain(['ä', 'Ä', 'ß', '１', '٣', 'а', '‐', '\u{200b}', '😀'])
}

/// Which characters may be in a name, and which may be its first.
struct Rule {
    text: &'static str,
    length: (usize, usize),
    inside: fn(char) -> bool,
    first: fn(char) -> bool,
}

/// Compares a type with its rule: the words, the bounds of the length, and each character in each place.
fn check<N>(new: fn(&str) -> Result<N, InvalidName>, rule: &Rule) {
    let Rule { text: words, length: (least, most), inside, first } = *rule;
    let filler = |count: usize| "a".repeat(count);
    for length in [least, most] {
        assert!(new(&filler(length)).is_ok(), "{length} characters");
    }
    let refused: Vec<usize> =
        [least.checked_sub(1), Some(most + 1)].into_iter().flatten().collect();
    for length in refused {
        let error = new(&filler(length)).err().unwrap_or_else(|| panic!("{length} characters"));
        assert_eq!(error.rule, words);
        assert_eq!(error.text, filler(length.min(80)), "what is shown is cut");
        assert_eq!(error.to_string(), format!("invalid {} {:?}: {words}", error.kind, error.text));
    }
    for c in characters() {
        let rest = least.max(3) - 1;
        let begins = format!("{c}{}", filler(rest));
        assert_eq!(new(&begins).is_ok(), first(c), "{begins:?}");
        let contains = format!("{}{c}{}", filler(1), filler(rest - 1));
        assert_eq!(new(&contains).is_ok(), inside(c), "{contains:?}");
    }
}

fn is_small(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

#[test]
fn deployments() {
    let rule = Rule {
        text: "use 1 to 63 of a-z, 0-9, '-' and '_', starting with a letter or digit",
        length: (1, 63),
        inside: |c| is_small(c) || matches!(c, '-' | '_'),
        first: is_small,
    };
    check(DeploymentName::new, &rule);
}

#[test]
fn services_and_contents() {
    let rule = Rule {
        text: "use 1 to 63 of a-z, A-Z, 0-9, '.', '-' and '_', starting with a letter or digit",
        length: (1, 63),
        inside: |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'),
        first: |c| c.is_ascii_alphanumeric(),
    };
    check(ServiceName::new, &rule);
    check(ContentName::new, &rule);
}

#[test]
fn consumers_and_tokens() {
    let consumers = Rule {
        text: "use 1 to 63 of a-z, 0-9, '.', '-' and '_', starting with a letter or digit",
        length: (1, 63),
        inside: |c| is_small(c) || matches!(c, '.' | '-' | '_'),
        first: is_small,
    };
    check(ConsumerName::new, &consumers);
    let tokens = Rule {
        text: "use 1 to 32 of a-z, 0-9 and '-'",
        length: (1, 32),
        inside: |c| is_small(c) || c == '-',
        first: |c| is_small(c) || c == '-',
    };
    check(TokenId::new, &tokens);
}

#[test]
fn clusters_and_requests() {
    let clusters = Rule {
        text: "use 32 digits of 0-9 and a-f",
        length: (32, 32),
        inside: |c| c.is_ascii_digit() || matches!(c, 'a'..='f'),
        first: |c| c.is_ascii_digit() || matches!(c, 'a'..='f'),
    };
    check(ClusterId::new, &clusters);
    let graphic = |c: char| ('!'..='~').contains(&c);
    let requests = Rule {
        text: "use 1 to 64 printable ASCII characters without spaces",
        length: (1, 64),
        inside: graphic,
        first: graphic,
    };
    check(RequestId::new, &requests);
    let replicas = Rule {
        text: "use 1 to 512 printable characters",
        length: (1, 512),
        inside: graphic,
        first: graphic,
    };
    check(ReplicaId::parse, &replicas);
}

/// What follows a colon would be taken for the password.
#[test]
fn accounts_at_registries() {
    let no_control = |c: char| c != ':' && !c.is_control();
    let rule = Rule {
        text: "use 1 to 255 bytes, without ':' and control characters",
        length: (1, 255),
        inside: no_control,
        first: no_control,
    };
    check(RegistryUsername::new, &rule);
    assert!(RegistryUsername::new(&"ä".repeat(127)).is_ok());
    assert!(RegistryUsername::new(&"ä".repeat(128)).is_err(), "bytes are counted, not characters");
}

/// RFC 1123: each label by itself, and all of them together.
#[test]
fn hosts() {
    let host = |text: &str| Hostname::new(text).is_ok();
    for c in characters() {
        let is_label = is_small(c);
        for (text, expected) in [
            (format!("{c}b"), is_label),
            (format!("a{c}b"), is_label || matches!(c, '-' | '.')),
            (format!("a{c}"), is_label),
            (format!("a.{c}b"), is_label),
            (format!("a{c}.b"), is_label),
        ] {
            assert_eq!(host(&text), expected, "{text:?}");
        }
    }
    let label = |length: usize| "a".repeat(length);
    assert!(host(&label(63)) && !host(&label(64)));
    assert!(host(&format!("b.{}", label(63))) && !host(&format!("b.{}", label(64))));
    let long = [label(63), label(63), label(63), label(61)].join(".");
    assert_eq!(long.len(), 253);
    assert!(host(&long) && !host(&format!("{long}a")));
    let error = Hostname::new("-").unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid host name \"-\": use 1 to 253 of a-z, 0-9, '-' and '.', each label 1 to 63 long \
         and not bounded by '-'"
    );
}

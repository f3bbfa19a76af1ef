//! An image pinned by its digest.

use std::fmt;
use std::sync::Arc;

use crate::id::SpecHash;
use crate::time::Timestamp;
use crate::unit::Bytes;

/// The longest name of an image with its digest, in bytes.
const DIGEST_MAX: usize = 512;

/// The longest name of an image without tag and digest, in bytes, as registries and engines take it.
const NAME_MAX: usize = 255;

/// The longest tag, in bytes.
const TAG_MAX: usize = 128;

/// Whether `text` names an image as engines take it: `[HOST[:PORT]/]PATH[:TAG][@ALGORITHM:HEX]`.
#[must_use]
pub fn is_image_name(text: &str) -> bool {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    // A colon before the last slash begins a port.
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        Some(_) | None => (rest, None),
    };
    // The grammar reads what is no host, such as the first part of `a_b.c/d`, as a part of the path.
    let on_host =
        || name.split_once('/').is_some_and(|(host, path)| is_host(host) && is_path(path));
    name.len() <= NAME_MAX
        && (is_path(name) || on_host())
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

fn is_path(text: &str) -> bool {
    text.split('/').all(is_component)
}

fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !name.ends_with(':') && !port.ends_with(']') => (name, Some(port)),
        Some(_) | None => (text, None),
    };
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_label = |label: &str| {
        let is_plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        !label.is_empty() && is_plain && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_name = match bare {
        Some(address) => {
            !address.is_empty()
                && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => name.split('.').all(is_label),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_name && port.is_none_or(is_port)
}

/// Small letters and digits, with `.`, `_`, `__` or hyphens between them.
fn is_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().last()];
    let separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_separator =
        |part: &str| matches!(part, "" | "." | "_" | "__") || part.bytes().all(|byte| byte == b'-');
    ends.into_iter().all(|byte| byte.is_some_and(is_word))
        && separators.into_iter().all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=TAG_MAX).contains(&text.len())
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let is_algorithm = algorithm.split(['+', '.', '-', '_']).all(|part| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    is_algorithm
        && hex.len() >= 32
        && hex.len() <= 256
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// An image by its content, `repository@sha256:…`, as engines fetch and run it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageDigest(Arc<str>);

impl ImageDigest {
    /// Reads one; `None` where it is not a repository, `@sha256:` and 64 small hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (repository, digest) = text.split_once("@sha256:")?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_plain = repository.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
        let is_digest = digest.len() == 64 && digest.bytes().all(is_hex);
        let is_one = !repository.is_empty() && is_plain && is_digest && text.len() <= DIGEST_MAX;
        is_one.then(|| Self(text.into()))
    }

    /// The whole of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole of it, to be run or fetched.
    #[must_use]
    pub fn reference(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The digest without the repository, `sha256:…`.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, digest)| digest)
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// An image as a node is asked for it before the first step of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageNeed {
    /// The spec that needs it.
    pub spec: SpecHash,
    /// Which content it must be; where none is named, what its name leads the node to.
    pub digest: Option<ImageDigest>,
}

/// The state of a pull on one node, as the node tells the leader. Never replicated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePull {
    /// The image, as the engine is asked for it.
    pub image: Arc<str>,
    /// What has been fetched of the layers whose size is known so far.
    pub done: Bytes,
    /// The size of these layers; zero before the first is known.
    pub total: Bytes,
    /// Attempts, with the one that goes on.
    pub attempts: u32,
    /// When the next attempt begins; `None` while one goes on, and after the last one.
    pub next_attempt: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-3
    #[test]
    fn names_of_images_are_those_that_engines_take() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let good = [
            "web",
            "web:1",
            "library/web:1.2-rc_3",
            "host.example/a/b_c/d__e/f-g--h:T",
            "localhost/web",
            "localhost:5000/web",
            "127.0.0.1:5000/web:x",
            "[::1]:5000/web",
            "HOST/web",
            "a.b/c.d",
            "a_b.c/d",
            "a_b/c",
        ];
        for name in good {
            assert!(is_image_name(name), "{name}");
            assert!(is_image_name(&format!("{name}@{digest}")), "{name} with a digest");
        }
        let long = ["w".repeat(256), format!("web:{}", "t".repeat(129)), "x".repeat(300 << 10)];
        let bad = [
            "",
            " ",
            "web ",
            "we b",
            "Web",
            "web:",
            "web:-1",
            ":1",
            "/web",
            "web/",
            "a//b",
            "-web",
            "web-",
            "a..b/c/d..e",
            "a___b",
            "a_B.c/d",
            "a_b.c:80/d",
            "web@",
            "web@sha256",
            "web@sha256:12",
            "web:1:2",
            "http://x/web",
            "host:port/web",
            "web\0",
            "web\n",
            "$web",
            "w\u{e9}b",
        ];
        for name in bad.into_iter().chain(long.iter().map(String::as_str)) {
            assert!(!is_image_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_digest_is_checked_where_it_is_made() {
        let hex = "0a".repeat(32);
        let ok = |text: &str| ImageDigest::parse(text).is_some();
        assert!(ok(&format!("web@sha256:{hex}")));
        assert!(ok(&format!("localhost:5000/team/web@sha256:{hex}")));
        for wrong in [
            "web:1".to_owned(),
            format!("@sha256:{hex}"),
            format!("web@sha256:{}", &hex[1..]),
            format!("web@sha256:{}", hex.to_uppercase()),
            format!("we b@sha256:{hex}"),
            format!("web@sha256:{hex}@sha256:{hex}"),
            format!("{}@sha256:{hex}", "w".repeat(500)),
        ] {
            assert!(!ok(&wrong), "{wrong}");
        }
        let whole = ImageDigest::parse(&format!("web@sha256:{hex}")).unwrap();
        assert_eq!(whole.digest(), format!("sha256:{hex}"));
    }
}

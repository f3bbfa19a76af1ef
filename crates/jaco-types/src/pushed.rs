//! Images that users push into the cluster: the digests of their blobs, and their names.

use std::fmt;
use std::sync::Arc;

use crate::id::InvalidName;
use crate::image::{ImageDigest, is_image_name};

/// The longest name of a pushed image, in bytes: a repository, a colon and a tag.
const TAG_BYTES_MAX: usize = 255 + 1 + 128;

/// The prefix of the tags that pinned images have in the engines.
const LOCAL_TAG: &str = "jaco-";

/// A blob by the SHA-256 of its bytes. That of an image's configuration is the image's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobDigest(pub [u8; 32]);

impl BlobDigest {
    /// Reads `sha256:` and 64 small hex digits; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_hex(text.strip_prefix("sha256:")?)
    }

    /// Reads 64 small hex digits; `None` for anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        // Capitals would be a second name for the same blob.
        let is_small = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        (is_small && hex::decode_to_slice(text, &mut digest).is_ok()).then_some(Self(digest))
    }

    /// Its hex digits, as files are named.
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("sha256:{}", self.hex()))
    }
}

impl fmt::Debug for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a pushed image, `REPOSITORY:TAG`, in the one spelling that it has here: without the default registry, and
/// always with a tag.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageTag(Arc<str>);

impl ImageTag {
    /// Takes a name in its one spelling, as [`ImageTag::as_str`] gives it.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let tag = Self::parse(text)?;
        if tag.as_str() == text { Ok(tag) } else { Err(invalid(text)) }
    }

    /// Reads a name as users and compose files write it.
    ///
    /// # Errors
    /// The rule that the text breaks: it is no name of an image, or has a digest.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if text.len() > 2 * TAG_BYTES_MAX || text.contains('@') || !is_image_name(text) {
            return Err(invalid(text));
        }
        let hosts = ["docker.io/", "index.docker.io/"];
        let path = hosts.iter().find_map(|host| text.strip_prefix(host)).unwrap_or(text);
        let path = match path.strip_prefix("library/") {
            Some(rest) if !rest.contains('/') => rest,
            Some(_) | None => path,
        };
        let last = path.rsplit('/').next().unwrap_or(path);
        let whole = if last.contains(':') { path.to_owned() } else { format!("{path}:latest") };
        let is_one = whole.len() <= TAG_BYTES_MAX && is_image_name(&whole);
        if is_one { Ok(Self(whole.into())) } else { Err(invalid(text)) }
    }

    /// The whole of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without its tag.
    #[must_use]
    pub fn repository(&self) -> &str {
        self.0.rsplit_once(':').map_or(&*self.0, |(repository, _)| repository)
    }

    /// An image of this repository by its id.
    #[must_use]
    pub fn pinned(&self, id: BlobDigest) -> Option<ImageDigest> {
        ImageDigest::parse(&format!("{}@{id}", self.repository()))
    }
}

fn invalid(text: &str) -> InvalidName {
    let text = text.chars().take(80).collect();
    let rule = "use REPOSITORY[:TAG] as for `docker tag`, without a digest: app:1, team/app:1.4";
    InvalidName { kind: "name of an image", text, rule }
}

impl fmt::Display for ImageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ImageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What an engine has a pushed image under: a pinned one, `REPOSITORY@sha256:ID`, which no engine knows without a registry,
/// under a tag made of its id, so that images of two revisions are there side by side; others under their name.
#[must_use]
pub fn local_name(image: &str) -> String {
    let pinned = ImageDigest::parse(image);
    let pinned = pinned.as_ref().and_then(|image| image.as_str().split_once("@sha256:"));
    match pinned {
        Some((repository, hex)) => format!("{}:{LOCAL_TAG}{hex}", untagged(repository)),
        None => image.to_owned(),
    }
}

fn untagged(repository: &str) -> &str {
    let path = repository.rfind('/').map_or(0, |slash| slash + 1);
    repository[path..].find(':').map_or(repository, |colon| &repository[..path + colon])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_one_name() {
        let name = |text: &str| ImageTag::parse(text).map(|tag| tag.to_string());
        for text in ["app", "app:latest", "docker.io/library/app", "library/app:latest"] {
            assert_eq!(name(text).as_deref(), Ok("app:latest"), "{text}");
        }
        assert_eq!(
            name("localhost:5000/team/app").as_deref(),
            Ok("localhost:5000/team/app:latest")
        );
        assert_eq!(name("docker.io/team/app:1").as_deref(), Ok("team/app:1"));
        let hex = "0a".repeat(32);
        for text in ["", "App", "app:", "app:1:2", "a b", &format!("app@sha256:{hex}")] {
            assert!(name(text).is_err(), "{text}");
        }
        assert!(ImageTag::new("app").is_err(), "what is stored has one spelling");
        let tag = ImageTag::new("localhost:5000/app:1").unwrap();
        assert_eq!(tag.repository(), "localhost:5000/app");
        let id = BlobDigest([10; 32]);
        let pinned = tag.pinned(id).unwrap();
        assert_eq!(pinned.as_str(), format!("localhost:5000/app@sha256:{hex}"));
        assert_eq!(local_name(pinned.as_str()), format!("localhost:5000/app:jaco-{hex}"));
        assert_eq!(local_name("app:1"), "app:1");
        assert_eq!(BlobDigest::parse(&id.to_string()), Some(id));
        assert_eq!(BlobDigest::from_hex(&hex.to_uppercase()), None);
    }
}

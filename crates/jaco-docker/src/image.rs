//! Digest of an image in the repository of its name.

use jaco_types::ImageDigest;

/// The digest of the image `name` among those known to the engine. An image has one digest per
/// repository it was pulled from or pushed to; only that of its own repository identifies what
/// other nodes pull by the same name. Of several the smallest is taken: their content is equal.
pub(crate) fn digest_of(name: &str, digests: &[String]) -> Option<ImageDigest> {
    let own = repository(name);
    let digests = digests.iter().filter(|digest| repository(digest) == own);
    digests.filter_map(|digest| ImageDigest::parse(digest)).min()
}

/// Repository of an image in Docker's short form, without the default registry.
fn repository(image: &str) -> &str {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let path = name.rfind('/').map_or(0, |slash| slash + 1);
    let name = name[path..].find(':').map_or(name, |colon| &name[..path + colon]);
    let own = ["docker.io/", "index.docker.io/"];
    let name = own.iter().find_map(|registry| name.strip_prefix(registry)).unwrap_or(name);
    name.strip_prefix("library/").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_names_are_normalised() {
        for (image, short) in [
            ("nginx", "nginx"),
            ("nginx:1.27", "nginx"),
            ("docker.io/library/nginx:1.27", "nginx"),
            ("index.docker.io/library/nginx", "nginx"),
            ("library/nginx", "nginx"),
            ("team/web:1@sha256:00", "team/web"),
            ("localhost:5000/web", "localhost:5000/web"),
            ("localhost:5000/team/web:1", "localhost:5000/team/web"),
        ] {
            assert_eq!(repository(image), short, "{image}");
        }
    }

    /// R-ROLL-5: digests in other repositories do not count.
    #[test]
    fn only_the_digest_of_its_repository_counts() {
        let digest =
            |repository: &str, digit: &str| format!("{repository}@sha256:{}", digit.repeat(64));
        let known = [digest("localhost:5000/web", "a"), digest("nginx", "c"), digest("nginx", "b")];
        let of = |name: &str| digest_of(name, &known).map(|digest| digest.to_string());
        assert_eq!(of("localhost:5000/web:2"), Some(digest("localhost:5000/web", "a")));
        assert_eq!(of("docker.io/library/nginx:1"), Some(digest("nginx", "b")));
        assert_eq!(of("web:2"), None);
        assert_eq!(digest_of("web:2", &[]), None);
    }
}

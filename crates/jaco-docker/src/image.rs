//! What an image of the engine is in the repository that its name says.

use jaco_types::ImageDigest;

/// The digest of the image called `name`, from those that the engine knows of it. An image has one in
/// each repository that it was fetched from or sent to; only that of its own repository stands for
/// what other nodes get by the same name. Of several the smallest is taken: their content is the same.
pub(crate) fn digest_of(name: &str, digests: &[String]) -> Option<ImageDigest> {
    let own = repository(name);
    let digests = digests.iter().filter(|digest| repository(digest) == own);
    digests.filter_map(|digest| ImageDigest::parse(digest)).min()
}

/// The repository of an image, as Docker writes it short: without what stands for its own registry.
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
    fn a_repository_has_one_short_name() {
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

    /// R-ROLL-5: what an image is called elsewhere says nothing about what others get by its name.
    #[test]
    fn only_the_digest_of_its_own_repository_counts() {
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

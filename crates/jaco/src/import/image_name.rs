//! The image of a service: by its digest where a registry has it.

use super::inspected::Image;

/// How the image of a service is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    /// With a digest of a registry: every node gets the same bytes.
    Pinned(String),
    /// This engine alone has it, as far as it knows.
    Local(String),
    /// It has no name any more.
    Nameless(String),
}

/// Names the image that runs. `written` is what the service asked for; `built_as` are names that Docker Compose gives to what it
/// builds.
pub(super) fn name(written: &str, image: Option<&Image>, built_as: &[String]) -> Named {
    if written.contains('@') && !written.starts_with("sha256:") {
        return Named::Pinned(written.to_owned());
    }
    let Some(image) = image else { return Named::Local(written.to_owned()) };
    let is_id = written.starts_with("sha256:") || image.id.ends_with(written);
    let written = match image.repo_tags.first() {
        Some(tag) if is_id => tag,
        None if is_id => match image.repo_digests.first() {
            Some(digest) => return Named::Pinned(digest.clone()),
            None => return Named::Nameless(written.to_owned()),
        },
        _ => written,
    };
    let repository = repository(written);
    // Some stores give a digest to what they have built as well.
    if built_as.iter().any(|name| name == repository) {
        return Named::Local(written.to_owned());
    }
    let digests = image.repo_digests.iter().filter_map(|digest| digest.split_once('@'));
    let mut of_repository = digests.filter(|(of, _)| familiar(of) == familiar(repository));
    match of_repository.next() {
        Some((_, digest)) => Named::Pinned(format!("{written}@{digest}")),
        None => Named::Local(written.to_owned()),
    }
}

/// The name without its tag. A port of a registry is before a `/`.
fn repository(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        Some(_) | None => name,
    }
}

/// The short form of names of Docker Hub.
fn familiar(repository: &str) -> &str {
    let name = repository.strip_prefix("index.").unwrap_or(repository);
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    name.strip_prefix("library/").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: &str, tags: &[&str], digests: &[&str], expected: Named) {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let id = format!("sha256:{}", "1f".repeat(32));
        let image =
            Image { id, repo_tags: texts(tags), repo_digests: texts(digests), ..Image::default() };
        assert_eq!(name(written, Some(&image), &["shop-web".to_owned()]), expected, "{written}");
    }

    /// R-IN-2: what runs is pinned by the digest that the registry of its name has for it, and by no other one.
    #[test]
    fn images_are_pinned_by_the_digest_of_their_registry() {
        let pinned = |text: &str| Named::Pinned(text.to_owned());
        let local = |text: &str| Named::Local(text.to_owned());
        check("nginx:1.29", &["nginx:1.29"], &["nginx@sha256:aa"], pinned("nginx:1.29@sha256:aa"));
        check(
            "docker.io/library/nginx",
            &[],
            &["nginx@sha256:aa"],
            pinned("docker.io/library/nginx@sha256:aa"),
        );
        check(
            "r:5000/a/b:1",
            &[],
            &["a/b@sha256:aa", "r:5000/a/b@sha256:bb"],
            pinned("r:5000/a/b:1@sha256:bb"),
        );
        check("web@sha256:cc", &[], &["web@sha256:aa"], pinned("web@sha256:cc"));
        check("shop_web", &["shop_web:latest"], &[], local("shop_web"));
        check("mirror/web:1", &[], &["web@sha256:aa"], local("mirror/web:1"));
        check("shop-web", &["shop-web:latest"], &["shop-web@sha256:aa"], local("shop-web"));
        let id = format!("sha256:{}", "1f".repeat(32));
        check(&id, &["web:2"], &["web@sha256:aa"], pinned("web:2@sha256:aa"));
        check(&id, &[], &["web@sha256:aa"], pinned("web@sha256:aa"));
        check(&id, &[], &[], Named::Nameless(id.clone()));
        assert_eq!(name("web:1", None, &[]), local("web:1"));
    }
}

//! The paths of the page. Whatever is below [`PREFIX`] belongs to it.

use std::fmt::{self, Write as _};

/// Where all of it is.
pub const PREFIX: &str = "/ui";

/// Where a user signs in.
pub const LOGIN: &str = "/ui/login";

/// Where a user signs out.
pub const LOGOUT: &str = "/ui/logout";

/// Where a browser is told about changes.
pub const EVENTS: &str = "/ui/events";

/// Where a browser is sent log lines as they come.
pub const LINES: &str = "/ui/events/lines";

/// What would be if something were otherwise.
pub const WHATIF: &str = "/ui/whatif";

/// What the names of actions follow.
pub const ACTIONS: &str = "/ui/do/";

/// A path of the page with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link(String);

impl Link {
    /// The overview.
    #[must_use]
    pub fn overview() -> Self {
        Self(PREFIX.to_owned())
    }

    /// A deployment.
    #[must_use]
    pub fn deployment(name: &str) -> Self {
        Self(format!("{PREFIX}/deployments/{}", encoded(name)))
    }

    /// A node.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self(format!("{PREFIX}/nodes/{}", encoded(name)))
    }

    /// Why replicas are where they are.
    #[must_use]
    pub fn why() -> Self {
        Self(format!("{PREFIX}/why"))
    }

    /// What would be if something were otherwise.
    #[must_use]
    pub fn whatif() -> Self {
        Self(WHATIF.to_owned())
    }

    /// An action, by its name: what it would do, and where its form is sent.
    #[must_use]
    pub fn action(name: &str) -> Self {
        Self(format!("{ACTIONS}{}", encoded(name)))
    }

    /// The audit events.
    #[must_use]
    pub fn audit() -> Self {
        Self(format!("{PREFIX}/audit"))
    }

    /// Log lines.
    #[must_use]
    pub fn logs() -> Self {
        Self(format!("{PREFIX}/logs"))
    }

    /// What two revisions of a deployment differ in.
    #[must_use]
    pub fn difference(deployment: &str) -> Self {
        Self(format!("{PREFIX}/deployments/{}/diff", encoded(deployment)))
    }

    /// Which node reaches which over the networks of the cluster.
    #[must_use]
    pub fn network() -> Self {
        Self(format!("{PREFIX}/network"))
    }

    /// A part of the same page.
    #[must_use]
    pub fn part(id: &str) -> Self {
        Self(format!("#{}", encoded(id)))
    }

    /// What tells about changes.
    #[must_use]
    pub fn events() -> Self {
        Self(EVENTS.to_owned())
    }

    /// What sends log lines as they come.
    #[must_use]
    pub fn lines() -> Self {
        Self(LINES.to_owned())
    }

    /// Where to sign in.
    #[must_use]
    pub fn login() -> Self {
        Self(LOGIN.to_owned())
    }

    /// Where to sign out.
    #[must_use]
    pub fn logout() -> Self {
        Self(LOGOUT.to_owned())
    }

    /// An asset, by its name and what its content is known by.
    #[must_use]
    pub fn asset(name: &str, version: &str) -> Self {
        Self(format!("{PREFIX}/assets/{name}")).with("v", version)
    }

    /// A path that a browser asked for, if it is one of the page that is worth returning to.
    #[must_use]
    pub fn wanted(path: &str) -> Option<Self> {
        let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        let is_ours = is_below(path.split('?').next().unwrap_or_default());
        let leads_on = !path.starts_with(LOGIN) && !path.starts_with(LOGOUT);
        (is_plain && is_ours && leads_on && path.len() <= 1024).then(|| Self(path.to_owned()))
    }

    /// The link with a further parameter, unless that is empty.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            let separator = if self.0.contains('?') { '&' } else { '?' };
            write!(self.0, "{separator}{name}={}", encoded(value)).expect("writing to a string");
        }
        self
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a path belongs to the page, whether or not anything is there.
#[must_use]
pub fn is_below(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path is that of a stream, which a script reads: it is answered by a status and a line of text, never by a page.
#[must_use]
pub fn is_stream(path: &str) -> bool {
    [EVENTS, LINES].contains(&path)
}

fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to a string");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(Link::deployment("a/b c").to_string(), "/ui/deployments/a%2Fb%20c");
        let link = Link::why().with("deployment", "shop").with("service", "").with("replica", "é&");
        assert_eq!(link.to_string(), "/ui/why?deployment=shop&replica=%C3%A9%26");
    }

    /// R-OPS-1: after the login a browser is led to this page only.
    #[test]
    fn only_paths_of_the_page_are_returned_to() {
        for path in ["/ui", "/ui/nodes/n1", "/ui/why?deployment=shop&service=web"] {
            assert_eq!(Link::wanted(path).map(|link| link.to_string()), Some(path.to_owned()));
        }
        for path in [
            "//evil.example/ui",
            "https://evil.example/ui",
            "/\\evil.example",
            "/ui\\..\\x",
            "/uix",
            "/ui /x",
            "/ui/\r\nx: y",
            "/ui/login",
            "/ui/logout",
            "/api/v1",
            "",
        ] {
            assert_eq!(Link::wanted(path), None, "{path:?}");
        }
    }
}

//! What a grant allows a deployment to reach of the nodes.

use std::fmt;

use super::{Reach, ReachKind};

/// The longest value that can be granted: the longest path that Linux takes.
const VALUE_BYTES_MAX: usize = 4096;

/// Why a text is no grant, with what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidGrant(String);

impl fmt::Display for InvalidGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidGrant {}

impl Reach {
    /// The reach that `KIND` or `KIND=VALUE` says, as warnings and refusals write it.
    ///
    /// # Errors
    /// For an unknown kind, for a value where there is none or the other way round, and for paths that are not
    /// absolute or not clean.
    pub fn parse(text: &str) -> Result<Self, InvalidGrant> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let Some(kind) = ReachKind::ALL.iter().copied().find(|kind| kind.as_str() == name) else {
            let all: Vec<&str> = ReachKind::ALL.iter().map(|kind| kind.as_str()).collect();
            return Err(InvalidGrant(format!("there is no {name:?}: use {}", all.join(", "))));
        };
        let is_folder = kind == ReachKind::HostPath && value != "/";
        let value = if is_folder { value.strip_suffix('/').unwrap_or(value) } else { value };
        Self::new(kind, value).checked()
    }

    /// The reach, if it can be granted.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn checked(self) -> Result<Self, InvalidGrant> {
        let (name, value) = (self.kind.as_str(), self.value.as_str());
        let is_privileged = self.kind == ReachKind::Privileged;
        let problem = if is_privileged && !value.is_empty() {
            format!("{name} has no value: write {name}")
        } else if !is_privileged && value.is_empty() {
            format!("{name} needs a value: write {name}=VALUE")
        } else if value.len() > VALUE_BYTES_MAX {
            format!("the value of {name} has {} bytes, more than {VALUE_BYTES_MAX}", value.len())
        } else if self.kind == ReachKind::HostPath && !is_clean(value) {
            format!("{value:?} is no absolute path without `.`, `..` and empty parts")
        } else {
            return Ok(self);
        };
        Err(InvalidGrant(problem))
    }

    /// Whether a grant of this allows `other`: the same, or, for paths of the node, what is below it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        if (self.kind, other.kind) != (ReachKind::HostPath, ReachKind::HostPath) {
            return false;
        }
        let below = other.value.strip_prefix(self.value.strip_suffix('/').unwrap_or(&self.value));
        below.is_some_and(|below| below.starts_with('/') && is_clean(&other.value))
    }
}

fn is_clean(path: &str) -> bool {
    let parts = path.strip_prefix('/').map(|rest| rest.split('/'));
    path == "/" || parts.is_some_and(|mut parts| parts.all(|part| !matches!(part, "" | "." | "..")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(value: &str) -> Reach {
        Reach::new(ReachKind::HostPath, value)
    }

    /// R-IN-6: a grant of a path covers what is below it, and nothing that only looks like it.
    #[test]
    fn a_path_covers_what_is_below_it() {
        let media = path("/srv/media");
        for covered in ["/srv/media", "/srv/media/x", "/srv/media/x/y"] {
            assert!(media.covers(&path(covered)), "{covered}");
        }
        for other in ["/srv/mediax", "/srv/media/../x", "/srv/media/", "/srv/media//x", "/srv", "/"]
        {
            assert!(!media.covers(&path(other)), "{other}");
        }
        assert!(path("/").covers(&path("/srv")));
        assert!(!path("/").covers(&Reach::new(ReachKind::EngineSocket, "/run/docker.sock")));
        assert!(!path("/run").covers(&Reach::new(ReachKind::ClusterSocket, "/run/jaco")));
    }

    /// R-IN-6: what is no path covers itself alone.
    #[test]
    fn other_kinds_cover_themselves() {
        for kind in ReachKind::ALL.iter().copied().filter(|kind| *kind != ReachKind::HostPath) {
            let grant = Reach::new(kind, "/a");
            assert!(grant.covers(&grant));
            assert!(!grant.covers(&Reach::new(kind, "/a/b")));
            assert!(!Reach::new(kind, "").covers(&grant));
            assert!(!grant.covers(&Reach::new(kind, "")));
        }
        assert!(!Reach::new(ReachKind::Privileged, "").covers(&path("/a")));
    }

    /// R-IN-6: what is written is what is granted; what would cover nothing is refused.
    #[test]
    fn grants_are_read_as_they_are_written() {
        for text in ["privileged", "host-path=/srv/media", "device=c 1:3 rwm", "host-path=/"] {
            assert_eq!(Reach::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Reach::parse("host-path=/srv/media/").unwrap(), path("/srv/media"));
        for (text, why) in [
            ("root", "there is no \"root\""),
            ("privileged=yes", "write privileged"),
            ("host-path", "needs a value"),
            ("host-path=srv", "no absolute path"),
            ("host-path=/srv/../etc", "no absolute path"),
            ("capability=", "needs a value"),
        ] {
            let error = Reach::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Reach::parse(&format!("runtime={}", "x".repeat(4097))).is_err());
    }
}

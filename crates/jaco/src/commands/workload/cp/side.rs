//! The two sides of a copy. Pure.

use std::path::PathBuf;

use crate::error::CliError;
use crate::session::replica::Named;

/// A copy: the container, the path in there, and the other side.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sides {
    pub(super) named: Named,
    pub(super) path: InContainer,
    pub(super) way: Way,
}

/// Which way, with the side of this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    Out(Local),
    In(Local),
}

/// The side of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Local {
    Path(LocalPath),
    /// Stdin or stdout.
    Stream,
}

/// A path of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocalPath {
    pub(super) path: PathBuf,
    pub(super) means: Means,
}

/// A path in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InContainer {
    /// Absolute, without a slash at its end.
    pub(super) path: String,
    pub(super) means: Means,
}

/// What a path stands for, by its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// A file or a folder.
    Any,
    /// A folder: it ends with a slash.
    Folder,
    /// What is in a folder: it ends with a slash and a dot.
    Contents,
}

impl Sides {
    /// # Errors
    /// Unless exactly one side is in a container.
    pub(super) fn parse(from: &str, to: &str) -> Result<Self, CliError> {
        let way = match (remote(from), remote(to)) {
            (Some(remote), None) => Ok((remote, Way::Out(Local::parse(to)))),
            (None, Some(remote)) => Ok((remote, Way::In(Local::parse(from)))),
            (Some(_), Some(_)) => Err("both sides are in containers"),
            (None, None) => Err("no side is in a container"),
        };
        let ((named, path), way) = way.map_err(|message| {
            CliError::usage(
                message,
                "one side is DEPLOYMENT/SERVICE[/N]:PATH or REPLICA:PATH, the other a path of this \
                 machine; ./ before a path with a colon makes it one",
            )
        })?;
        Ok(Self { named: Named::parse(named), path: InContainer::parse(path), way })
    }
}

/// The replica and the path, if a side has both: a path of this machine has no colon, or begins with a slash or a dot.
fn remote(side: &str) -> Option<(&str, &str)> {
    let (named, path) = side.split_once(':')?;
    (!named.is_empty() && !named.starts_with(['/', '.'])).then_some((named, path))
}

impl Local {
    fn parse(side: &str) -> Self {
        match side {
            "-" => Self::Stream,
            side => {
                let (_, means) = split(side);
                Self::Path(LocalPath { path: PathBuf::from(side), means })
            }
        }
    }
}

impl InContainer {
    fn parse(path: &str) -> Self {
        let (path, means) = split(path);
        Self { path: format!("/{}", path.trim_matches('/')), means }
    }

    /// The folder that it is in, and its name; the root is in itself.
    pub(super) fn split(&self) -> (String, String) {
        match self.path.rsplit_once('/') {
            Some(("", name)) => ("/".to_owned(), name.to_owned()),
            Some((folder, name)) => (folder.to_owned(), name.to_owned()),
            None => ("/".to_owned(), self.path.clone()),
        }
    }
}

/// A path without the end that says what it stands for.
fn split(path: &str) -> (&str, Means) {
    if path == "." || path == "./" {
        return (path, Means::Contents);
    }
    if let Some(path) = path.strip_suffix("/.") {
        return (path, Means::Contents);
    }
    match path.ends_with('/') {
        true => (path, Means::Folder),
        false => (path, Means::Any),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Named {
        Named::parse("shop/web")
    }

    #[test]
    fn one_side_is_in_a_container() {
        let path = |path: &str, means| InContainer { path: path.to_owned(), means };
        let local = |path: &str, means| Local::Path(LocalPath { path: path.into(), means });
        let sides = Sides::parse("shop/web:/srv/", "a:b/c").unwrap_err();
        assert!(sides.to_string().contains("both sides"), "{sides}");
        let sides = Sides::parse("shop/web", "/a:b").unwrap_err();
        assert!(sides.to_string().contains("no side"), "{sides}");
        assert_eq!(
            Sides::parse("shop/web:srv/a", "./a:b").unwrap(),
            Sides {
                named: service(),
                path: path("/srv/a", Means::Any),
                way: Way::Out(local("./a:b", Means::Any)),
            }
        );
        assert_eq!(
            Sides::parse("site/.", "shop-web-0:/srv/").unwrap(),
            Sides {
                named: Named::Replica("shop-web-0".to_owned()),
                path: path("/srv", Means::Folder),
                way: Way::In(local("site/.", Means::Contents)),
            }
        );
        let sides = Sides::parse("-", "shop/web:/").unwrap();
        assert_eq!((sides.path, sides.way), (path("/", Means::Folder), Way::In(Local::Stream)));
        let sides = Sides::parse("shop/web:/srv/.", "-").unwrap();
        assert_eq!(
            (sides.path, sides.way),
            (path("/srv", Means::Contents), Way::Out(Local::Stream))
        );
    }

    #[test]
    fn paths_have_a_folder_and_a_name() {
        let split = |path: &str| InContainer::parse(path).split();
        assert_eq!(split("/a/b/c"), ("/a/b".to_owned(), "c".to_owned()));
        assert_eq!(split("/a"), ("/".to_owned(), "a".to_owned()));
        assert_eq!(split("/"), ("/".to_owned(), String::new()));
    }
}

//! Contexts: the user's clusters by name, in `~/.config/jaco/config.toml`, as `jaco context set` writes them. The file
//! holds paths of tokens, never tokens; those are in the folder of the context.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The contents of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The context that is used if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The contexts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub contexts: BTreeMap<String, Cluster>,
}

/// How to reach one cluster: a socket, or servers with the credentials of both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The unix socket of a daemon on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// `host:port` of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// The cluster's CA certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// A file that holds the operator token, readable by its owner only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A client certificate instead of a token, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// A file that holds the certificate's private key, readable by its owner only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

/// Why the file of contexts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ContextsError {
    /// It cannot be read or written.
    #[error("{} cannot be accessed", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Others can read or write it.
    #[error("{} is accessible to others (mode {mode:04o}); run chmod 600", path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is no list of contexts.
    #[error("{} is no valid list of contexts", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The position and the cause.
        #[source]
        source: Box<toml::de::Error>,
    },
}

impl Contexts {
    /// Reads the user's file.
    ///
    /// # Errors
    /// If it cannot be read, others can access it, or it is malformed.
    pub fn load_default() -> Result<Self, ContextsError> {
        let Some(path) = default_path() else { return Ok(Self::default()) };
        Self::load(&path)
    }

    /// Reads the file; an absent file has no contexts.
    ///
    /// # Errors
    /// If it cannot be read, others can access it, or it is malformed.
    pub fn load(path: &Path) -> Result<Self, ContextsError> {
        let io = |source| ContextsError::Io { path: path.to_owned(), source };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(io(error)),
        };
        let mode = fs::metadata(path).map_err(io)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(ContextsError::TooOpen { path: path.to_owned(), mode });
        }
        toml::from_str(&text).map_err(|source| ContextsError::Malformed {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    /// Replaces the file atomically, readable by its owner only.
    ///
    /// # Errors
    /// If it cannot be written.
    ///
    /// # Panics
    /// Never: the fields are texts, lists and tables.
    pub fn save(&self, path: &Path) -> Result<(), ContextsError> {
        let io = |source| ContextsError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io)?;
        }
        let text = toml::to_string(self).expect("the fields are texts, lists and tables");
        let temporary = path.with_extension("toml.tmp");
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        let mut file = file.map_err(io)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
        fs::rename(&temporary, path).map_err(io)
    }
}

/// The path of the user's file: `$XDG_CONFIG_HOME/jaco/config.toml`, else below `~/.config`.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(base.join("jaco/config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Contexts {
        let entry = Cluster {
            servers: vec!["10.0.0.1:7000".to_owned()],
            ca: Some("/etc/jaco/ca.crt".into()),
            token_file: Some("/home/ann/token".into()),
            ..Cluster::default()
        };
        Contexts {
            current: Some("prod".to_owned()),
            contexts: BTreeMap::from([("prod".to_owned(), entry)]),
        }
    }

    #[test]
    fn saved_contexts_are_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jaco/config.toml");
        assert_eq!(Contexts::load(&path).unwrap(), Contexts::default());
        example().save(&path).unwrap();
        assert_eq!(Contexts::load(&path).unwrap(), example());
        expect_test::expect![[r#"
            current = "prod"

            [contexts.prod]
            servers = ["10.0.0.1:7000"]
            ca = "/etc/jaco/ca.crt"
            token_file = "/home/ann/token"
        "#]]
        .assert_eq(&fs::read_to_string(&path).unwrap());
    }

    #[test]
    fn file_readable_by_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        example().save(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Contexts::load(&path), Err(ContextsError::TooOpen { mode: 0o644, .. })));
    }

    #[test]
    fn unknown_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        example().save(&path).unwrap();
        fs::write(&path, "[contexts.a]\nserver = \"typo\"\n").unwrap();
        assert!(matches!(Contexts::load(&path), Err(ContextsError::Malformed { .. })));
    }
}

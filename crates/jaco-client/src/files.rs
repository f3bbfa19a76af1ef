//! Targets from the files that users have: a context of `jaco`, or the authority's certificate and a token.

use std::error::Error;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jaco_pki::{NodeKey, OperatorCredentials, TrustBundle};

use crate::contexts::{Cluster, Contexts, ContextsError};
use crate::target::{Credential, Target, TargetError};

/// Longer than any of these files; bounds the memory if a device is given by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why files do not lead to a target.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file of contexts.
    #[error("the contexts cannot be read")]
    Contexts(#[from] ContextsError),
    /// The file of contexts has no such context.
    #[error("there is no context {0:?}: `jaco context ls` lists them, `jaco context set` adds one")]
    NoContext(String),
    /// No context is the current one, and none was named.
    #[error("no context is chosen: name one, or choose one with `jaco context use`")]
    NoneChosen,
    /// The context has servers, and no certificate of their authority or no credential.
    #[error("context {context:?} has no {missing}: `jaco context set` adds it")]
    Incomplete {
        /// Its name.
        context: String,
        /// What it lacks.
        missing: &'static str,
    },
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file with a secret can be read by others.
    #[error("{} holds a secret and is accessible to others (mode {mode:04o}): run chmod 600", path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file has not what it should have.
    #[error("{} holds no {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong with it. It never has a part of a secret.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The servers.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl Target {
    /// A context of the user by its name, or the current one; what `jaco context set` wrote.
    ///
    /// # Errors
    /// If there is no such context, or one of its files cannot be used.
    pub fn from_context(name: Option<&str>) -> Result<Self, FileError> {
        Self::from_contexts(&Contexts::load_default()?, name)
    }

    /// As [`Target::from_context`], of these contexts.
    ///
    /// # Errors
    /// As [`Target::from_context`].
    pub fn from_contexts(contexts: &Contexts, name: Option<&str>) -> Result<Self, FileError> {
        let name = name.or(contexts.current.as_deref()).ok_or(FileError::NoneChosen)?;
        let context = contexts.contexts.get(name);
        let context = context.ok_or_else(|| FileError::NoContext(name.to_owned()))?;
        if let Some(socket) = &context.socket {
            return Ok(Self::socket(socket));
        }
        let missing = |missing| FileError::Incomplete { context: name.to_owned(), missing };
        let ca = context.ca.as_ref().ok_or_else(|| missing("certificate of the authority"))?;
        let credential =
            credential(context).ok_or_else(|| missing("token or client certificate"))?;
        Ok(Self::servers_by(&context.servers, trust(ca)?, credential?)?)
    }

    /// Nodes of a cluster, each `host:port`, by the certificate of its authority and an operator token, each in a file.
    ///
    /// # Errors
    /// If a file cannot be used, others can read the token, or there is no server.
    pub fn from_files(servers: &[String], ca: &Path, token: &Path) -> Result<Self, FileError> {
        Ok(Self::servers_by(servers, trust(ca)?, token_in(token)?)?)
    }
}

/// The credential of a context; none if it has none.
fn credential(context: &Cluster) -> Option<Result<Credential, FileError>> {
    match (&context.token_file, &context.certificate, &context.key) {
        (Some(token), _, _) => Some(token_in(token)),
        (None, Some(certificate), Some(key)) => Some(certificate_in(certificate, key)),
        (None, _, _) => None,
    }
}

fn trust(path: &Path) -> Result<TrustBundle, FileError> {
    let expected = "certificate of a cluster's authority";
    TrustBundle::from_pem(&read(path)?).map_err(|error| malformed(path, expected, error))
}

fn token_in(path: &Path) -> Result<Credential, FileError> {
    let token = read_secret(path)?.trim().parse();
    let token =
        token.map_err(|error: jaco_pki::TokenParseError| malformed(path, "operator token", error));
    token.map(Credential::Token)
}

fn certificate_in(certificate: &Path, key: &Path) -> Result<Credential, FileError> {
    let pem = read(certificate)?;
    let private = NodeKey::from_pem(&read_secret(key)?);
    let private = private.map_err(|error| malformed(key, "private key", error))?;
    let credentials = OperatorCredentials::new(private, &pem);
    let expected = "certificate of an operator for that key";
    let credentials = credentials.map_err(|error| malformed(certificate, expected, error))?;
    Ok(Credential::Certificate(Box::new(credentials)))
}

fn malformed(
    path: &Path,
    expected: &'static str,
    error: impl Error + Send + Sync + 'static,
) -> FileError {
    FileError::Malformed { path: path.to_owned(), expected, source: Box::new(error) }
}

fn read(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError::Unreadable { path: path.to_owned(), source };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Reads a file that only its owner can read.
fn read_secret(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError::Unreadable { path: path.to_owned(), source };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(FileError::TooOpen { path: path.to_owned(), mode });
    }
    read(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn contexts(context: Cluster) -> Contexts {
        let contexts = BTreeMap::from([("prod".to_owned(), context)]);
        Contexts { current: Some("prod".to_owned()), contexts }
    }

    fn why(found: Result<Target, FileError>) -> String {
        found.expect_err("it is refused").to_string()
    }

    #[test]
    fn contexts_lead_to_their_socket_or_servers() {
        let local = contexts(Cluster { socket: Some("/a.sock".into()), ..Cluster::default() });
        let found = Target::from_contexts(&local, None).expect("it is complete");
        assert!(format!("{found:?}").contains("/a.sock"), "{found:?}");
        assert!(why(Target::from_contexts(&local, Some("other"))).contains("\"other\""));
        assert!(why(Target::from_contexts(&Contexts::default(), None)).contains("context use"));
        let servers = vec!["n1:7000".to_owned()];
        let bare = contexts(Cluster { servers, ..Cluster::default() });
        assert!(why(Target::from_contexts(&bare, None)).contains("certificate of the authority"));
    }

    /// Secrets are only read from files of their owner, and are in no error.
    #[test]
    fn files_are_refused_by_name_and_without_their_content() {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        let token = folder.path().join("token");
        fs::write(&token, "jo1.not.a.token").expect("written");
        let open = token_in(&token).expect_err("others can read it").to_string();
        assert!(open.contains("token") && open.contains("chmod 600"), "{open}");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let error = token_in(&token).expect_err("it is no token");
        let (said, because) = (error.to_string(), format!("{:?}", error.source()));
        assert!(said.contains("no operator token"), "{said}");
        assert!(!said.contains("jo1.not") && !because.contains("jo1.not"), "{because}");
        let missing = trust(&folder.path().join("ca.crt")).expect_err("it is not there");
        assert!(matches!(missing, FileError::Unreadable { .. }));
    }
}

//! Chooses the cluster to connect to from flags, environment and contexts. Pure.

use std::path::PathBuf;

use jaco_client::DEFAULT_SOCKET;

use super::contexts::{Cluster, Contexts};
use crate::error::CliError;
use crate::options::GlobalOptions;

/// The environment variables that choose a cluster; an empty one counts as unset.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    /// `JACO_SERVER`
    pub server: Option<String>,
    /// `JACO_SOCKET`
    pub socket: Option<String>,
    /// `JACO_CONTEXT`
    pub context: Option<String>,
    /// `JACO_CA_CERT`
    pub ca_cert: Option<String>,
    /// `JACO_TOKEN`
    pub token: Option<String>,
}

/// Where to connect to, and where the credentials are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The unix socket of a daemon on this machine.
    Socket(PathBuf),
    /// Nodes, over TLS.
    Servers {
        /// `host:port` of each.
        servers: Vec<String>,
        /// The context that they come from.
        context: Option<String>,
        /// The file of the CA certificate.
        ca: Option<PathBuf>,
        token: TokenSource,
    },
}

/// Where the operator token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// `JACO_TOKEN`.
    Environment,
    /// A file; `-` is stdin.
    File(PathBuf),
    /// Not given.
    Missing,
}

impl Environment {
    /// The variables of this process.
    #[must_use]
    pub(crate) fn of_process() -> Self {
        let get = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            server: get("JACO_SERVER"),
            socket: get("JACO_SOCKET"),
            context: get("JACO_CONTEXT"),
            ca_cert: get("JACO_CA_CERT"),
            token: get("JACO_TOKEN"),
        }
    }
}

/// Chooses the cluster: by flags, else by the environment, else by the current context, else the socket
/// of this machine's daemon.
///
/// # Errors
/// If the named context does not exist, or the environment names two clusters.
pub(crate) fn choose(
    flags: &GlobalOptions,
    environment: &Environment,
    contexts: &Contexts,
) -> Result<Choice, CliError> {
    let credentials = |entry: &Cluster| credentials(flags, environment, entry);
    let over_tls = |servers| {
        let (ca, token) = credentials(&Cluster::default());
        Choice::Servers { servers, context: None, ca, token }
    };
    if !flags.server.is_empty() {
        return Ok(over_tls(flags.server.clone()));
    }
    if let Some(path) = &flags.socket {
        return Ok(Choice::Socket(path.clone()));
    }
    let mut named = flags.context.as_ref();
    if named.is_none() {
        match (&environment.server, &environment.socket) {
            (Some(_), Some(_)) => {
                let message = "JACO_SERVER and JACO_SOCKET are both set";
                return Err(CliError::usage(message, "unset one, or use --server or --socket"));
            }
            (Some(servers), None) => {
                let servers = servers.split(',').map(str::to_owned).collect();
                return Ok(over_tls(servers));
            }
            (None, Some(path)) => return Ok(Choice::Socket(path.into())),
            (None, None) => named = environment.context.as_ref().or(contexts.current.as_ref()),
        }
    }
    let Some(name) = named else { return Ok(Choice::Socket(DEFAULT_SOCKET.into())) };
    let entry = contexts.contexts.get(name).ok_or_else(|| {
        let message = format!("there is no context {name:?}");
        CliError::usage(message, "jaco context ls lists the contexts, jaco context set adds one")
    })?;
    Ok(match &entry.socket {
        Some(path) => Choice::Socket(path.clone()),
        None => {
            let (ca, token) = credentials(entry);
            let (servers, context) = (entry.servers.clone(), Some(name.clone()));
            Choice::Servers { servers, context, ca, token }
        }
    })
}

/// The file of the certificate, and where the token comes from.
fn credentials(
    flags: &GlobalOptions,
    environment: &Environment,
    entry: &Cluster,
) -> (Option<PathBuf>, TokenSource) {
    let ca = flags.ca_cert.clone();
    let ca = ca.or_else(|| environment.ca_cert.as_ref().map(PathBuf::from));
    let token = match (&flags.token_file, &environment.token, &entry.token_file) {
        (Some(file), _, _) => TokenSource::File(file.clone()),
        (None, Some(_), _) => TokenSource::Environment,
        (None, None, Some(file)) => TokenSource::File(file.clone()),
        (None, None, None) => TokenSource::Missing,
    };
    (ca.or_else(|| entry.ca.clone()), token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn contexts() -> Contexts {
        let local = Cluster { socket: Some("/a.sock".into()), ..Cluster::default() };
        let prod = Cluster {
            servers: vec!["p:1".to_owned()],
            ca: Some("p.crt".into()),
            token_file: Some("p.token".into()),
            socket: None,
        };
        Contexts {
            current: Some("prod".to_owned()),
            contexts: BTreeMap::from([("local".to_owned(), local), ("prod".to_owned(), prod)]),
        }
    }

    fn servers(server: &str, ca: Option<&str>, token: TokenSource) -> Choice {
        let (servers, ca) = (vec![server.to_owned()], ca.map(PathBuf::from));
        Choice::Servers { servers, context: None, ca, token }
    }

    #[test]
    fn flags_override_environment_overrides_context_overrides_socket() {
        let none = Environment::default();
        let some = Environment {
            server: Some("e:1".to_owned()),
            token: Some("secret".to_owned()),
            ..Environment::default()
        };
        let check =
            |flags: GlobalOptions, environment: &Environment, contexts: &Contexts, expected| {
                assert_eq!(choose(&flags, environment, contexts).unwrap(), expected);
            };
        let flags = GlobalOptions::default;
        let from_context = Choice::Servers {
            servers: vec!["p:1".to_owned()],
            context: Some("prod".to_owned()),
            ca: Some("p.crt".into()),
            token: TokenSource::File("p.token".into()),
        };
        check(flags(), &none, &Contexts::default(), Choice::Socket(DEFAULT_SOCKET.into()));
        check(flags(), &none, &contexts(), from_context);
        check(flags(), &some, &contexts(), servers("e:1", None, TokenSource::Environment));
        let socket = GlobalOptions { socket: Some("/f.sock".into()), ..flags() };
        check(socket, &some, &contexts(), Choice::Socket("/f.sock".into()));
        let context = GlobalOptions { context: Some("local".to_owned()), ..flags() };
        check(context, &some, &contexts(), Choice::Socket("/a.sock".into()));
        let server = GlobalOptions {
            server: vec!["f:1".to_owned()],
            token_file: Some("f".into()),
            ..flags()
        };
        check(server, &some, &contexts(), servers("f:1", None, TokenSource::File("f".into())));
    }

    #[test]
    fn ambiguous_environment_and_unknown_context_are_refused() {
        let both = Environment {
            server: Some("e:1".to_owned()),
            socket: Some("/e.sock".to_owned()),
            ..Environment::default()
        };
        assert!(choose(&GlobalOptions::default(), &both, &contexts()).is_err());
        let typo = GlobalOptions { context: Some("prd".to_owned()), ..GlobalOptions::default() };
        assert!(choose(&typo, &Environment::default(), &contexts()).is_err());
    }
}

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
    /// `JACO_CLIENT_CERT`
    pub client_cert: Option<String>,
    /// `JACO_CLIENT_KEY`
    pub client_key: Option<String>,
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
        credential: CredentialSource,
    },
}

/// Where the operator token or the client certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CredentialSource {
    /// `JACO_TOKEN`.
    Environment,
    /// A file with a token; `-` is stdin.
    File(PathBuf),
    /// A client certificate and its private key.
    Certificate {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
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
            client_cert: get("JACO_CLIENT_CERT"),
            client_key: get("JACO_CLIENT_KEY"),
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
        let (ca, credential) = credentials(&Cluster::default())?;
        Ok(Choice::Servers { servers, context: None, ca, credential })
    };
    if !flags.server.is_empty() {
        return over_tls(flags.server.clone());
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
                return over_tls(servers);
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
            let (ca, credential) = credentials(entry)?;
            let (servers, context) = (entry.servers.clone(), Some(name.clone()));
            Choice::Servers { servers, context, ca, credential }
        }
    })
}

/// The file of the authority's certificate, and where the credential comes from: flags, environment or context, whichever
/// has one first.
fn credentials(
    flags: &GlobalOptions,
    environment: &Environment,
    entry: &Cluster,
) -> Result<(Option<PathBuf>, CredentialSource), CliError> {
    let ca = flags.ca_cert.clone();
    let ca = ca.or_else(|| environment.ca_cert.as_ref().map(PathBuf::from));
    let file = |path: &Option<PathBuf>| path.clone().map(CredentialSource::File);
    let paths = |text: &Option<String>| text.as_ref().map(PathBuf::from);
    let sources = [
        (
            ["--token-file", "--client-cert", "--client-key"],
            file(&flags.token_file),
            (flags.client_cert.clone(), flags.client_key.clone()),
        ),
        (
            ["JACO_TOKEN", "JACO_CLIENT_CERT", "JACO_CLIENT_KEY"],
            environment.token.as_ref().map(|_| CredentialSource::Environment),
            (paths(&environment.client_cert), paths(&environment.client_key)),
        ),
        (
            ["token_file", "certificate", "key"],
            file(&entry.token_file),
            (entry.certificate.clone(), entry.key.clone()),
        ),
    ];
    for (names, token, certificate) in sources {
        if let Some(source) = one_of(names, token, certificate)? {
            return Ok((ca.or_else(|| entry.ca.clone()), source));
        }
    }
    Ok((ca.or_else(|| entry.ca.clone()), CredentialSource::Missing))
}

/// The credential of one source, which has a token or a certificate with its key, not both.
fn one_of(
    [token_name, certificate_name, key_name]: [&str; 3],
    token: Option<CredentialSource>,
    certificate: (Option<PathBuf>, Option<PathBuf>),
) -> Result<Option<CredentialSource>, CliError> {
    match (token, certificate) {
        (token, (None, None)) => Ok(token),
        (None, (Some(certificate), Some(key))) => {
            Ok(Some(CredentialSource::Certificate { certificate, key }))
        }
        (Some(_), (Some(_), _) | (_, Some(_))) => Err(CliError::usage(
            format!(
                "both a token and a client certificate are given ({token_name}, {certificate_name})"
            ),
            "give one of them",
        )),
        (None, (_, _)) => Err(CliError::usage(
            format!("{certificate_name} and {key_name} are used together, and only one is given"),
            "give both files: jaco token request NAME makes a key, jaco token issue a certificate for it",
        )),
    }
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
            ..Cluster::default()
        };
        Contexts {
            current: Some("prod".to_owned()),
            contexts: BTreeMap::from([("local".to_owned(), local), ("prod".to_owned(), prod)]),
        }
    }

    fn servers(server: &str, ca: Option<&str>, credential: CredentialSource) -> Choice {
        let (servers, ca) = (vec![server.to_owned()], ca.map(PathBuf::from));
        Choice::Servers { servers, context: None, ca, credential }
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
            credential: CredentialSource::File("p.token".into()),
        };
        check(flags(), &none, &Contexts::default(), Choice::Socket(DEFAULT_SOCKET.into()));
        check(flags(), &none, &contexts(), from_context);
        check(flags(), &some, &contexts(), servers("e:1", None, CredentialSource::Environment));
        let socket = GlobalOptions { socket: Some("/f.sock".into()), ..flags() };
        check(socket, &some, &contexts(), Choice::Socket("/f.sock".into()));
        let context = GlobalOptions { context: Some("local".to_owned()), ..flags() };
        check(context, &some, &contexts(), Choice::Socket("/a.sock".into()));
        let server = GlobalOptions {
            server: vec!["f:1".to_owned()],
            token_file: Some("f".into()),
            ..flags()
        };
        check(server, &some, &contexts(), servers("f:1", None, CredentialSource::File("f".into())));
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

    /// R-CLI-6: a certificate needs its key, and is not mixed with a token of the same source; one of an earlier source
    /// hides a token of a later one.
    #[test]
    fn one_credential_is_chosen() {
        let flags =
            |token: Option<&str>, certificate: Option<&str>, key: Option<&str>| GlobalOptions {
                server: vec!["f:1".to_owned()],
                token_file: token.map(PathBuf::from),
                client_cert: certificate.map(PathBuf::from),
                client_key: key.map(PathBuf::from),
                ..GlobalOptions::default()
            };
        let some = Environment { token: Some("secret".to_owned()), ..Environment::default() };
        let chosen = choose(&flags(None, Some("c"), Some("k")), &some, &contexts()).unwrap();
        let certificate =
            CredentialSource::Certificate { certificate: "c".into(), key: "k".into() };
        assert_eq!(chosen, servers("f:1", None, certificate));
        for wrong in [
            flags(None, Some("c"), None),
            flags(None, None, Some("k")),
            flags(Some("t"), Some("c"), Some("k")),
            flags(Some("t"), None, Some("k")),
        ] {
            assert!(choose(&wrong, &some, &contexts()).is_err(), "{wrong:?}");
        }
    }
}

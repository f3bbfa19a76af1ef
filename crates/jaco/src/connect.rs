//! From flags, environment and contexts to a cluster to ask.
//!
//! [`choose`] decides, without touching anything; [`target`] then reads the files it names.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jaco_client::{DEFAULT_SOCKET, Target};
use jaco_pki::{OperatorToken, TrustBundle};
use jaco_types::ErrorCode;

use crate::cli::GlobalArgs;
use crate::contexts::{Contexts, Entry};
use crate::error::CliError;

/// The variables that matter here; an empty one counts as absent.
#[derive(Debug, Clone, Default)]
pub struct Environment {
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

/// Whom to ask, and where the credentials are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A daemon of this machine.
    Socket(PathBuf),
    /// Nodes on the network.
    Servers {
        /// `host:port` each.
        servers: Vec<String>,
        /// The CA certificate.
        ca: Option<PathBuf>,
        /// The operator token.
        token: TokenSource,
    },
}

/// Where the operator token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// `JACO_TOKEN`.
    Environment,
    /// A file; `-` is stdin.
    File(PathBuf),
    /// Nowhere.
    Missing,
}

impl Environment {
    /// The variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
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

/// Decides whom to ask: flags, then the environment, then the current context, then the socket of
/// this machine.
///
/// # Errors
/// When a context is named that does not exist, or the environment names two clusters.
pub fn choose(
    flags: &GlobalArgs,
    environment: &Environment,
    contexts: &Contexts,
) -> Result<Choice, CliError> {
    let over_tls = |servers, entry: &Entry| servers_choice(flags, environment, servers, entry);
    if !flags.server.is_empty() {
        return Ok(over_tls(flags.server.clone(), &Entry::default()));
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
                return Ok(over_tls(servers, &Entry::default()));
            }
            (None, Some(path)) => return Ok(Choice::Socket(path.into())),
            (None, None) => named = environment.context.as_ref().or(contexts.current.as_ref()),
        }
    }
    let Some(name) = named else { return Ok(Choice::Socket(DEFAULT_SOCKET.into())) };
    let entry = contexts.contexts.get(name).ok_or_else(|| {
        let message = format!("there is no context {name:?}");
        CliError::usage(message, "jaco context ls shows them, jaco context add makes one")
    })?;
    Ok(match &entry.socket {
        Some(path) => Choice::Socket(path.clone()),
        None => over_tls(entry.servers.clone(), entry),
    })
}

fn servers_choice(
    flags: &GlobalArgs,
    environment: &Environment,
    servers: Vec<String>,
    entry: &Entry,
) -> Choice {
    let ca = flags.ca_cert.clone();
    let ca = ca.or_else(|| environment.ca_cert.as_ref().map(PathBuf::from));
    let token = match (&flags.token_file, &environment.token, &entry.token_file) {
        (Some(file), _, _) => TokenSource::File(file.clone()),
        (None, Some(_), _) => TokenSource::Environment,
        (None, None, Some(file)) => TokenSource::File(file.clone()),
        (None, None, None) => TokenSource::Missing,
    };
    Choice::Servers { servers, ca: ca.or_else(|| entry.ca.clone()), token }
}

/// Reads what a choice names.
///
/// # Errors
/// When a file cannot be read or does not hold what it should, or a credential is missing.
pub fn target(choice: &Choice, environment: &Environment) -> Result<Target, CliError> {
    let (servers, ca, token) = match choice {
        Choice::Socket(path) => return Ok(Target::socket(path)),
        Choice::Servers { servers, ca, token } => (servers, ca, token),
    };
    let Some(ca) = ca else {
        let message = "a server is only trusted by its cluster's CA, and no CA is named";
        let help = "name it with --ca-cert or JACO_CA_CERT; `jaco cluster init --ca-file` wrote it";
        return Err(CliError::usage(message, help));
    };
    let pem = fs::read_to_string(ca)
        .map_err(|error| CliError::local(format!("cannot read {}", ca.display()), error))?;
    let trust = TrustBundle::from_pem(&pem).map_err(|error| {
        CliError::local(format!("{} holds no CA of a JACO cluster", ca.display()), error)
    })?;
    let token = operator_token(token, environment)?;
    Target::servers(servers, trust, token)
        .map_err(|error| CliError::usage(error.to_string(), "write host:port"))
}

fn operator_token(
    source: &TokenSource,
    environment: &Environment,
) -> Result<OperatorToken, CliError> {
    let text = match source {
        TokenSource::Environment => environment.token.clone().unwrap_or_default(),
        TokenSource::File(path) => secret_file(path)?,
        TokenSource::Missing => {
            return Err(CliError::Refused {
                code: ErrorCode::Unauthenticated,
                message: "no operator token is given".to_owned(),
                help: None,
            });
        }
    };
    text.trim().parse().map_err(|error: jaco_pki::TokenParseError| CliError::Refused {
        code: ErrorCode::TokenInvalid,
        message: format!("the operator {error}"),
        help: None,
    })
}

/// No token is longer; whoever names a device by mistake gets an error instead of a full memory.
const SECRET_BYTES_MAX: u64 = 4096;

/// Reads a secret: from a file that others cannot read, or from stdin for `-`.
///
/// # Errors
/// When it cannot be read, or others can read it.
pub fn secret_file(path: &Path) -> Result<String, CliError> {
    let failed = |error| CliError::local(format!("cannot read {}", path.display()), error);
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    let file = fs::File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let message = format!(
            "{} holds a secret and is accessible to others (mode {mode:04o})",
            path.display()
        );
        return Err(CliError::usage(message, format!("run chmod 600 {}", path.display())));
    }
    file.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn contexts() -> Contexts {
        let local = Entry { socket: Some("/a.sock".into()), ..Entry::default() };
        let prod = Entry {
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
        Choice::Servers { servers: vec![server.to_owned()], ca: ca.map(PathBuf::from), token }
    }

    #[test]
    fn flags_win_over_environment_over_context_over_socket() {
        let none = Environment::default();
        let some = Environment {
            server: Some("e:1".to_owned()),
            token: Some("secret".to_owned()),
            ..Environment::default()
        };
        let check =
            |flags: GlobalArgs, environment: &Environment, contexts: &Contexts, expected| {
                assert_eq!(choose(&flags, environment, contexts).unwrap(), expected);
            };
        let flags = GlobalArgs::default;
        let from_context = servers("p:1", Some("p.crt"), TokenSource::File("p.token".into()));
        check(flags(), &none, &Contexts::default(), Choice::Socket(DEFAULT_SOCKET.into()));
        check(flags(), &none, &contexts(), from_context);
        check(flags(), &some, &contexts(), servers("e:1", None, TokenSource::Environment));
        let socket = GlobalArgs { socket: Some("/f.sock".into()), ..flags() };
        check(socket, &some, &contexts(), Choice::Socket("/f.sock".into()));
        let context = GlobalArgs { context: Some("local".to_owned()), ..flags() };
        check(context, &some, &contexts(), Choice::Socket("/a.sock".into()));
        let server =
            GlobalArgs { server: vec!["f:1".to_owned()], token_file: Some("f".into()), ..flags() };
        check(server, &some, &contexts(), servers("f:1", None, TokenSource::File("f".into())));
    }

    #[test]
    fn what_is_ambiguous_or_unknown_is_refused() {
        let both = Environment {
            server: Some("e:1".to_owned()),
            socket: Some("/e.sock".to_owned()),
            ..Environment::default()
        };
        assert!(choose(&GlobalArgs::default(), &both, &contexts()).is_err());
        let typo = GlobalArgs { context: Some("prd".to_owned()), ..GlobalArgs::default() };
        assert!(choose(&typo, &Environment::default(), &contexts()).is_err());
    }

    #[test]
    fn a_missing_token_is_known_before_anything_is_sent() {
        let error = operator_token(&TokenSource::Missing, &Environment::default()).unwrap_err();
        assert_eq!(error.report().exit, jaco_types::code::ExitCode::NotAuthorised);
    }
}

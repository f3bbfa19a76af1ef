//! Reads the files and credentials that a choice refers to.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jaco_client::Target;
use jaco_pki::{OperatorToken, TrustBundle};
use jaco_types::ErrorCode;

use super::choice::{Choice, Environment, TokenSource};
use super::context_folder::ContextFolder;
use crate::error::CliError;

/// Reads the certificate and the token of a choice.
///
/// # Errors
/// If a file cannot be read or is malformed, or a credential is missing.
pub(crate) fn target(choice: &Choice, environment: &Environment) -> Result<Target, CliError> {
    let (servers, context, ca, token) = match choice {
        Choice::Socket(path) => return Ok(Target::socket(path)),
        Choice::Servers { servers, context, ca, token } => (servers, context, ca, token),
    };
    let folder = context.as_deref().and_then(ContextFolder::of);
    let servers = folder.map_or_else(|| servers.clone(), |folder| folder.servers(servers));
    let Some(ca) = ca else {
        let message =
            "the cluster's CA certificate is needed to verify a server, and none is given";
        let help =
            "give it with --ca-cert or JACO_CA_CERT; `jaco cluster init --ca-file` writes it";
        return Err(CliError::usage(message, help));
    };
    let (_, trust) = trust(ca)?;
    let token = operator_token(token, environment)?;
    Target::servers(&servers, trust, token)
        .map_err(|error| CliError::usage(error.to_string(), "servers are given as host:port"))
}

/// The text of a certificate file, and the authorities in it.
///
/// # Errors
/// If it cannot be read, or is no certificate of a cluster's authority.
pub(crate) fn trust(ca: &Path) -> Result<(String, TrustBundle), CliError> {
    let pem = fs::read_to_string(ca)
        .map_err(|error| CliError::local(format!("cannot read {}", ca.display()), error))?;
    let trust = TrustBundle::from_pem(&pem).map_err(|error| {
        CliError::local(
            format!("{} is not the CA certificate of a JACO cluster", ca.display()),
            error,
        )
    })?;
    Ok((pem, trust))
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
    parse_token(&text)
}

/// An operator token, as a file or the environment holds it.
///
/// # Errors
/// If it is no operator token.
pub(crate) fn parse_token(text: &str) -> Result<OperatorToken, CliError> {
    text.trim().parse().map_err(|error: jaco_pki::TokenParseError| CliError::Refused {
        code: ErrorCode::TokenInvalid,
        message: format!("the operator {error}"),
        help: None,
    })
}

/// Longer than any token; bounds the memory if a device is given by mistake.
const SECRET_BYTES_MAX: u64 = 4096;

/// Reads a secret from a file that only its owner can read, or from stdin for `-`.
///
/// # Errors
/// If it cannot be read, or others can read it.
pub(crate) fn secret_file(path: &Path) -> Result<String, CliError> {
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

    #[test]
    fn missing_token_is_found_before_anything_is_sent() {
        let error = operator_token(&TokenSource::Missing, &Environment::default()).unwrap_err();
        assert_eq!(error.report().exit, jaco_types::code::ExitCode::NotAuthorised);
    }
}

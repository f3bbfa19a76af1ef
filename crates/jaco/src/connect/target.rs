//! Reads the files and credentials that a choice refers to.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use jaco_client::{Credential, Target};
use jaco_pki::{NodeKey, OperatorCredentials, OperatorToken, TrustBundle};
use jaco_types::{ErrorCode, Timestamp};

use super::choice::{Choice, CredentialSource, Environment};
use super::context_folder::ContextFolder;
use crate::error::CliError;
use crate::format::time;

/// Reads the authority's certificate and the credential of a choice.
///
/// # Errors
/// If a file cannot be read or is malformed, or a credential is missing.
pub(crate) fn target(choice: &Choice, environment: &Environment) -> Result<Target, CliError> {
    let (servers, context, ca, credential) = match choice {
        Choice::Socket(path) => return Ok(Target::socket(path)),
        Choice::Servers { servers, context, ca, credential } => (servers, context, ca, credential),
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
    let credential = shown(credential, environment)?;
    Target::servers_by(&servers, trust, credential)
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

fn shown(source: &CredentialSource, environment: &Environment) -> Result<Credential, CliError> {
    let text = match source {
        CredentialSource::Environment => environment.token.clone().unwrap_or_default(),
        CredentialSource::File(path) => secret_file(path)?,
        CredentialSource::Certificate { certificate, key } => {
            let credentials = client_certificate(certificate, key)?;
            return still_valid(credentials, certificate)
                .map(Box::new)
                .map(Credential::Certificate);
        }
        CredentialSource::Missing => {
            return Err(CliError::Refused {
                code: ErrorCode::Unauthenticated,
                message: "neither an operator token nor a client certificate is given".to_owned(),
                help: None,
            });
        }
    };
    parse_token(&text).map(Credential::Token)
}

/// A client certificate with its private key.
///
/// # Errors
/// If a file cannot be read, others can read the key, or the two do not belong together.
pub(crate) fn client_certificate(
    certificate: &Path,
    key: &Path,
) -> Result<OperatorCredentials, CliError> {
    let pem = fs::read_to_string(certificate).map_err(|error| {
        CliError::local(format!("cannot read {}", certificate.display()), error)
    })?;
    let key = private_key(key)?;
    OperatorCredentials::new(key, &pem).map_err(|error| {
        let what = format!("the client certificate {} cannot be used", certificate.display());
        CliError::local(what, error)
    })
}

/// The private key in a file that only its owner can read.
///
/// # Errors
/// If it cannot be read, others can read it, or it is no key.
pub(crate) fn private_key(path: &Path) -> Result<NodeKey, CliError> {
    let pem = secret_file(path)?;
    NodeKey::from_pem(&pem).map_err(|error| {
        CliError::local(format!("{} holds no usable private key", path.display()), error)
    })
}

/// A server refuses an expired certificate in the handshake, where it cannot say what to do.
fn still_valid(
    credentials: OperatorCredentials,
    path: &Path,
) -> Result<OperatorCredentials, CliError> {
    let certificate = credentials.certificate();
    let end = certificate.validity().not_after;
    if now() <= end {
        return Ok(credentials);
    }
    let at = i64::try_from(end.0).ok().and_then(time::rfc3339).unwrap_or_default();
    let name = &certificate.name().operator;
    let (file, csr) = (path.display(), path.with_extension("csr"));
    Err(CliError::Refused {
        code: ErrorCode::CertificateInvalid,
        message: format!("the client certificate {file} of {name} has expired at {at}"),
        help: Some(format!(
            "an admin renews it for the same key: jaco token renew {name} --csr {}",
            csr.display()
        )),
    })
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
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
        let error = shown(&CredentialSource::Missing, &Environment::default()).unwrap_err();
        assert_eq!(error.report().exit, jaco_types::code::ExitCode::NotAuthorised);
    }
}

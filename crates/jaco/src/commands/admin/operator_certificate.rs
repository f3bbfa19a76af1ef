//! Client certificates of operators, for `jaco token`. The private key is made here and never sent.

use std::io::Read;
use std::path::Path;

use jaco_pki::{NodeKey, request_from_pem};
use jaco_proto::v1::{IssueOperatorCertificateRequest, RenewOperatorCertificateRequest};
use jaco_types::{ErrorCode, TokenId};
use serde_json::json;

use super::new_file::{create, write};
use crate::connect::{private_key, replace};
use crate::error::CliError;
use crate::format::time;
use crate::session::{CommandResult, OwnCertificate, Session};
use crate::view::Summary;
use crate::view::json::without_null;

/// Far more than any certificate request; bounds the memory if a device is given by mistake.
const CSR_BYTES_MAX: u64 = 64 << 10;

const ENDS_WITH_ROTATION: &str = "warning: the cluster's authority is being rotated, and this certificate is of the old one: not all members trust \
     the new one yet. Renew again before the rotation goes on (jaco cluster rotate-ca --status)";

/// Makes a private key and the request for a certificate.
pub(super) fn request(session: &mut Session, name: &str, folder: &Path) -> CommandResult {
    let id = TokenId::new(name).map_err(|error| {
        CliError::usage(format!("{name:?} cannot be issued"), error.to_string())
    })?;
    let key = NodeKey::generate();
    let (key_path, csr_path) = (folder.join(format!("{id}.key")), folder.join(format!("{id}.csr")));
    make(&key_path, 0o600, &key.to_pem())?;
    make(&csr_path, 0o644, &key.request_pem()).inspect_err(|_| {
        // It was made a moment ago, and the error of the other file matters.
        std::fs::remove_file(&key_path).ok();
    })?;
    let (key_file, csr) = (key_path.display().to_string(), csr_path.display().to_string());
    let text = format!(
        "{key_file} is the private key: keep it here\n\
         {csr} is the request: an admin issues the certificate with\n  \
         jaco token issue {id} --role ROLE --csr {csr} > {id}.crt\n"
    );
    session.done(&Summary { json: json!({ "name": name, "key": key_file, "csr": csr }), text })
}

/// Issues a certificate and prints it.
pub(super) async fn issue(
    session: &mut Session,
    request: IssueOperatorCertificateRequest,
) -> CommandResult {
    let (name, role, deployments) =
        (request.name.clone(), request.role.clone(), request.deployments.clone());
    let issued = session.client()?.issue_operator_certificate(request).await?;
    let json = without_null(json!({
        "name": name,
        "role": role,
        "deployments": (!deployments.is_empty()).then_some(deployments),
        "certificate": issued.certificate_pem,
        "certificate_expires_at": time::rfc3339(issued.certificate_expires_at_ms),
        "expires_at": time::rfc3339(issued.expires_at_ms),
    }));
    session.done(&Summary { json, text: issued.certificate_pem })
}

/// Renews the certificate that this command connects with, in its place.
pub(super) async fn renew(session: &mut Session) -> CommandResult {
    let OwnCertificate { certificate, key, context } = session.own_certificate()?;
    let csr_der = private_key(&key)?.request().into();
    let request = RenewOperatorCertificateRequest { name: String::new(), csr_der };
    let renewed = session.client()?.renew_operator_certificate(request).await?;
    let not_kept =
        |error| CliError::local(format!("cannot replace {}", certificate.display()), error);
    replace(&certificate, &renewed.certificate_pem).map_err(not_kept)?;
    if let Some(context) = &context {
        // After a rotation of the authority there is another one to trust.
        context.keep_ca(&renewed.ca_certificate_pem).map_err(not_kept)?;
    }
    if renewed.ends_with_rotation {
        session.ui.note(ENDS_WITH_ROTATION);
    }
    let until = time::rfc3339(renewed.certificate_expires_at_ms);
    let file = certificate.display().to_string();
    let text = format!("{file} renewed, valid until {}\n", until.as_deref().unwrap_or("-"));
    let json = without_null(json!({
        "file": file,
        "certificate_expires_at": until,
        "expires_at": time::rfc3339(renewed.expires_at_ms),
        "ends_with_rotation": renewed.ends_with_rotation,
        "outcome": "renewed",
    }));
    session.done(&Summary { json, text })
}

/// Renews the certificate of another one, and prints it.
pub(super) async fn renew_of(session: &mut Session, name: String, path: &Path) -> CommandResult {
    let csr_der = csr(path)?.into();
    let request = RenewOperatorCertificateRequest { name: name.clone(), csr_der };
    let renewed = session.client()?.renew_operator_certificate(request).await?;
    if renewed.ends_with_rotation {
        session.ui.note(ENDS_WITH_ROTATION);
    }
    let json = without_null(json!({
        "name": name,
        "certificate": renewed.certificate_pem,
        "certificate_expires_at": time::rfc3339(renewed.certificate_expires_at_ms),
        "expires_at": time::rfc3339(renewed.expires_at_ms),
        "ends_with_rotation": renewed.ends_with_rotation,
        "outcome": "renewed",
    }));
    session.done(&Summary { json, text: renewed.certificate_pem })
}

/// The certificate request in a file, or from stdin for `-`.
pub(super) fn csr(path: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |error| CliError::local(format!("cannot read {}", path.display()), error);
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().take(CSR_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(CSR_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    }
    request_from_pem(&text).ok_or_else(|| CliError::Refused {
        code: ErrorCode::CsrInvalid,
        message: format!("{} holds no certificate request in PEM form", path.display()),
        help: Some("make one with jaco token request NAME".to_owned()),
    })
}

fn make(path: &Path, mode: u32, text: &str) -> Result<(), CliError> {
    write(&create(path, mode)?, path, text)
}

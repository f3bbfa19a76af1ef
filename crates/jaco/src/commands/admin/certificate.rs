//! `jaco certificate`

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ListCertificatesRequest, RemoveCertificateRequest, StoreCertificateRequest};
use jaco_types::CertificateName;
use serde_json::json;

use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, certificate};

/// The most bytes of a file that are read: more than the cluster takes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Manage certificates that routes name
///
/// A route of jaco.yaml names a certificate by `tls: NAME`. The private key is encrypted before it is stored, and
/// no command prints it. Those of routes with `tls: auto` are ordered by the cluster, and listed with what went wrong.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco certificate set shop --cert fullchain.pem --key privkey.pem
  jaco certificate ls
  jaco certificate rm shop")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the certificates, without their keys
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco certificate ls
  jaco certificate ls -o json"
    )]
    Ls,
    /// Store a certificate with its private key, or replace it
    ///
    /// The certificate comes first in its file, then those of the authorities between it and the one that clients
    /// trust. It is refused if it has expired, is for no DNS name, or the key is not its own; it is not verified
    /// who trusts it. Routes that name it use the new one from then on.
    #[command(
        aliases = ["create", "store"],
        after_long_help = "Examples:
  jaco certificate set shop --cert fullchain.pem --key privkey.pem"
    )]
    Set {
        /// The name that routes have for it
        name: String,
        /// The file with the certificate and its chain, in PEM form
        #[arg(long, value_name = "FILE")]
        cert: PathBuf,
        /// The file with the private key, in PEM form and not encrypted
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Remove a certificate that no route names
    #[command(
        visible_alias = "remove",
        alias = "delete",
        after_long_help = "Examples:
  jaco certificate rm shop"
    )]
    Rm {
        /// Its name
        name: String,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Ls => {
            let listed = session.client()?.list_certificates(ListCertificatesRequest {}).await?;
            let items = &listed.certificates;
            for failed in items.iter().filter(|one| !one.problem.is_empty()) {
                session.ui.note(&format!("warning: {}: {}", failed.name, failed.problem));
            }
            session.done(&List { items, json: certificate::json, text: certificate::table })
        }
        Action::Set { name, cert, key } => set(session, &name, &cert, &key).await,
        Action::Rm { name } => {
            let name = own_name(&name)?.to_string();
            let request_id = fresh_request_id();
            let request = RemoveCertificateRequest { name: name.clone(), request_id };
            session.client()?.remove_certificate(request).await?;
            let json = json!({ "name": name, "outcome": "removed" });
            session.done(&Summary { json, text: format!("certificate {name} removed\n") })
        }
    }
}

async fn set(session: &mut Session, name: &str, cert: &Path, key: &Path) -> CommandResult {
    let name = own_name(name)?.to_string();
    let request = StoreCertificateRequest {
        name: name.clone(),
        chain: read(cert)?.into(),
        key: read(key)?.into(),
        request_id: fresh_request_id(),
    };
    let stored = session.client()?.store_certificate(request).await?;
    for warning in &stored.warnings {
        session.ui.note(&format!("warning: {warning}"));
    }
    let (change, stored) = (stored.change, stored.certificate.unwrap_or_default());
    let mut json = certificate::json(&stored);
    json["change"] = change.as_str().into();
    let text = format!("certificate {name} {change}: for {}\n", stored.names.join(", "));
    session.done(&Summary { json, text })
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |error| CliError::local(format!("cannot read {}", path.display()), error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn own_name(text: &str) -> Result<CertificateName, CliError> {
    CertificateName::new(text).map_err(|invalid| {
        CliError::usage(format!("{text:?} is not the name of a certificate"), invalid.rule)
    })
}

//! The files that make a node a member: certificate, key, authorities, key-encryption key. Must never write: what the
//! daemon settles at its start is only looked at.

use std::collections::BTreeSet;
use std::path::Path;

use jaco_pki::{IdentityDir, IdentityError, NodeCertificate, NodeKey, NodeName, TrustBundle, ca};
use jaco_store::{Clock, SystemClock};
use jaco_types::KekId;

use super::identity;
use super::report::{DataDir, Problem};

/// What the files say.
#[derive(Default)]
pub(super) struct NodeFiles {
    pub(super) name: Option<NodeName>,
    /// The key-encryption keys that are there.
    pub(super) keks: BTreeSet<KekId>,
    pub(super) raft_log_id: Option<String>,
    pub(super) raft_log_starts: u64,
}

impl NodeFiles {
    /// Reads the files in `folder`. What is damaged or missing is reported.
    pub(super) fn read(folder: &Path, found: &mut DataDir) -> Self {
        let mut files = Self::default();
        let Some(dir) = identity(folder) else {
            found.problems.push(Problem::identity(folder, "it is missing or open to others"));
            return files;
        };
        let trust = match dir.trust() {
            Ok(trust) => Some(trust),
            Err(error) => {
                found.problems.push(Problem::authority(&folder.join("ca.crt"), &told(error)));
                None
            }
        };
        match certificate(folder, trust.as_ref()) {
            Ok(None) => {}
            Ok(Some(certificate)) => {
                files.name = Some(certificate.name().clone());
                if let Err(what) = key(folder, &dir, &certificate) {
                    found.problems.push(Problem::identity(&folder.join("node.key"), &what));
                }
            }
            Err(what) => {
                found.problems.push(Problem::identity(&folder.join("node.crt"), &what));
            }
        }
        match dir.kek() {
            Ok(Some(kek)) => drop(files.keks.insert(kek.id())),
            Ok(None) => found.problems.push(Problem::kek(&dir.kek_file(), "it is missing")),
            Err(error) => found.problems.push(Problem::kek(&dir.kek_file(), &told(error))),
        }
        match dir.next_kek() {
            Ok(Some(kek)) => drop(files.keks.insert(kek.id())),
            Ok(None) => {}
            Err(error) => {
                let file = dir.kek_file().with_extension("next");
                found.problems.push(Problem::next_kek(&file, &told(error)));
            }
        }
        match dir.raft_log_id() {
            Ok(id) => files.raft_log_id = id,
            Err(error) => {
                found.problems.push(Problem::log_name(&folder.join("raft-log.id"), &told(error)));
            }
        }
        match dir.raft_log_starts() {
            Ok(starts) => files.raft_log_starts = starts,
            Err(error) => {
                let file = folder.join("raft-log.starts");
                found.problems.push(Problem::log_name(&file, &told(error)));
            }
        }
        files
    }
}

/// The certificate, if it can be verified now. One that has expired is whole: the other members renew it.
fn certificate(
    folder: &Path,
    trust: Option<&TrustBundle>,
) -> Result<Option<NodeCertificate>, String> {
    let pem = std::fs::read_to_string(folder.join("node.crt")).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            "it is missing: the node is in no cluster".to_owned()
        } else {
            error.to_string()
        }
    })?;
    let der = ca::certificate_from_pem(&pem).ok_or("it holds no certificate")?;
    let Some(trust) = trust else { return Ok(None) };
    match NodeCertificate::verify(&[der], trust, SystemClock.now()) {
        Ok(certificate) => Ok(Some(certificate)),
        Err(IdentityError::Expired | IdentityError::NotYetValid) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// A crash may have left the key under the name of the next one, from where the daemon takes it.
fn key(folder: &Path, dir: &IdentityDir, certificate: &NodeCertificate) -> Result<(), String> {
    let in_use = dir.key_in_use().map_err(told);
    if let Ok(key) = &in_use
        && key.fingerprint() == certificate.key_fingerprint()
    {
        return Ok(());
    }
    let next = std::fs::read_to_string(folder.join("node.key.next")).ok();
    let next = next.and_then(|pem| NodeKey::from_pem(&pem).ok());
    match next.filter(|key| key.fingerprint() == certificate.key_fingerprint()) {
        Some(_) => Ok(()),
        None => Err(in_use.err().unwrap_or_else(|| "it is not the certificate's".to_owned())),
    }
}

fn told(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

//! `edge.acme`: whom certificates of routes with `tls: auto` are ordered from.

use std::path::{Path, PathBuf};

use jaco_acme::{Authority, Terms, TrustedRoots};
use jaco_state::acme::ACME_URL_BYTES_MAX;
use jaco_types::ChallengeKind;
use serde::Deserialize;

use super::ConfigError;

/// Let's Encrypt.
const DEFAULT_DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// An authority that speaks ACME, and what it is told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AcmeSettings {
    /// Address of its directory.
    directory: String,
    /// Whom it may write to, as `name@domain`.
    contact: Option<String>,
    /// Whether the operator agrees to its terms of service.
    agree_terms: bool,
    /// File with the certificates by which its server is known; those that the machine trusts if absent.
    ca_file: Option<PathBuf>,
    /// The one challenge that is answered; whichever comes through if absent.
    challenge: Option<Challenge>,
}

/// A challenge by its name in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Challenge {
    /// By a file at port 80.
    #[serde(rename = "http-01")]
    Http01,
    /// By a certificate at port 443.
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl Default for AcmeSettings {
    fn default() -> Self {
        Self {
            directory: DEFAULT_DIRECTORY.to_owned(),
            contact: None,
            agree_terms: false,
            ca_file: None,
            challenge: None,
        }
    }
}

impl AcmeSettings {
    /// The authority that the leader orders from. Reads `ca_file`.
    ///
    /// # Errors
    /// When a key is malformed, or the file has no certificate.
    pub(super) fn authority(&self) -> Result<Authority, ConfigError> {
        Ok(Authority {
            directory: self.checked_directory()?,
            contact: self.contact.as_deref().map(mailto).transpose()?,
            terms: if self.agree_terms { Terms::Agreed } else { Terms::NotAgreed },
            roots: self.ca_file.as_deref().map_or(Ok(TrustedRoots::System), roots)?,
            challenge: self.challenge.map(|challenge| match challenge {
                Challenge::Http01 => ChallengeKind::Http01,
                Challenge::TlsAlpn01 => ChallengeKind::TlsAlpn01,
            }),
        })
    }

    fn checked_directory(&self) -> Result<String, ConfigError> {
        let directory = &self.directory;
        let host = directory.strip_prefix("https://").unwrap_or_default();
        let is_address = !host.is_empty() && !host.starts_with('/');
        let is_plain = directory.bytes().all(|byte| byte.is_ascii_graphic());
        if is_address && is_plain && directory.len() <= ACME_URL_BYTES_MAX {
            return Ok(directory.clone());
        }
        let reason = format!("{directory:?} is not https:// and the address of a directory");
        Err(ConfigError::Value { key: "edge.acme.directory", reason })
    }
}

/// Addresses are written as such in the settings; the protocol has URLs.
fn mailto(contact: &str) -> Result<String, ConfigError> {
    let address = contact.strip_prefix("mailto:").unwrap_or(contact);
    let parts = address.split_once('@');
    let is_one = parts.is_some_and(|(name, domain)| !name.is_empty() && domain.contains('.'));
    // `?` and `,` would make of it what authorities refuse (RFC 8555, section 7.3).
    let is_plain = address.bytes().all(|byte| byte.is_ascii_graphic() && !b"?,".contains(&byte));
    if is_one && is_plain {
        return Ok(format!("mailto:{address}"));
    }
    let reason = format!("{contact:?} is not one e-mail address, as in operator@example.org");
    Err(ConfigError::Value { key: "edge.acme.contact", reason })
}

fn roots(path: &Path) -> Result<TrustedRoots, ConfigError> {
    let refused = |reason: String| ConfigError::Value { key: "edge.acme.ca_file", reason };
    let pem = std::fs::read(path)
        .map_err(|error| refused(format!("{} cannot be read: {error}", path.display())))?;
    let roots = TrustedRoots::Pem(pem);
    roots.check().map_err(|reason| refused(format!("{}: {reason}", path.display())))?;
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(text: &str) -> Result<Authority, String> {
        let settings: AcmeSettings = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
        settings.authority().map_err(|error| error.to_string())
    }

    /// R-EDGE-2: nobody agrees to terms by not saying anything.
    #[test]
    fn terms_are_agreed_to_in_words() {
        let authority = AcmeSettings::default().authority().unwrap();
        assert_eq!(authority.terms, Terms::NotAgreed);
        assert_eq!(authority.roots, TrustedRoots::System);
    }

    /// R-EDGE-2: what an authority would refuse much later is refused at the start, by the name of its key.
    #[test]
    fn what_no_authority_takes_is_refused() {
        for text in ["http://a.example/dir", "https://", "https:///dir", "https://a b/"] {
            let refused = authority(&format!("directory: {text:?}")).unwrap_err();
            assert!(refused.contains("edge.acme.directory"), "{refused}");
        }
        for text in ["operator", "a@b.c,d@e.f", "@b.c", "a@b", "a@b.c?subject=x"] {
            let refused = authority(&format!("contact: {text:?}")).unwrap_err();
            assert!(refused.contains("edge.acme.contact"), "{refused}");
        }
        let refused = authority("challenge: dns-01").unwrap_err();
        assert!(refused.contains("tls-alpn-01"), "{refused}");
    }

    #[test]
    fn contact_is_an_address_or_its_url() {
        for text in ["operator@example.org", "mailto:operator@example.org"] {
            let authority = authority(&format!("{{contact: {text:?}, agree_terms: true}}"));
            let authority = authority.unwrap();
            assert_eq!(authority.contact.as_deref(), Some("mailto:operator@example.org"));
            assert_eq!(authority.terms, Terms::Agreed);
        }
    }

    /// R-EDGE-2: an authority of an organisation is known by a file, which has to have a certificate.
    #[test]
    fn ca_file_has_a_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let read = || authority(&format!("ca_file: {:?}", path.display().to_string()));
        assert!(read().unwrap_err().contains("cannot be read"));
        std::fs::write(&path, "no certificate").unwrap();
        let refused = read().unwrap_err();
        assert!(refused.contains("edge.acme.ca_file") && refused.contains("BEGIN"), "{refused}");
    }
}

//! Where a mail server is: `smtps://USER@HOST:465`, encrypted from the first byte, or `smtp://USER@HOST:587`, encrypted
//! before anything is said that counts. Without encryption there is only this machine itself, by its loopback address.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;

/// The most bytes of an address of a server.
const SERVER_BYTES_MAX: usize = 1 << 10;

/// A mail server.
#[derive(Clone, PartialEq, Eq)]
pub struct MailServer {
    text: String,
    shown: String,
    host: String,
    port: u16,
    user: Option<String>,
    encryption: Encryption,
}

/// How the connection to a server is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// From the first byte.
    Whole,
    /// By STARTTLS, without which nothing is sent.
    StartTls,
    /// Not at all: it does not leave this machine.
    Loopback,
}

/// Why a server is not taken. Says nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MailServerError {
    #[error("the mail server is no URL: write smtps://USER@HOST:465, or smtp://USER@HOST:587")]
    NoUrl,
    #[error("the address of the mail server has more than {SERVER_BYTES_MAX} bytes")]
    TooLong,
    #[error("the address of the mail server begins with neither smtps:// nor smtp://")]
    Scheme,
    #[error("the address of the mail server has a password, which belongs into a file")]
    Password,
    #[error("the user of the mail server has characters that nobody can sign in with")]
    User,
    #[error("the address of the mail server has something behind its port")]
    Path,
}

impl MailServer {
    /// Reads the address of a server.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn parse(text: &str) -> Result<Self, MailServerError> {
        if text.len() > SERVER_BYTES_MAX {
            return Err(MailServerError::TooLong);
        }
        let uri: Uri = text.parse().map_err(|_| MailServerError::NoUrl)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(MailServerError::NoUrl);
        };
        let (user, place) = match authority.as_str().rsplit_once('@') {
            Some((user, place)) => (Some(parsed_user(user)?), place),
            None => (None, authority.as_str()),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || text.contains('#') {
            return Err(MailServerError::Path);
        }
        let bracketed = authority.host();
        let host = bracketed.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let (encryption, usual) = match scheme {
            "smtps" => (Encryption::Whole, 465),
            "smtp" if is_loopback => (Encryption::Loopback, 25),
            "smtp" => (Encryption::StartTls, 587),
            _ => return Err(MailServerError::Scheme),
        };
        let port = match place.strip_prefix(bracketed).and_then(|port| port.strip_prefix(':')) {
            Some(port) => port.parse().map_err(|_| MailServerError::NoUrl)?,
            None if place == bracketed => usual,
            None => return Err(MailServerError::NoUrl),
        };
        ServerName::try_from(host.as_str()).map_err(|_| MailServerError::NoUrl)?;
        let shown = format!("{scheme}://{bracketed}:{port}");
        Ok(Self { text: text.to_owned(), shown, host, port, user, encryption })
    }

    /// Scheme, host and port.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The whole of it, as it was given, for sealing: it has the user.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Who signs in; absent for a relay that lets anyone send who reaches it.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(crate) fn place(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    pub(crate) fn encryption(&self) -> Encryption {
        self.encryption
    }
}

fn parsed_user(text: &str) -> Result<String, MailServerError> {
    if text.contains(':') {
        return Err(MailServerError::Password);
    }
    let user = percent_decode_str(text).decode_utf8().map_err(|_| MailServerError::User)?;
    match user.is_empty() || user.chars().any(char::is_control) {
        true => Err(MailServerError::User),
        false => Ok(user.into_owned()),
    }
}

impl fmt::Debug for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MailServer({})", self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: what is not this machine's own is encrypted, one way or the other; of a server no more than scheme, host and
    /// port is shown.
    #[test]
    fn a_server_is_read_with_its_encryption() {
        for (text, shown, user, encryption) in [
            ("smtps://mail.example.com", "smtps://mail.example.com:465", None, Encryption::Whole),
            (
                "smtp://jaco@a.example:2525/",
                "smtp://a.example:2525",
                Some("jaco"),
                Encryption::StartTls,
            ),
            (
                "smtp://j%40b.example@a.example",
                "smtp://a.example:587",
                Some("j@b.example"),
                Encryption::StartTls,
            ),
            ("smtp://10.0.0.1", "smtp://10.0.0.1:587", None, Encryption::StartTls),
            ("smtp://localhost", "smtp://localhost:587", None, Encryption::StartTls),
            ("smtp://127.0.0.1", "smtp://127.0.0.1:25", None, Encryption::Loopback),
            ("smtp://[::1]:1025", "smtp://[::1]:1025", None, Encryption::Loopback),
            ("smtps://127.0.0.1:465", "smtps://127.0.0.1:465", None, Encryption::Whole),
        ] {
            let server = MailServer::parse(text).unwrap();
            assert_eq!(
                (server.shown(), server.user(), server.encryption()),
                (shown, user, encryption)
            );
            assert_eq!(server.reveal(), text);
            assert!(!format!("{server:?}").contains('@'));
        }
    }

    /// R-OPS-1
    #[test]
    fn what_is_no_server_has_a_reason() {
        for (text, expected) in [
            ("", MailServerError::NoUrl),
            ("mail.example.com", MailServerError::NoUrl),
            ("smtps://", MailServerError::NoUrl),
            ("smtps://a.example:0x", MailServerError::NoUrl),
            ("smtps://a.example:99999", MailServerError::NoUrl),
            ("smtps://-a_b/", MailServerError::NoUrl),
            ("https://a.example", MailServerError::Scheme),
            ("smtps://jaco:hunter2@a.example", MailServerError::Password),
            ("smtps://j%0d%0ao@a.example", MailServerError::User),
            ("smtps://@a.example", MailServerError::User),
            ("smtps://a.example/hunter2", MailServerError::Path),
            ("smtps://a.example?hunter2", MailServerError::Path),
        ] {
            let refused = MailServer::parse(text).unwrap_err();
            assert_eq!(refused, expected, "{text}");
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
        }
    }
}

//! All of a target of mail, as it is sealed. The form of the bytes is for ever.

use std::fmt;

use zeroize::Zeroizing;

use super::address::{MailAddress, MailAddressError};
use super::server::{MailServer, MailServerError};

/// The most recipients of a target.
pub const RECIPIENTS_MAX: usize = 16;

/// The most bytes of a password.
const PASSWORD_BYTES_MAX: usize = 512;

/// The most bytes of recipients that are shown one by one.
const SHOWN_RECIPIENTS_BYTES: usize = 120;

/// A mail server, from whom and to whom.
#[derive(Clone, PartialEq, Eq)]
pub struct MailEndpoint {
    server: MailServer,
    password: Zeroizing<String>,
    from: MailAddress,
    to: Vec<MailAddress>,
}

/// Why a target of mail is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailEndpointError {
    #[error(transparent)]
    Server(#[from] MailServerError),
    #[error(transparent)]
    Address(#[from] MailAddressError),
    #[error("mail needs 1 to {RECIPIENTS_MAX} recipients")]
    Recipients,
    #[error("the mail server has a user without a password: give it in a file")]
    NoPassword,
    #[error("there is a password without a user: write the user into the address of the server")]
    NoUser,
    #[error("a password has at most {PASSWORD_BYTES_MAX} bytes, in one line")]
    Password,
}

impl MailEndpoint {
    /// A target; the password is empty where nobody signs in.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn new(
        server: &str,
        password: &str,
        from: &str,
        to: &[String],
    ) -> Result<Self, MailEndpointError> {
        let server = MailServer::parse(server)?;
        match (server.user(), password) {
            (Some(_), "") => return Err(MailEndpointError::NoPassword),
            (None, password) if !password.is_empty() => return Err(MailEndpointError::NoUser),
            (_, password) if password.chars().any(char::is_control) => {
                return Err(MailEndpointError::Password);
            }
            (_, password) if password.len() > PASSWORD_BYTES_MAX => {
                return Err(MailEndpointError::Password);
            }
            (_, _) => {}
        }
        if !(1..=RECIPIENTS_MAX).contains(&to.len()) {
            return Err(MailEndpointError::Recipients);
        }
        let to = to.iter().map(|one| MailAddress::parse(one)).collect::<Result<_, _>>()?;
        let password = Zeroizing::new(password.to_owned());
        Ok(Self { server, password, from: MailAddress::parse(from)?, to })
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &MailServer {
        &self.server
    }

    /// The password; empty where nobody signs in.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// From whom.
    #[must_use]
    pub fn from(&self) -> &MailAddress {
        &self.from
    }

    /// To whom.
    #[must_use]
    pub fn to(&self) -> &[MailAddress] {
        &self.to
    }

    /// Scheme, host and port of the server, and to whom.
    #[must_use]
    pub fn shown(&self) -> String {
        let server = self.server.shown();
        let all: Vec<&str> = self.to.iter().map(MailAddress::as_str).collect();
        let all = all.join(", ");
        match all.len() <= SHOWN_RECIPIENTS_BYTES {
            true => format!("{server} to {all}"),
            false => format!("{server} to {} recipients", self.to.len()),
        }
    }

    /// Lines: the server, the password, from whom, and each of those to whom.
    pub(crate) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut text = Zeroizing::new(String::new());
        for line in [self.server.reveal(), self.password.as_str(), self.from.as_str()] {
            text.push_str(line);
            text.push('\n');
        }
        let to: Vec<&str> = self.to.iter().map(MailAddress::as_str).collect();
        text.push_str(&to.join("\n"));
        Zeroizing::new(text.as_bytes().to_vec())
    }

    /// Reads what was sealed.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.split('\n');
        let (server, password, from) = (lines.next()?, lines.next()?, lines.next()?);
        let to: Vec<String> = lines.map(ToOwned::to_owned).collect();
        Self::new(server, password, from, &to).ok()
    }
}

impl fmt::Debug for MailEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MailEndpoint({})", self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    /// R-OPS-1: what one version sealed, later ones read; the recipients are shown, and neither user nor password.
    #[test]
    fn a_target_of_mail_is_read_back() {
        let to = to(&["ann@example.com", "bob@example.com"]);
        let server = "smtps://robot@a.example";
        let new = MailEndpoint::new(server, "hunter2 ", "jaco@example.com", &to).unwrap();
        let bytes = b"smtps://robot@a.example\nhunter2 \njaco@example.com\nann@example.com\nbob@example.com";
        assert_eq!(*new.to_bytes(), bytes);
        assert_eq!(MailEndpoint::from_text(std::str::from_utf8(bytes).unwrap()), Some(new.clone()));
        assert_eq!(new.shown(), "smtps://a.example:465 to ann@example.com, bob@example.com");
        assert!(!format!("{new:?}").contains("hunter2") && !format!("{new:?}").contains("robot"));
        let many = vec!["someone.with.a.name@example.com".to_owned(); RECIPIENTS_MAX];
        let new = MailEndpoint::new(server, "hunter2", "jaco@example.com", &many).unwrap();
        assert_eq!(new.shown(), "smtps://a.example:465 to 16 recipients");
    }

    #[test]
    fn what_does_not_fit_together_is_not_taken() {
        let (one, from) = (to(&["ann@example.com"]), "jaco@example.com");
        let refused = |server: &str, password: &str, to: &[String]| {
            MailEndpoint::new(server, password, from, to).unwrap_err()
        };
        let (signed, open) = ("smtps://jaco@a.example", "smtps://a.example");
        assert_eq!(refused(signed, "", &one), MailEndpointError::NoPassword);
        assert_eq!(refused(open, "hunter2", &one), MailEndpointError::NoUser);
        assert_eq!(refused(signed, "hunter\n2", &one), MailEndpointError::Password);
        assert_eq!(refused(signed, &"x".repeat(513), &one), MailEndpointError::Password);
        assert_eq!(refused(open, "", &[]), MailEndpointError::Recipients);
        let many = vec!["ann@example.com".to_owned(); RECIPIENTS_MAX + 1];
        assert_eq!(refused(open, "", &many), MailEndpointError::Recipients);
        let broken = to(&["ann@example.com\nbob@example.com"]);
        assert!(matches!(refused(open, "", &broken), MailEndpointError::Address(_)));
    }
}

//! Addresses of mail: those that need neither quotes nor an extension of the server, so that none can end a command or a
//! header.

use std::fmt;

use lettre::message::Mailbox;

/// The most bytes of an address.
const ADDRESS_BYTES_MAX: usize = 254;

/// What a local part has beside letters, digits and the dot.
const SYMBOLS: &str = "!#$%&'*+-/=?^_`{|}~";

/// An address that mail can be sent to: `ann@example.com`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailAddress(lettre::Address);

/// Why an address is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no mail address: write NAME@HOST alone, in ASCII (a host with other letters as xn--…), of {ADDRESS_BYTES_MAX} bytes at most"
)]
pub struct MailAddressError(String);

impl MailAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// If it is none, or one that needs quotes or other letters than those of ASCII.
    pub fn parse(text: &str) -> Result<Self, MailAddressError> {
        let refused = || MailAddressError(text.chars().take(ADDRESS_BYTES_MAX).collect());
        let (local, host) = text.rsplit_once('@').ok_or_else(refused)?;
        let is_plain = |byte: char| byte.is_ascii_alphanumeric() || byte == '.';
        let is_local = local.chars().all(|one| is_plain(one) || SYMBOLS.contains(one));
        let is_host = host.chars().all(|one| is_plain(one) || one == '-');
        if text.len() > ADDRESS_BYTES_MAX || !is_local || !is_host {
            return Err(refused());
        }
        lettre::Address::new(local, host).map(Self).map_err(|_| refused())
    }

    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_ref()
    }

    /// What is behind the `@`.
    pub(super) fn host(&self) -> &str {
        self.0.domain()
    }

    pub(super) fn inner(&self) -> &lettre::Address {
        &self.0
    }

    pub(super) fn mailbox(&self) -> Mailbox {
        Mailbox::new(None, self.0.clone())
    }
}

impl fmt::Display for MailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// R-OPS-1
    #[test]
    fn addresses_are_plain() {
        for taken in
            ["ann@example.com", "on-call+jaco@mail.example.com", "o'neil@xn--mnchen-3ya.de"]
        {
            assert_eq!(MailAddress::parse(taken).unwrap().as_str(), taken);
        }
        for refused in [
            "",
            "ann",
            "@example.com",
            "ann@",
            "Ann <ann@example.com>",
            "<ann@example.com>",
            "\"a b\"@example.com",
            "ann@example.com, bob@example.com",
            "ann@example.com\r\nRCPT TO:<eve@example.com>",
            "ann\n@example.com",
            "a..b@example.com",
            "ann@m\u{fc}nchen.de",
            "ann@[127.0.0.1]",
            &format!("{}@example.com", "x".repeat(250)),
        ] {
            assert!(MailAddress::parse(refused).is_err(), "{refused:?}");
        }
    }

    proptest! {
        /// R-OPS-1: whatever is taken has nothing that ends a line, a header or a command.
        #[test]
        fn no_address_ends_a_command(text in ".{0,12}(@|\r|\n|\0|<|>| |,){0,3}.{0,12}@.{1,12}") {
            if let Ok(address) = MailAddress::parse(&text) {
                let ends = |one: char| one.is_control() || one.is_whitespace() || "<>,;:\"()[]\\".contains(one);
                prop_assert!(!address.as_str().contains(ends), "{}", address);
                prop_assert_eq!(address.as_str(), text);
            }
        }
    }
}

//! Where a target is with what is secret of it, as both are sealed together. The form of the bytes is for ever.

use std::fmt;

use zeroize::Zeroizing;

use crate::address::{Address, PlainHttp};
use crate::mail::MailEndpoint;

/// The fewest bytes of a secret: as many as a receiver cannot have guessed.
pub const SECRET_BYTES_MIN: usize = 16;

/// The most bytes of a secret.
pub const SECRET_BYTES_MAX: usize = 256;

/// Where notifications go.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// To a webhook or a chat.
    Web(WebEndpoint),
    /// By mail.
    Mail(MailEndpoint),
}

/// Where a webhook is, and what signs what it is sent; a chat service has no secret but its address.
#[derive(Clone)]
pub struct WebEndpoint {
    /// Where to.
    pub address: Address,
    /// What signs.
    pub secret: Option<Zeroizing<String>>,
}

/// Why a secret is not taken. Says nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} printable ASCII characters without spaces; without one given, one is made"
)]
pub struct SecretError;

impl Endpoint {
    /// No more of it than may be shown.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Web(web) => web.address.shown().to_owned(),
            Self::Mail(mail) => mail.shown(),
        }
    }

    /// What is sealed.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Web(web) => web.to_bytes(),
            Self::Mail(mail) => mail.to_bytes(),
        }
    }

    /// Reads what was sealed. Whether it may be without encryption was asked before.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        match text.starts_with("smtp") {
            true => MailEndpoint::from_text(text).map(Self::Mail),
            false => WebEndpoint::from_text(text).map(Self::Web),
        }
    }
}

impl WebEndpoint {
    /// An address whose messages a secret signs.
    ///
    /// # Errors
    /// If the secret is too short, too long, or hard to copy.
    pub fn signed(address: Address, secret: &str) -> Result<Self, SecretError> {
        let fits = (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len());
        match fits && secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self { address, secret: Some(Zeroizing::new(secret.to_owned())) }),
            false => Err(SecretError),
        }
    }

    /// An address whose messages are not signed.
    #[must_use]
    pub fn unsigned(address: Address) -> Self {
        Self { address, secret: None }
    }

    /// The address, and on a second line the secret if there is one.
    fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(self.address.reveal().as_bytes().to_vec());
        if let Some(secret) = &self.secret {
            bytes.push(b'\n');
            bytes.extend_from_slice(secret.as_bytes());
        }
        bytes
    }

    fn from_text(text: &str) -> Option<Self> {
        let (address, secret) = match text.split_once('\n') {
            Some((address, secret)) => (address, Some(Zeroizing::new(secret.to_owned()))),
            None => (text, None),
        };
        let address = Address::parse(address, PlainHttp::Anywhere).ok()?;
        Some(Self { address, secret })
    }
}

impl fmt::Debug for WebEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebEndpoint({:?})", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address::parse("https://a.example/x", PlainHttp::LoopbackOnly).unwrap()
    }

    /// R-OPS-1: what one version sealed, later ones read; nothing of it is printed.
    #[test]
    fn an_endpoint_is_read_back() {
        let secret = "hunter2-hunter2-hunter2";
        let signed = Endpoint::Web(WebEndpoint::signed(address(), secret).unwrap());
        assert_eq!(*signed.to_bytes(), b"https://a.example/x\nhunter2-hunter2-hunter2");
        let web = |bytes: &[u8]| match Endpoint::from_bytes(bytes).unwrap() {
            Endpoint::Web(web) => web,
            Endpoint::Mail(mail) => panic!("{mail:?}"),
        };
        let read = web(&signed.to_bytes());
        assert_eq!((read.address, read.secret.unwrap().as_str()), (address(), secret));
        let unsigned = web(b"https://a.example/x");
        assert_eq!((unsigned.address, unsigned.secret), (address(), None));
        let mail = b"smtps://a.example\n\njaco@a.example\nann@a.example";
        let read = Endpoint::from_bytes(mail).unwrap();
        assert!(matches!(&read, Endpoint::Mail(_)) && *read.to_bytes() == mail, "{read:?}");
        assert!(!format!("{signed:?}").contains("hunter2"));
        for broken in [&b""[..], b"\n", b"x", b"smtps://a.example", &[0xff]] {
            assert!(Endpoint::from_bytes(broken).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn a_secret_is_neither_short_nor_strange() {
        let long = "x".repeat(SECRET_BYTES_MAX + 1);
        for secret in ["", "short", "with spaces in between", "line\nbreak-line\nbreak", &long] {
            assert!(WebEndpoint::signed(address(), secret).is_err(), "{secret:?}");
        }
        assert!(WebEndpoint::signed(address(), &"x".repeat(SECRET_BYTES_MIN)).is_ok());
    }
}

//! The header of an encrypted file: the key of the file, encrypted for each recipient, and a code that authenticates all of it.
//!
//! ```text
//! age-encryption.org/v1
//! -> X25519 EPHEMERAL
//! ENCRYPTED KEY
//! --- CODE
//! ```

use std::fmt;
use std::io::{self, Read, Write};

use data_encoding::BASE64_NOPAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{hkdf, hmac};
use x25519_dalek::{PublicKey, SharedSecret, StaticSecret};
use zeroize::Zeroizing;

use super::key::{Identities, Identity, KEYS_MAX, Recipient, Recipients, fresh};
use super::label::{self, Label};
use crate::damage::Damage;

const VERSION: &[u8] = b"age-encryption.org/v1\n";

/// What begins a line about a recipient, and the last one.
const STANZA: &str = "-> ";
const END: &str = "---";

/// A recipient with an X25519 key.
const X25519: &str = "X25519";

/// What keys are derived for.
const WRAP_INFO: &[u8] = b"age-encryption.org/v1/X25519";
const CODE_INFO: &[u8] = b"header";

/// The most bytes of a header.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// The most characters of a line of a body; a shorter one ends it.
const COLUMNS: usize = 64;

/// The key of one file, from which all others derive.
#[derive(Clone)]
pub struct FileKey(Zeroizing<[u8; 16]>);

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileKey(..)")
    }
}

impl FileKey {
    pub(super) fn fresh() -> io::Result<Self> {
        Ok(Self(fresh()?))
    }

    pub(super) fn derive(&self, salt: &[u8], info: &[u8]) -> Zeroizing<[u8; 32]> {
        derive(&self.0[..], salt, info)
    }

    fn code(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.derive(&[], CODE_INFO)[..])
    }
}

/// Whether these are the first bytes of an encrypted file. As few as there are may be given.
pub(crate) fn is_encrypted(start: &[u8]) -> bool {
    let compared = start.len().min(VERSION.len());
    compared > 0 && start[..compared] == VERSION[..compared]
}

/// A header that was read.
#[derive(Debug)]
pub(crate) struct Header {
    /// The keys for recipients: what was agreed on, and the encrypted key.
    wrapped: Vec<([u8; 32], [u8; 32])>,
    /// What it says without a key.
    pub(crate) label: Option<Label>,
    /// What the code authenticates.
    authenticated: Vec<u8>,
    code: [u8; 32],
    /// Its length in the file.
    pub(crate) length: u64,
}

impl Header {
    /// Writes a header with a new key for these recipients.
    ///
    /// # Errors
    /// If it cannot be written, or a recipient is a key that no secret belongs to.
    pub(crate) fn write(
        mut out: impl Write,
        recipients: &Recipients,
        label: &Label,
    ) -> io::Result<FileKey> {
        let key = FileKey::fresh()?;
        let mut text = VERSION.to_vec();
        for recipient in recipients.iter() {
            let (agreed, wrapped) = wrap(&key, recipient)?;
            let (agreed, wrapped) = (BASE64_NOPAD.encode(&agreed), BASE64_NOPAD.encode(&wrapped));
            writeln!(text, "{STANZA}{X25519} {agreed}\n{wrapped}")?;
        }
        if let Some(words) = label.words() {
            // Its body is empty: one empty line.
            writeln!(text, "{STANZA}{} {words}\n", label::KIND)?;
        }
        text.extend_from_slice(END.as_bytes());
        let code = hmac::sign(&key.code(), &text);
        writeln!(text, " {}", BASE64_NOPAD.encode(code.as_ref()))?;
        out.write_all(&text)?;
        Ok(key)
    }

    /// Reads a header, and nothing behind it.
    ///
    /// # Errors
    /// How it is damaged.
    pub(crate) fn read(input: impl Read) -> Result<Self, Damage> {
        let mut lines = Lines { input: input.take(HEADER_BYTES_MAX as u64), read: Vec::new() };
        let mut header = Self {
            wrapped: Vec::new(),
            label: None,
            authenticated: Vec::new(),
            code: [0; 32],
            length: 0,
        };
        if lines.next()? != VERSION.trim_ascii_end() {
            return Err(malformed("it has another version"));
        }
        loop {
            let before = lines.read.len();
            let line = text(lines.next()?)?;
            if let Some(code) = line.strip_prefix(END) {
                let code = code.strip_prefix(' ').and_then(decoded);
                header.code = code.ok_or_else(|| malformed("its code is none"))?;
                header.length = lines.read.len() as u64;
                lines.read.truncate(before + END.len());
                header.authenticated = lines.read;
                return Ok(header);
            }
            let words = line.strip_prefix(STANZA).ok_or_else(|| malformed("a line is none"))?;
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            header.stanza(&words, &body(&mut lines)?)?;
        }
    }

    /// Adds what it says of one recipient. Kinds that are not known are those of other programs.
    fn stanza(&mut self, words: &[String], body: &str) -> Result<(), Damage> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.split_first() {
            Some((&X25519, [agreed])) => {
                let both = decoded(agreed).zip(decoded(body));
                self.wrapped.push(both.ok_or_else(|| malformed("a recipient is none"))?);
                if self.wrapped.len() > KEYS_MAX {
                    return Err(malformed("it has too many recipients"));
                }
            }
            Some((&X25519, _)) => return Err(malformed("a recipient is none")),
            Some((&label::KIND, words)) => {
                let label = Label::parse(words).ok_or_else(|| malformed("its label is none"))?;
                if !body.is_empty() || self.label.replace(label).is_some() {
                    return Err(malformed("its label is none"));
                }
            }
            Some(_) => {}
            None => return Err(malformed("a recipient is none")),
        }
        Ok(())
    }

    /// The key of the file, opened by the first identity that can. The header is authentic then.
    ///
    /// # Errors
    /// If none can, or the header was altered.
    pub(crate) fn open(&self, identities: &Identities) -> Result<FileKey, Damage> {
        let each = |identity: &Identity| self.wrapped.iter().find_map(|one| unwrap(identity, one));
        let key = identities.iter().find_map(each).ok_or(Damage::OtherKey)?;
        self.verify(&key)?;
        Ok(key)
    }

    /// Checks that the key belongs to this header, and that nothing of it was altered.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn verify(&self, key: &FileKey) -> Result<(), Damage> {
        let verified = hmac::verify(&key.code(), &self.authenticated, &self.code);
        verified.map_err(|_| Damage::Unauthentic)
    }
}

/// The lines of a header, and all that was read of it.
struct Lines<R> {
    input: io::Take<R>,
    read: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// The next line, without its end.
    fn next(&mut self) -> Result<&[u8], Damage> {
        let start = self.read.len();
        loop {
            let mut byte = [0];
            match self.input.read(&mut byte) {
                Ok(0) if self.input.limit() == 0 => return Err(malformed("it is too long")),
                Ok(0) => return Err(Damage::Truncated(self.read.len() as u64)),
                Ok(_) => self.read.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            if byte == *b"\n" {
                return Ok(&self.read[start..self.read.len() - 1]);
            }
        }
    }
}

/// The characters of a body, whose last line is shorter than the others.
fn body(lines: &mut Lines<impl Read>) -> Result<String, Damage> {
    let mut all = String::new();
    loop {
        let line = text(lines.next()?)?;
        if line.len() > COLUMNS || line.contains(' ') {
            return Err(malformed("a line is none"));
        }
        all.push_str(line);
        if line.len() < COLUMNS {
            return Ok(all);
        }
    }
}

fn text(line: &[u8]) -> Result<&str, Damage> {
    let is_shown = line.iter().all(|b| b.is_ascii_graphic() || *b == b' ');
    let text = std::str::from_utf8(line).ok().filter(|_| is_shown);
    text.ok_or_else(|| malformed("a line is none"))
}

fn decoded(text: &str) -> Option<[u8; 32]> {
    BASE64_NOPAD.decode(text.as_bytes()).ok()?.try_into().ok()
}

fn malformed(what: &str) -> Damage {
    Damage::Contradiction(format!("the header of its encryption is malformed: {what}"))
}

/// Encrypts the key of a file for a recipient, with a key that is used once.
fn wrap(key: &FileKey, recipient: &Recipient) -> io::Result<([u8; 32], [u8; 32])> {
    let ephemeral = StaticSecret::from(*fresh::<32>()?);
    let agreed = PublicKey::from(&ephemeral);
    let public = PublicKey::from(recipient.0);
    let shared = ephemeral.diffie_hellman(&public);
    if !shared.was_contributory() {
        return Err(io::Error::other(format!("{recipient} is the key of no identity")));
    }
    let mut wrapped = key.0.to_vec();
    let sealed = wrapping(&shared, &agreed, &public).seal_in_place_append_tag(
        nonce(),
        Aad::empty(),
        &mut wrapped,
    );
    let wrapped = sealed.ok().and_then(|()| wrapped.try_into().ok());
    let wrapped = wrapped.ok_or_else(|| io::Error::other("a key cannot be encrypted"))?;
    Ok((agreed.to_bytes(), wrapped))
}

fn unwrap(identity: &Identity, (agreed, wrapped): &([u8; 32], [u8; 32])) -> Option<FileKey> {
    let agreed = PublicKey::from(*agreed);
    let shared = identity.secret.diffie_hellman(&agreed);
    if !shared.was_contributory() {
        return None;
    }
    let mut wrapped = Zeroizing::new(*wrapped);
    let key = wrapping(&shared, &agreed, &identity.public);
    let opened = key.open_in_place(nonce(), Aad::empty(), &mut wrapped[..]).ok()?;
    let mut file_key = Zeroizing::new([0; 16]);
    if opened.len() != file_key.len() {
        return None;
    }
    file_key.copy_from_slice(opened);
    Some(FileKey(file_key))
}

/// The key that encrypts the key of a file. It is used once.
fn wrapping(shared: &SharedSecret, agreed: &PublicKey, public: &PublicKey) -> LessSafeKey {
    let salt = [agreed.to_bytes(), public.to_bytes()].concat();
    cipher(&derive(shared.as_bytes(), &salt, WRAP_INFO))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

pub(super) fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key has 32 bytes"))
}

fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut derived = Zeroizing::new([0; 32]);
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    let info = [info];
    let expanded = extracted.expand(&info, hkdf::HKDF_SHA256);
    expanded.and_then(|okm| okm.fill(&mut *derived)).expect("as many bytes as a hash has");
    derived
}

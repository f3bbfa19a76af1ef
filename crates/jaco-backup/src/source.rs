//! The bytes of a backup, whether its file is encrypted or not.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::os::unix::fs::FileExt;

use crate::age::{Header, Payload, Sequential, is_encrypted};
use crate::damage::Damage;
use crate::unlock::Unlock;

/// How many bytes tell whether a file is encrypted.
const START: u64 = 32;

/// What the armor of `age -a` begins with.
const ARMOR: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE";

/// The bytes of a backup.
#[derive(Debug)]
pub(crate) enum Source {
    Plain(File),
    Encrypted(Box<Payload>),
}

impl Source {
    /// # Errors
    /// If the file is encrypted and cannot be opened.
    pub(crate) fn new(mut file: File, unlock: Unlock<'_>) -> Result<Self, Damage> {
        let Some(header) = header(&mut file)? else { return Ok(Self::Plain(file)) };
        let key = match unlock {
            Unlock::Nothing => return Err(Damage::Encrypted),
            Unlock::Identities(identities) => header.open(identities)?,
            Unlock::File(key) => {
                header.verify(key)?;
                key.clone()
            }
        };
        let payload = Payload::new(file, &header, &key)?;
        payload.check_end()?;
        Ok(Self::Encrypted(Box::new(payload)))
    }

    /// All of them, from the beginning.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(&self) -> Result<Box<dyn Read + '_>, Damage> {
        Ok(match self {
            Self::Plain(file) => {
                let mut file = file;
                file.rewind()?;
                Box::new(BufReader::new(file))
            }
            Self::Encrypted(payload) => Box::new(Sequential::buffered(payload)),
        })
    }

    /// # Errors
    /// If there are not as many, or the file cannot be read.
    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Damage> {
        match self {
            Self::Plain(file) => Ok(file.read_exact_at(bytes, offset)?),
            Self::Encrypted(payload) => payload.read_exact_at(bytes, offset),
        }
    }
}

/// The header of an encrypted file; `None` if the file is not encrypted.
///
/// # Errors
/// If the header is malformed, or the file cannot be read.
pub(crate) fn header(file: &mut File) -> Result<Option<Header>, Damage> {
    file.rewind()?;
    let mut start = Vec::new();
    (&*file).take(START).read_to_end(&mut start)?;
    file.rewind()?;
    if start.starts_with(ARMOR) {
        let what = "it is encrypted in the form for mail; take it out of that with `age -d`";
        return Err(Damage::Contradiction(what.to_owned()));
    }
    if !is_encrypted(&start) {
        return Ok(None);
    }
    Header::read(BufReader::new(&*file)).map(Some)
}

//! The content of an encrypted file: pieces of 64 KiB, each encrypted and authenticated with its number and whether it is the
//! last one. Any of them can be read by itself.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use ring::aead::{Aad, LessSafeKey, Nonce};
use zeroize::Zeroizing;

use super::header::{FileKey, Header, cipher};
use super::key::{Recipients, fresh};
use super::label::Label;
use crate::damage::Damage;

/// Bytes of a piece.
const PIECE: usize = 64 << 10;

/// Bytes by which an encrypted piece is longer.
const TAG: usize = 16;

/// Bytes before the first piece, from which its key is derived.
const SALT: usize = 16;

const INFO: &[u8] = b"payload";

/// The keys of the pieces of one file.
struct Pieces(LessSafeKey);

impl Pieces {
    fn new(key: &FileKey, salt: &[u8; SALT]) -> Self {
        Self(cipher(&key.derive(salt, INFO)))
    }

    fn seal(&self, number: u64, place: Place, piece: &mut Vec<u8>) -> io::Result<()> {
        let sealed = self.0.seal_in_place_append_tag(nonce(number, place), Aad::empty(), piece);
        sealed.map_err(|_| io::Error::other("a piece cannot be encrypted"))
    }

    fn open<'p>(&self, number: u64, place: Place, piece: &'p mut [u8]) -> Result<&'p [u8], Damage> {
        let opened = self.0.open_in_place(nonce(number, place), Aad::empty(), piece);
        opened.map(|opened| &*opened).map_err(|_| Damage::Unauthentic)
    }
}

/// Where a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Last,
}

fn nonce(number: u64, place: Place) -> Nonce {
    let mut nonce = [0; 12];
    nonce[3..11].copy_from_slice(&number.to_be_bytes());
    nonce[11] = u8::from(place == Place::Last);
    Nonce::assume_unique_for_key(nonce)
}

/// Decrypts a whole content: what is behind the header.
///
/// # Errors
/// If it was altered or cut off.
pub(super) fn open_all(key: &FileKey, content: &[u8]) -> Result<Zeroizing<Vec<u8>>, Damage> {
    let cut = || Damage::Truncated(content.len() as u64);
    let (salt, encrypted) = content.split_first_chunk::<SALT>().ok_or_else(cut)?;
    let pieces = Pieces::new(key, salt);
    let mut opened = Zeroizing::new(Vec::with_capacity(encrypted.len()));
    let mut left = encrypted;
    for number in 0.. {
        let (piece, rest) = left.split_at(left.len().min(PIECE + TAG));
        let place = if rest.is_empty() { Place::Last } else { Place::Before };
        // The last of several pieces has at least a byte besides its tag.
        if piece.len() < TAG + usize::from(number > 0) {
            return Err(cut());
        }
        let mut piece = Zeroizing::new(piece.to_vec());
        opened.extend_from_slice(pieces.open(number, place, &mut piece)?);
        left = rest;
        if place == Place::Last {
            break;
        }
    }
    Ok(opened)
}

/// Encrypts what is written. The file is complete after [`Stream::finish`] only.
pub(crate) struct Stream<W> {
    out: W,
    key: FileKey,
    pieces: Pieces,
    number: u64,
    /// What was written of the next piece. A full one waits for more: the last one is marked.
    piece: Zeroizing<Vec<u8>>,
}

impl<W: Write> Stream<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn new(mut out: W, recipients: &Recipients, label: &Label) -> io::Result<Self> {
        let key = Header::write(&mut out, recipients, label)?;
        let salt = fresh::<SALT>()?;
        out.write_all(&*salt)?;
        let pieces = Pieces::new(&key, &salt);
        let piece = Zeroizing::new(Vec::with_capacity(PIECE + TAG));
        Ok(Self { out, key, pieces, number: 0, piece })
    }

    /// Writes the last piece; returns the key, by which what was written can be verified.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn finish(mut self) -> io::Result<FileKey> {
        self.put(Place::Last)?;
        self.out.flush()?;
        Ok(self.key)
    }

    fn put(&mut self, place: Place) -> io::Result<()> {
        self.pieces.seal(self.number, place, &mut self.piece)?;
        self.out.write_all(&self.piece)?;
        self.piece.clear();
        self.number += 1;
        Ok(())
    }
}

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE && !bytes.is_empty() {
            self.put(Place::Before)?;
        }
        let taken = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// What is not a whole piece stays: only the last one may be shorter.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The content of an encrypted file.
pub(crate) struct Payload {
    file: File,
    pieces: Pieces,
    /// Where the first piece is.
    start: u64,
    /// The number of the last piece.
    last: u64,
    /// How many bytes the content has.
    length: u64,
    /// The piece that was read last: parts lie beside each other.
    held: Mutex<Option<(u64, Zeroizing<Vec<u8>>)>>,
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Payload {
    /// Opens the content of a file with this header.
    ///
    /// # Errors
    /// If it is cut off before the first piece, or cannot be read.
    pub(crate) fn new(mut file: File, header: &Header, key: &FileKey) -> Result<Self, Damage> {
        let size = file.seek(SeekFrom::End(0))?;
        let start = header.length + SALT as u64;
        let encrypted = size.checked_sub(start).filter(|encrypted| *encrypted >= TAG as u64);
        let encrypted = encrypted.ok_or(Damage::Truncated(size))?;
        let last = (encrypted - 1) / (PIECE + TAG) as u64;
        // The last of several pieces has at least a byte besides its tag.
        let rest = encrypted - last * (PIECE + TAG) as u64;
        if rest < TAG as u64 + u64::from(last > 0) {
            return Err(Damage::Truncated(size));
        }
        let length = encrypted - (last + 1) * TAG as u64;
        let mut salt = [0; SALT];
        file.read_exact_at(&mut salt, header.length)?;
        let pieces = Pieces::new(key, &salt);
        Ok(Self { file, pieces, start, last, length, held: Mutex::new(None) })
    }

    /// Reads bytes of the content.
    ///
    /// # Errors
    /// If there are not as many, the file was altered, or it cannot be read.
    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Damage> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let read = self.read_at(&mut bytes[done..], at)?;
            if read == 0 {
                return Err(Damage::Truncated(self.length));
            }
            done += read;
        }
        Ok(())
    }

    /// Reads bytes of the piece at an offset; none at the end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, Damage> {
        if offset >= self.length {
            return Ok(0);
        }
        let number = offset / PIECE as u64;
        let mut held = self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if held.as_ref().is_none_or(|(known, _)| *known != number) {
            *held = Some((number, self.piece(number)?));
        }
        let piece = held.as_ref().map_or(&[][..], |(_, piece)| &piece[..]);
        let within = usize::try_from(offset % PIECE as u64).unwrap_or(usize::MAX);
        let rest = piece.get(within..).unwrap_or_default();
        let taken = rest.len().min(bytes.len());
        bytes[..taken].copy_from_slice(&rest[..taken]);
        Ok(taken)
    }

    /// Decrypts one piece.
    fn piece(&self, number: u64) -> Result<Zeroizing<Vec<u8>>, Damage> {
        let at = number * PIECE as u64;
        let length = (self.length - at).min(PIECE as u64);
        let length = usize::try_from(length).unwrap_or(PIECE) + TAG;
        let mut piece = Zeroizing::new(vec![0; length]);
        self.file.read_exact_at(&mut piece, self.start + number * (PIECE + TAG) as u64)?;
        let place = if number == self.last { Place::Last } else { Place::Before };
        let opened = self.pieces.open(number, place, &mut piece)?.len();
        piece.truncate(opened);
        Ok(piece)
    }

    /// Checks what no part of a backup leads to: an empty content has one piece too.
    ///
    /// # Errors
    /// If the last piece is none.
    pub(crate) fn check_end(&self) -> Result<(), Damage> {
        self.piece(self.last).map(drop)
    }
}

/// Reads the content from its beginning to its end.
pub(crate) struct Sequential<'p> {
    payload: &'p Payload,
    offset: u64,
}

impl<'p> Sequential<'p> {
    pub(crate) fn buffered(payload: &'p Payload) -> BufReader<Self> {
        BufReader::with_capacity(PIECE, Self { payload, offset: 0 })
    }
}

impl Read for Sequential<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.payload.read_at(bytes, self.offset).map_err(Damage::into_io)?;
        self.offset += read as u64;
        Ok(read)
    }
}

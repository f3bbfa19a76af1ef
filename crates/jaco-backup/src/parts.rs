//! Reads the parts of a backup file in order and verifies its checksum.

use std::io::{self, Read};

use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use super::damage::Damage;
use super::format::{FORMAT, MAGIC, PART_BYTES_MAX};

/// The maximum number of parts: twice the maximum number of pieces in a cluster.
const PARTS_MAX: u64 = 1 << 21;

/// The position of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) offset: u64,
    pub(super) length: usize,
}

/// Reads the parts in order; after the last one it verifies the checksum.
pub(super) struct Reader<R> {
    input: R,
    hash: Sha256,
    offset: u64,
    parts: u64,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(input: R) -> Result<Self, Damage> {
        let mut reader = Self { input, hash: Sha256::new(), offset: 0, parts: 0 };
        let mut magic = [0; MAGIC.len()];
        let got = reader.fill(&mut magic)?;
        if magic[..got] != MAGIC[..got] {
            return Err(Damage::Foreign);
        }
        if got < magic.len() {
            return Err(Damage::Truncated(reader.offset));
        }
        let format = reader.read_u32()?;
        if format != FORMAT {
            return Err(Damage::Newer(format));
        }
        Ok(reader)
    }

    pub(super) fn next(&mut self) -> Result<Option<(Position, Bytes)>, Damage> {
        let length = self.read_u32()? as usize;
        if length == 0 {
            return self.check_end().map(|()| None);
        }
        self.parts += 1;
        if length > PART_BYTES_MAX || self.parts > PARTS_MAX {
            return Err(Damage::Altered);
        }
        let at = Position { offset: self.offset, length };
        let mut bytes = vec![0; length];
        self.read_exact(&mut bytes)?;
        Ok(Some((at, bytes.into())))
    }

    fn check_end(&mut self) -> Result<(), Damage> {
        let expected: [u8; 32] = self.hash.clone().finalize().into();
        let mut sum = [0; 32];
        self.read_exact(&mut sum)?;
        let more = self.fill(&mut [0])?;
        if sum != expected || more > 0 {
            return Err(Damage::Altered);
        }
        Ok(())
    }

    fn read_u32(&mut self) -> Result<u32, Damage> {
        let mut bytes = [0; 4];
        self.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), Damage> {
        let got = self.fill(bytes)?;
        if got < bytes.len() {
            return Err(Damage::Truncated(self.offset));
        }
        Ok(())
    }

    /// Reads until the buffer is full or the file ends; returns the number of bytes.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, Damage> {
        let mut got = 0;
        while got < bytes.len() {
            match self.input.read(&mut bytes[got..]) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Damage::of(error)),
            }
        }
        self.hash.update(&bytes[..got]);
        self.offset += got as u64;
        Ok(got)
    }
}

//! Why bytes are not what they should be.

use std::io;

use jaco_types::InvalidName;

use super::FORMAT;

/// Why something could not be read or written. The daemon stops on it and never skips.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Written by a program with another idea of the format.
    #[error("{what} was written in format {found}, and this program reads format {FORMAT} at most")]
    UnknownFormat {
        /// What was being read, for example `log entry`.
        what: &'static str,
        /// The number that it carries; zero where it carries none.
        found: u32,
    },
    /// A known format, and yet not understood whole.
    #[error("{what} of format {format} is not understood")]
    NotUnderstood {
        /// What was being read, for example `log entry`.
        what: &'static str,
        /// The format that it was written in.
        format: u32,
        /// What is wrong with it.
        #[source]
        problem: Problem,
    },
    /// The state breaks a promise that its snapshot depends on.
    #[error("the state cannot be written: {broken}")]
    Inconsistent {
        /// The promise.
        broken: &'static str,
    },
    /// The stream could not be read or written, or it ended too soon.
    #[error("the snapshot stream failed")]
    Io(#[from] io::Error),
}

/// What is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is not a message at all.
    #[error("the bytes are not a message")]
    Malformed(#[from] prost::DecodeError),
    /// It has fields or variants that this program does not know, or was not written by the encoder.
    #[error("{unread} of its bytes mean nothing to this program: a newer one wrote it")]
    Unread {
        /// How many bytes are without a meaning.
        unread: usize,
    },
    /// A part that is always written is absent.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// A part that only another value of the message has.
    #[error("it has {0} that do not belong to it")]
    Misplaced(&'static str),
    /// A number that is no value of its enum; zero is none either.
    #[error("{number} is no {what}")]
    UnknownValue {
        /// The enum.
        what: &'static str,
        /// The number.
        number: i64,
    },
    /// A name that is none of a closed set.
    #[error("{text:?} is no {what}")]
    UnknownName {
        /// The set.
        what: &'static str,
        /// The name, cut to 80 characters.
        text: String,
    },
    /// A name breaks its rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A number does not fit its type.
    #[error("{what} {value} is out of range")]
    OutOfRange {
        /// What it counts.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// A hash is not 32 bytes long.
    #[error("a hash has {0} bytes instead of 32")]
    HashLength(usize),
    /// The pinned image is not its repository with a digest.
    #[error("{0:?} is not an image with its digest")]
    ImageDigest(String),
    /// A sorted list is not sorted, or has something twice.
    #[error("the {0} are not in order, or one is there twice")]
    Unordered(&'static str),
    /// A row refers to one that is not there.
    #[error("a row belongs to a {0} that is not there")]
    Orphan(&'static str),
    /// A row is larger than any that is written.
    #[error("a row has {size} bytes, more than the {limit} that one may have")]
    RowTooLarge {
        /// Its size in bytes.
        size: usize,
        /// The most a row may have.
        limit: usize,
    },
    /// The trailer counts other rows than there were.
    #[error("{found} rows were read where {expected} were written")]
    RowCount {
        /// Rows that the trailer counts.
        expected: u64,
        /// Rows that were there.
        found: u64,
    },
    /// Something follows the trailer.
    #[error("there are bytes after the last row")]
    AfterTheEnd,
}

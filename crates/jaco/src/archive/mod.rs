//! Tar archives, as container engines read and write them: folders of this machine into an archive, and an archive into a
//! folder of this machine, whatever is in it.
//!
//! The format is POSIX ustar with pax headers; archives are read with the long names and numbers of GNU tar as well.

mod entry;
mod pack;
mod read;
#[cfg(test)]
pub(crate) mod tests;
mod unpack;
mod write;

pub(crate) use entry::{ArchiveError, Content};
pub(crate) use pack::{Packed, pack, pack_files};
pub(crate) use read::Reader;
pub(crate) use unpack::{Destination, Unpacked, unpack};

//! A file system as an archive that a kernel unpacks at its start: cpio, in the format "newc".
//!
//! Everything in there is root's; times are zero.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// How the archive ends.
const TRAILER: &str = "TRAILER!!!";

#[derive(Debug)]
enum Entry {
    Folder,
    File(Vec<u8>),
    Link(PathBuf),
}

/// The files of an archive, by their paths. A folder sorts before what is in it, as the kernel needs it.
#[derive(Debug, Default)]
pub(super) struct Archive {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Archive {
    pub(super) fn folder(&mut self, path: &Path) {
        self.add(path, Entry::Folder);
    }

    /// A file that can be run.
    pub(super) fn file(&mut self, path: &Path, content: Vec<u8>) {
        self.add(path, Entry::File(content));
    }

    pub(super) fn link(&mut self, path: &Path, target: &Path) {
        self.add(path, Entry::Link(target.to_owned()));
    }

    fn add(&mut self, path: &Path, entry: Entry) {
        let path = path.strip_prefix("/").expect("paths are absolute");
        for parent in path.ancestors().skip(1).filter(|parent| *parent != Path::new("")) {
            self.entries.entry(parent.to_owned()).or_insert(Entry::Folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        for (inode, (path, entry)) in (1..).zip(&self.entries) {
            let (mode, content) = match entry {
                Entry::Folder => (FOLDER, &[][..]),
                Entry::File(content) => (PROGRAM, content.as_slice()),
                Entry::Link(target) => (LINK, target.as_os_str().as_bytes()),
            };
            record(to, path.as_os_str(), inode, mode, content)?;
        }
        record(to, OsStr::new(TRAILER), 0, 0, &[])
    }
}

/// A header of numbers in hexadecimal digits, the name with a zero behind it, and the content; both are filled up to four bytes.
fn record(
    to: &mut impl Write,
    name: &OsStr,
    inode: u32,
    mode: u32,
    content: &[u8],
) -> io::Result<()> {
    let length = |bytes: usize| u32::try_from(bytes).expect("files are shorter than 4 GiB");
    let (size, named) = (length(content.len()), length(name.len() + 1));
    let (owner, group, links, time, device) = (0, 0, 1, 0, [0; 4]);
    let mut header = b"070701".to_vec();
    let numbers = [&[inode, mode, owner, group, links, time, size], &device[..], &[named, 0]];
    for number in numbers.concat() {
        write!(header, "{number:08X}")?;
    }
    header.extend(name.as_bytes());
    header.push(0);
    fill(&mut header);
    to.write_all(&header)?;
    to.write_all(content)?;
    to.write_all(&[0; 3][..content.len().next_multiple_of(4) - content.len()])
}

fn fill(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

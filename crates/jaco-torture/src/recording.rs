//! From calls to steps: which file a descriptor or a path means. It must never skip a call that changes the recorded
//! folder; [`Recording::of`] compares what it has understood with what is on the disk in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Durability, Inode, ROOT, Step, StepKind};
use crate::folder::{Folder, Node};
use crate::image::{self, Disk, Draw};
use crate::trace::{Call, Returned, invalid, parse, unescape};
use crate::untold;

/// What a program did in a folder.
#[derive(Debug, Clone)]
pub struct Recording {
    /// What was there before, on stable storage.
    pub before: Folder,
    pub steps: Vec<Step>,
}

/// An open file.
#[derive(Debug, Clone, Copy)]
struct Open {
    inode: Inode,
    at: usize,
    appends: bool,
}

struct Recorder {
    root: PathBuf,
    steps: Vec<Step>,
    disk: Disk,
    lengths: BTreeMap<Inode, usize>,
    open: BTreeMap<i64, Open>,
    next: Inode,
}

impl Recording {
    /// Understands the trace of a program that has ended. `before` is what the folder held, `root` what it holds now.
    pub(crate) fn of(text: &str, root: &Path, before: Folder) -> io::Result<Self> {
        let calls = parse(text)?;
        let mut recorder = Recorder::new(root, &before);
        // A descriptor is valid from the end of the call that opens it to the begin of the one that closes it.
        let mut moments: Vec<(usize, &Call)> = Vec::new();
        for call in &calls {
            let opens = matches!(call.name.as_str(), "openat" | "dup" | "fcntl");
            moments.push((if opens { call.end } else { call.begin }, call));
        }
        moments.sort_by_key(|(moment, _)| *moment);
        for (_, call) in moments {
            recorder.call(call)?;
        }
        let mut steps = recorder.steps;
        // A change may have happened as soon as its call begins, a sync only once it ends.
        steps.sort_by_key(|step| if step.kind.is_sync() { step.end } else { step.begin });
        let recording = Self { before, steps };
        let (replayed, found) = (recording.whole(), Folder::read(root)?);
        let is_it = |recording: &Self| recording.whole() == found;
        if replayed == found {
            return Ok(recording);
        }
        untold::readings(&recording.steps)
            .map(|steps| Self { before: recording.before.clone(), steps })
            .find(is_it)
            .ok_or_else(|| {
                let difference = replayed.difference(&found);
                invalid(format!("the trace does not lead to what is on the disk: {difference}"))
            })
    }

    /// All that was done, durable or not.
    fn whole(&self) -> Folder {
        self.image(self.steps.len(), Draw::Everything)
    }

    /// The same without some steps, or with others: a program with a bug.
    #[must_use]
    pub fn with_steps(&self, change: impl FnOnce(Vec<Step>) -> Vec<Step>) -> Self {
        Self { before: self.before.clone(), steps: change(self.steps.clone()) }
    }

    /// The marks that the program had made before step `at`.
    pub fn marks(&self, at: usize) -> impl Iterator<Item = &str> {
        self.steps[..at].iter().filter_map(|step| {
            if let StepKind::Mark(text) = &step.kind { Some(text.as_str()) } else { None }
        })
    }

    /// Every file and folder that once had a name that `wanted` accepts.
    #[must_use]
    pub fn named(&self, wanted: impl Fn(&str) -> bool) -> BTreeSet<usize> {
        let disk = Disk::of(&self.before);
        let before =
            disk.names.iter().filter(|((_, name), _)| wanted(name)).map(|(_, inode)| *inode);
        let named = self.steps.iter().filter_map(|step| {
            if let StepKind::Create { name, inode, .. }
            | StepKind::Rename { to: (_, name), inode, .. } = &step.kind
                && wanted(name)
            {
                return Some(*inode);
            }
            None
        });
        before.chain(named).collect()
    }

    /// What a disk may hold after a power cut before step `at`.
    #[must_use]
    pub fn image(&self, at: usize, draw: Draw) -> Folder {
        image::image(&self.before, &self.steps[..at], draw)
    }

    /// How many changes before step `at` are not durable.
    #[must_use]
    pub fn pending(&self, at: usize) -> usize {
        image::pending(&self.steps[..at], Durability::Weak).len()
    }
}

impl Recorder {
    fn new(root: &Path, before: &Folder) -> Self {
        let disk = Disk::of(before);
        let next = disk.nodes.len();
        let length = |(inode, node): (&Inode, &Node)| match node {
            Node::File(bytes) => Some((*inode, bytes.len())),
            Node::Folder => None,
        };
        let lengths = disk.nodes.iter().filter_map(length).collect();
        let (steps, open) = (Vec::new(), BTreeMap::new());
        Self { root: root.to_owned(), steps, disk, lengths, open, next }
    }

    fn call(&mut self, call: &Call) -> io::Result<()> {
        let name = call.name.as_str();
        if let "fsync" | "fdatasync" = name {
            let Some(open) = self.opened(call)? else { return Ok(()) };
            let inode = open.inode;
            match call.returned {
                Returned::Value(_) => self.push(call, StepKind::Sync { inode }),
                Returned::Failed => self.push(call, StepKind::SyncFailed { inode }),
                // It ended nothing.
                Returned::Never => {}
            }
            return Ok(());
        }
        let value = match call.returned {
            Returned::Value(value) => value,
            Returned::Failed => return Ok(()),
            // Whether it was carried out, is found out in the end.
            Returned::Never => call.if_carried_out(),
        };
        match name {
            "openat" => self.open(call, value),
            "close" => {
                self.open.remove(&call.number(0)?);
                Ok(())
            }
            "dup" => {
                if let Some(open) = self.opened(call)? {
                    self.open.insert(value, open);
                }
                Ok(())
            }
            "fcntl" if call.word(1)?.starts_with("F_DUPFD") => {
                if let Some(open) = self.opened(call)? {
                    self.open.insert(value, open);
                }
                Ok(())
            }
            "write" => self.write(call, value),
            "writev" => self.write_parts(call, value),
            "pwrite64" => {
                let Some(open) = self.opened(call)? else { return Ok(()) };
                let offset = size(call.number(3)?)?;
                let data = call.bytes(1)?[..size(value)?].to_vec();
                self.change(call, open.inode, offset, data);
                Ok(())
            }
            "lseek" => {
                let (descriptor, at) = (call.number(0)?, size(value)?);
                if let Some(open) = self.open.get_mut(&descriptor) {
                    open.at = at;
                }
                Ok(())
            }
            "ftruncate" => {
                let Some(open) = self.opened(call)? else { return Ok(()) };
                let length = size(call.number(1)?)?;
                self.truncate(call, open.inode, length);
                Ok(())
            }
            "rename" => self.rename(call, 0, 1),
            "renameat" | "renameat2" => self.rename(call, 1, 3),
            "unlink" | "rmdir" => self.remove(call, 0),
            "unlinkat" => self.remove(call, 1),
            "mkdir" => self.make_folder(call, 0),
            "mkdirat" => self.make_folder(call, 1),
            // Says nothing about what is durable.
            "sync_file_range" | "fcntl" => Ok(()),
            _ => match self.opened(call) {
                Ok(None) => Ok(()),
                Ok(Some(_)) | Err(_) => Err(call.malformed()),
            },
        }
    }

    fn push(&mut self, call: &Call, kind: StepKind) {
        self.steps.push(Step { kind, begin: call.begin, end: call.end });
    }

    fn opened(&self, call: &Call) -> io::Result<Option<Open>> {
        Ok(self.open.get(&call.number(0)?).copied())
    }

    /// The folder and the name that a path means, if it is in the recorded folder.
    fn place(&self, call: &Call, at: usize) -> io::Result<Option<(Inode, String)>> {
        let path = String::from_utf8(call.bytes(at)?.to_vec()).map_err(|_| call.malformed())?;
        let path = PathBuf::from(path);
        let Ok(path) = path.strip_prefix(&self.root) else { return Ok(None) };
        let Some(name) = path.file_name() else { return Ok(None) };
        let folder = path.parent().unwrap_or(Path::new(""));
        let folder = self.disk.find(folder).ok_or_else(|| call.malformed())?;
        Ok(Some((folder, name.to_string_lossy().into_owned())))
    }

    fn open(&mut self, call: &Call, descriptor: i64) -> io::Result<()> {
        self.open.remove(&descriptor);
        let path = call.bytes(1)?;
        let is_root = path == self.root.as_os_str().as_encoded_bytes();
        let flags = call.word(2)?.to_owned();
        let has = |flag: &str| flags.split('|').any(|found| found == flag);
        if is_root {
            self.open.insert(descriptor, Open { inode: ROOT, at: 0, appends: false });
            return Ok(());
        }
        let Some((folder, name)) = self.place(call, 1)? else { return Ok(()) };
        let inode = match self.disk.names.get(&(folder, name.clone())) {
            Some(inode) => {
                let inode = *inode;
                if has("O_TRUNC") && self.lengths.get(&inode).is_some_and(|length| *length > 0) {
                    self.truncate(call, inode, 0);
                }
                inode
            }
            None if has("O_CREAT") => self.create(call, folder, name, Node::File(Vec::new())),
            None => return Err(call.malformed()),
        };
        self.open.insert(descriptor, Open { inode, at: 0, appends: has("O_APPEND") });
        Ok(())
    }

    fn create(&mut self, call: &Call, folder: Inode, name: String, node: Node) -> Inode {
        let inode = self.next;
        self.next += 1;
        self.lengths.insert(inode, 0);
        self.disk.names.insert((folder, name.clone()), inode);
        self.push(call, StepKind::Create { folder, name, inode, node });
        inode
    }

    fn make_folder(&mut self, call: &Call, at: usize) -> io::Result<()> {
        let Some((folder, name)) = self.place(call, at)? else { return Ok(()) };
        let inode = self.create(call, folder, name, Node::Folder);
        self.lengths.remove(&inode);
        Ok(())
    }

    fn write(&mut self, call: &Call, written: i64) -> io::Result<()> {
        let data = call.bytes(1)?[..size(written)?].to_vec();
        self.append(call, data)
    }

    /// `[{iov_base="…", iov_len=…}, …]`.
    fn write_parts(&mut self, call: &Call, written: i64) -> io::Result<()> {
        let mut data = Vec::new();
        for part in call.word(1)?.split("iov_base=\"").skip(1) {
            let (escaped, _) = part.split_once('"').ok_or_else(|| call.malformed())?;
            data.extend(unescape(escaped).ok_or_else(|| call.malformed())?);
        }
        data.truncate(size(written)?);
        self.append(call, data)
    }

    fn append(&mut self, call: &Call, data: Vec<u8>) -> io::Result<()> {
        let descriptor = call.number(0)?;
        let Some(open) = self.open.get(&descriptor).copied() else {
            // Each line that the program prints by one call.
            if descriptor == 1 {
                let text = String::from_utf8_lossy(&data).trim_end().to_owned();
                self.push(call, StepKind::Mark(text));
            }
            return Ok(());
        };
        let length = self.lengths.get(&open.inode).copied().unwrap_or_default();
        let offset = if open.appends { length } else { open.at };
        if let Some(open) = self.open.get_mut(&descriptor) {
            open.at = offset + data.len();
        }
        self.change(call, open.inode, offset, data);
        Ok(())
    }

    fn change(&mut self, call: &Call, inode: Inode, offset: usize, data: Vec<u8>) {
        let length = self.lengths.entry(inode).or_default();
        *length = (*length).max(offset + data.len());
        self.push(call, StepKind::Write { inode, offset, data });
    }

    fn truncate(&mut self, call: &Call, inode: Inode, length: usize) {
        self.lengths.insert(inode, length);
        self.push(call, StepKind::Truncate { inode, length });
    }

    fn rename(&mut self, call: &Call, from: usize, to: usize) -> io::Result<()> {
        let (from, to) = (self.place(call, from)?, self.place(call, to)?);
        let (from, to) = match (from, to) {
            (None, None) => return Ok(()),
            (Some(from), Some(to)) => (from, to),
            _ => return Err(call.malformed()),
        };
        let inode = self.disk.names.remove(&from).ok_or_else(|| call.malformed())?;
        self.disk.names.insert(to.clone(), inode);
        self.push(call, StepKind::Rename { from, to, inode });
        Ok(())
    }

    fn remove(&mut self, call: &Call, at: usize) -> io::Result<()> {
        let Some((folder, name)) = self.place(call, at)? else { return Ok(()) };
        self.disk.names.remove(&(folder, name.clone()));
        self.push(call, StepKind::Remove { folder, name });
        Ok(())
    }
}

fn size(number: i64) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| invalid(format!("{number} is no size")))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn escaped(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "\\x{byte:02x}").unwrap();
            text
        })
    }

    /// A file of four bytes, then these calls; what is recorded if the file is as `left` in the end.
    fn recorded(calls: &str, left: &[u8]) -> io::Result<Recording> {
        let held = tempfile::tempdir().unwrap();
        let root = held.path().canonicalize().unwrap();
        let file = root.join("a");
        std::fs::write(&file, left).unwrap();
        let path = escaped(file.as_os_str().as_encoded_bytes());
        let trace = format!(
            "7 openat(AT_FDCWD, \"{path}\", O_WRONLY|O_CREAT, 0666) = 3\n\
             7 write(3, \"{}\", 4) = 4\n{calls}",
            escaped(b"abcd"),
        );
        Recording::of(&trace, &root, Folder::default())
    }

    fn check(calls: &str, outcomes: &[&[u8]]) {
        for left in outcomes {
            let recording = recorded(calls, left).unwrap();
            assert_eq!(recording.whole().nodes[Path::new("a")], Node::File(left.to_vec()));
        }
        let error = recorded(calls, b"ab??").unwrap_err().to_string();
        assert!(error.contains("does not lead to what is on the disk: a from byte"), "{error}");
    }

    /// R-FAULT-1: two threads cut a file at the same time, as sled's do. Which was first, the folder says; the trace does
    /// not.
    #[test]
    fn of_two_calls_at_the_same_time_either_may_be_first() {
        let calls = "8 ftruncate(3, 1 <unfinished ...>\n\
                     9 ftruncate(3, 3 <unfinished ...>\n\
                     8 <... ftruncate resumed>) = 0\n\
                     9 <... ftruncate resumed>) = 0\n";
        check(calls, &[b"a\0\0", b"a"]);
        let one_by_one = "8 ftruncate(3, 1) = 0\n9 ftruncate(3, 3) = 0\n";
        check(one_by_one, &[b"a\0\0"]);
        assert!(recorded(one_by_one, b"a").is_err());
    }

    /// R-FAULT-1: a process that ends by a failed call may end while another of its threads writes.
    #[test]
    fn a_call_within_which_the_program_ended_may_have_been_carried_out() {
        let calls = "8 pwrite64(3, \"\\x65\", 1, 4 <unfinished ...>\n\
                     9 ftruncate(3, 1) = ?\n\
                     8 <... pwrite64 resumed>) = ?\n";
        check(calls, &[b"abcd", b"abcde", b"a", b"a\0\0\0e"]);
    }
}

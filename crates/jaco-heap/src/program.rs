//! The pages of the program itself: its code and constants.

use std::fs;

/// A part of the address space, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mapping {
    begin: usize,
    length: usize,
}

/// Unmaps code and constants of the program. What is run or read next is mapped again, from the page cache, with 64 KiB around it: a
/// microsecond for each such piece. What ran at the start alone is no memory of the process from then on, and the first to go
/// where memory is short.
pub fn unmap_program() {
    let program = fs::read_link("/proc/self/exe").unwrap_or_default();
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for mapping in mappings(&smaps, &program.to_string_lossy()) {
        sys::unmap(mapping);
    }
}

/// The mappings of `program` that are as in its file: not writable, and without a page that has been written, as those
/// are whose addresses were filled in when the program was loaded (proc(5), `/proc/pid/smaps`).
fn mappings(smaps: &str, program: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        if let Some(anonymous) = line.strip_prefix("Anonymous:") {
            found.extend(current.take().filter(|_| anonymous.trim() == "0 kB"));
        } else if let Some((mapping, rights, file)) = head(line) {
            current = (["r--p", "r-xp"].contains(&rights) && file == program).then_some(mapping);
        }
    }
    found
}

/// `55d0c0a00000-55d0c2e00000 r-xp 00a00000 fe:00 1234     /usr/bin/jacod`
fn head(line: &str) -> Option<(Mapping, &str, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let (begin, end) = (number(begin)?, number(end)?);
    let mut fields = rest.splitn(5, ' ');
    let (rights, file) = (fields.next()?, fields.nth(3)?);
    Some((Mapping { begin, length: end.checked_sub(begin)? }, rights, file.trim_start()))
}

#[cfg(target_os = "linux")]
mod sys {
    use super::Mapping;

    #[expect(unsafe_code, reason = "a call of C")]
    pub(super) fn unmap(mapping: Mapping) {
        let begin = std::ptr::with_exposed_provenance_mut(mapping.begin);
        // SAFETY: the pages are private, of a file, read-only and not written: mapped again, they have the same bytes. Nothing
        // of a program is unmapped while it runs, so the range is still that of the mapping.
        let _unmapped = unsafe { libc::madvise(begin, mapping.length, libc::MADV_DONTNEED) };
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    pub(super) fn unmap(_mapping: super::Mapping) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// R-FAULT-3: what was written is not the file's any more, be it read-only now; libraries are others' as well.
    #[test]
    fn what_is_as_in_the_file_is_unmapped() {
        let smaps = "\
1000-5000 r--p 00000000 fe:00 1234                       /usr/bin/jacod\nRss: 8 kB\nAnonymous:             0 kB\nVmFlags: rd mr\n\
5000-9000 r-xp 00004000 fe:00 1234                       /usr/bin/jacod\nAnonymous:             0 kB\n\
9000-a000 r--p 00008000 fe:00 1234                       /usr/bin/jacod\nAnonymous:             4 kB\n\
a000-b000 rw-p 00009000 fe:00 1234                       /usr/bin/jacod\nAnonymous:             0 kB\n\
b000-c000 rw-p 00000000 00:00 0                          [heap]\nAnonymous:             0 kB\n\
c000-d000 r-xp 00000000 fe:00 99                         /lib/libc.so.6\nAnonymous:             0 kB\n";
        let found = mappings(smaps, "/usr/bin/jacod");
        assert_eq!(
            found,
            [Mapping { begin: 0x1000, length: 0x4000 }, Mapping { begin: 0x5000, length: 0x4000 }]
        );
        assert!(mappings(smaps, "/usr/bin/jacod (deleted)").is_empty());
    }

    /// Pages of files that are mapped.
    fn in_files() -> u64 {
        let statm = fs::read_to_string("/proc/self/statm").expect("it is there");
        let pages = statm.split(' ').nth(2).expect("it has seven fields");
        pages.parse().expect("a number")
    }

    /// Constants that only [`a_program_goes_on_without_its_pages`] reads: 4 MiB.
    static CONSTANTS: [u8; 4 << 20] = {
        let (mut constants, mut at, mut value) = ([0; 4 << 20], 0, 0_u8);
        while at < constants.len() {
            value = value.wrapping_add(1);
            constants[at] = value;
            at += 4096;
        }
        constants
    };

    fn sum() -> u64 {
        std::hint::black_box(&CONSTANTS).iter().map(|byte| u64::from(*byte)).sum()
    }

    /// R-FAULT-3: what the program has read is no memory of it any more, and reads the same again.
    #[test]
    fn a_program_goes_on_without_its_pages() {
        let _alone = crate::tests::alone();
        let first = sum();
        let before = in_files();
        unmap_program();
        let after = in_files();
        assert!(after + 900 < before, "{before} pages, then {after}");
        assert_eq!(sum(), first);
    }
}

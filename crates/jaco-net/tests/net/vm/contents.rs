//! What is in the machine's file system: this program, the programs that tests start, the libraries of both, and modules.
//!
//! Everything but the modules is this machine's own, at the same places.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::Archive;
use super::guest::{FOLDERS, MODULES};
use super::packages::{Kernel, output};

/// Programs that the tests start, or that these start.
const PROGRAMS: [&str; 12] = [
    "ip", "nft", "tc", "tcpdump", "iperf3", "ping", "sh", "find", "sort", "xargs", "grep",
    "timeout",
];

/// What routers need of a kernel, and what tests do to the wire. Rules refer to parts of the packet filter by name, and nobody
/// loads them on demand in there.
const NEEDED: [&str; 15] = [
    "bridge",
    "nf_conntrack",
    "nf_tables",
    "nft_chain_nat",
    "nft_ct",
    "nft_fib_inet",
    "nft_limit",
    "nft_masq",
    "nft_nat",
    "nft_reject_inet",
    "sch_netem",
    "sch_tbf",
    "tun",
    "veth",
    "dummy",
];

/// Which modules the kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Modules {
    All,
    AllButWireGuard,
}

/// Users as programs look them up.
const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";

/// The file system.
pub(super) fn contents(kernel: &Kernel, modules: Modules) -> Archive {
    let mut archive = Archive::default();
    for folder in FOLDERS {
        archive.folder(Path::new(folder));
    }
    // Where these are links here they are links there.
    for folder in ["/bin", "/sbin", "/lib", "/lib64"] {
        if let Ok(target) = fs::read_link(folder) {
            archive.link(Path::new(folder), &target);
        }
    }
    archive.file(Path::new("/etc/passwd"), USERS.into());
    let own = std::env::current_exe().unwrap();
    let mut libraries = libraries_of(&own);
    archive.file(Path::new("/init"), fs::read(own).unwrap());
    for name in PROGRAMS {
        let path = find(name);
        libraries.extend(libraries_of(&path));
        archive.file(&place(&path), fs::read(&path).unwrap());
    }
    for library in libraries {
        archive.file(&place(&library), fs::read(library).unwrap());
    }
    let names = match modules {
        Modules::All => [&NEEDED[..], &["wireguard"]].concat(),
        Modules::AllButWireGuard => NEEDED.to_vec(),
    };
    for (number, (name, content)) in kernel.modules(&names).into_iter().enumerate() {
        archive.file(&Path::new(MODULES).join(format!("{number:02}-{name}")), content);
    }
    archive
}

fn find(program: &str) -> PathBuf {
    let folders = std::env::var_os("PATH").expect("there is one");
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(program));
    places.find(|path| path.exists()).unwrap_or_else(|| panic!("{program} is not installed"))
}

/// Where a file is if folders are not reached by links. A library's own name may be a link, and is what programs ask for.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().expect("it is in a folder").canonicalize().unwrap();
    folder.join(path.file_name().expect("it has a name"))
}

/// The shared libraries of a program, and what loads them.
fn libraries_of(program: &Path) -> BTreeSet<PathBuf> {
    let text = String::from_utf8(output(Command::new("ldd").arg(program))).unwrap();
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).collect()
}

//! Man pages, as man shows them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use jaco_testkit::ran;

use crate::built::built;

/// What man shows of a page, and what groff has to say about it.
fn shown(page: &Path) -> (String, String) {
    let mut command = Command::new("man");
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C.UTF-8");
    command.env("MANWIDTH", "100").env("MANPAGER", "cat").env("MAN_KEEP_FORMATTING", "");
    let out = command.args(["--warnings", "--local-file"]).arg(page).stdin(Stdio::null()).output();
    let out = out.expect("man is there");
    assert!(out.status.success(), "{page:?}: {out:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(out.stdout), text(out.stderr))
}

/// R-OPS-1: every command has a page, and each renders without a complaint.
#[test]
fn pages_render() {
    let root = built().unpacked();
    let manual = root.path().join("usr/share/man");
    let page = |name: &str| shown(&manual.join(name)).0;
    assert!(page("man1/jaco-node-drain.1.gz").contains("move their replicas to other nodes"));
    assert!(page("man1/jaco.1.gz").contains("Run compose files on a cluster"));
    let daemon = page("man8/jacod.8.gz");
    assert!(daemon.contains("--config") && daemon.contains("jacod-net(8)"), "{daemon}");
    let mut count = 0;
    for section in ["man1", "man8"] {
        for entry in fs::read_dir(manual.join(section)).expect("there are pages") {
            let path = entry.expect("it can be read").path();
            assert_eq!(shown(&path).1, "", "{path:?}");
            count += 1;
        }
    }
    let help = ran(Command::new(root.path().join("usr/bin/jaco")).arg("help"));
    assert!(help.contains("apply"), "{help}");
    assert!(count > 100, "only {count} pages");
}

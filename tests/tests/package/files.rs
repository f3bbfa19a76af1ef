//! What is written: the same bytes each time, with sums, a bill of materials, and an archive of the same files.

use std::fs;
use std::process::Command;

use jaco_testkit::ran;

use crate::built::built;

/// R-OPS-1: built twice, every file has equal bytes; another packaging of the same programs has another name.
#[test]
fn the_same_bytes_come_out_each_time() {
    let built = built();
    let (first, again) = (built.files("first"), built.files("again"));
    let names = |files: &[std::path::PathBuf]| -> Vec<String> {
        let name =
            |path: &std::path::PathBuf| path.file_name().map(|name| name.display().to_string());
        files.iter().filter_map(name).collect()
    };
    assert_eq!(names(&first).len(), 5, "{first:?}");
    assert_eq!(names(&first), names(&again));
    for (one, other) in first.iter().zip(&again) {
        assert!(
            fs::read(one).unwrap() == fs::read(other).unwrap(),
            "{one:?} differs from {other:?}"
        );
    }
    assert_ne!(names(&first), names(&built.files("second")));
    let folder = first[0].parent().expect("a file lies in a folder");
    ran(Command::new("sha256sum").current_dir(folder).args(["--check", "--strict", "SHA256SUMS"]));
    // Nothing of who built it, or when.
    for deb in ["jaco", "jacod"].map(|name| built.deb("first", name)) {
        let listed = ran(Command::new("dpkg-deb").env("TZ", "UTC").arg("--contents").arg(&deb));
        for line in listed.lines() {
            assert!(line.contains(" root/root ") && line.contains(" 2026-01-01 00:00 "), "{line}");
        }
    }
}

/// R-OPS-1: the bill of materials lists what is compiled in, with licences and sums, and nothing that only tests use.
#[test]
fn the_bill_lists_what_is_compiled_in() {
    let files = built().files("first");
    let bill = files.iter().find(|path| path.to_string_lossy().ends_with(".cdx.json"));
    let text = fs::read_to_string(bill.expect("it was written")).expect("text");
    let bill: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let components = bill["components"].as_array().expect("a list");
    let named = |name: &str| components.iter().find(|each| each["name"] == name);
    for name in ["jacod", "rustls", "openraft", "prost"] {
        assert!(named(name).is_some(), "{name} is missing");
    }
    for name in ["proptest", "turmoil", "xtask", "jaco-testkit"] {
        assert!(named(name).is_none(), "{name} is in no program");
    }
    let rustls = named("rustls").expect("it is there");
    assert_eq!(rustls["hashes"][0]["content"].as_str().map(str::len), Some(64), "{rustls}");
    for each in components {
        assert!(each["licenses"][0]["expression"].is_string(), "{each}");
    }
}

/// R-OPS-1: the archive has the programs, units for `/usr/local`, pages and scripts, below one folder.
#[test]
fn the_archive_has_everything() {
    let files = built().files("first");
    let archive = files.iter().find(|path| path.to_string_lossy().ends_with(".tar.gz"));
    let archive = archive.expect("it was written");
    let listed = ran(Command::new("tar").arg("--list").arg("--file").arg(archive));
    let members: Vec<&str> =
        listed.lines().filter_map(|line| line.split_once('/')).map(|(_, rest)| rest).collect();
    for wanted in [
        "bin/jaco",
        "bin/jacod",
        "lib/systemd/system/jacod.service",
        "lib/systemd/system/jacod-edge.service",
        "lib/sysusers.d/jacod.conf",
        "share/man/man1/jaco-apply.1.gz",
        "share/man/man8/jacod.8.gz",
        "share/zsh/site-functions/_jaco",
        "share/doc/jaco/jacod.yaml",
        "share/doc/jaco/LICENSE",
    ] {
        assert!(members.contains(&wanted), "{wanted} is not in {members:?}");
    }
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let mut unpack = Command::new("tar");
    unpack.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(folder.path());
    ran(unpack.arg("--strip-components=1"));
    let version = ran(Command::new(folder.path().join("bin/jaco")).arg("--version"));
    assert!(version.starts_with("jaco "), "{version}");
    let unit = fs::read_to_string(folder.path().join("lib/systemd/system/jacod.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/local/bin/jacod "), "{unit}");
}

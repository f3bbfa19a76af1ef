//! The names, numbers and types of all messages and rpcs, locked: whoever generates code from `proto/` today talks to every
//! later version.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use protox::prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, MessageDescriptor};

const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");

/// R-OPS-1: the public API only grows.
#[test]
fn the_public_api_keeps_what_it_had() {
    assert_kept("jaco.v1", "jaco/v1");
}

/// R-OPS-1: what is on disks, also after an upgrade, keeps its numbers, also where no frozen instance has them.
#[test]
fn stored_messages_keep_what_they_had() {
    assert_kept("jaco.storage.v1", "jaco/storage/v1");
}

/// What is locked is there unchanged, and what is there is locked. `UPDATE_EXPECT=1` adds what is new; it removes nothing.
fn assert_kept(package: &str, folder: &str) {
    let folder = Path::new(PROTO).join(folder);
    let lock = folder.join("api.lock");
    let declared = declared(package, &folder);
    assert!(declared.len() > 100, "nothing was read");
    let mut locked: BTreeSet<String> =
        std::fs::read_to_string(&lock).unwrap_or_default().lines().map(str::to_owned).collect();
    let broken = broken(&locked, &declared);
    assert!(
        broken.is_empty(),
        "{} has what is not there any more, or is another; add a field or a message instead, and mark the old one as deprecated:\n{broken}",
        lock.display(),
    );
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        locked.extend(declared.iter().cloned());
        let text: String = locked.iter().fold(String::new(), |mut text, line| {
            writeln!(text, "{line}").unwrap();
            text
        });
        std::fs::write(&lock, text).unwrap();
    }
    let new: Vec<_> = declared.difference(&locked).collect();
    assert!(new.is_empty(), "not in {}; UPDATE_EXPECT=1 adds it:\n{new:#?}", lock.display());
}

/// Lines of the lock that nothing declares, each with what is there instead.
fn broken(locked: &BTreeSet<String>, declared: &BTreeSet<String>) -> String {
    locked.difference(declared).fold(String::new(), |mut text, line| {
        writeln!(text, "- {line}").unwrap();
        text
    })
}

/// A line for each field, value and rpc of a package.
fn declared(package: &str, folder: &Path) -> BTreeSet<String> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "proto"))
        .collect();
    files.sort();
    let mut compiler = protox::Compiler::new([PROTO]).unwrap();
    compiler.include_imports(true).open_files(files).unwrap();
    lines(&compiler.descriptor_pool(), package)
}

fn lines(pool: &DescriptorPool, package: &str) -> BTreeSet<String> {
    let messages = pool.all_messages().filter(|message| message.package_name() == package);
    let enums = pool.all_enums().filter(|of| of.package_name() == package);
    let services = pool.services().filter(|service| service.package_name() == package);
    let rpcs = services.flat_map(|service| service.methods().collect::<Vec<_>>());
    let rpcs = rpcs.map(|rpc| {
        let stream = |is: bool| if is { "stream " } else { "" };
        format!(
            "rpc {} ({}{}) returns ({}{})",
            rpc.full_name(),
            stream(rpc.is_client_streaming()),
            rpc.input().full_name(),
            stream(rpc.is_server_streaming()),
            rpc.output().full_name(),
        )
    });
    messages.flat_map(fields).chain(enums.flat_map(values)).chain(rpcs).collect()
}

/// Of a message without fields its name alone.
fn fields(message: MessageDescriptor) -> Vec<String> {
    let name = format!("message {}", message.full_name());
    let fields =
        message.fields().map(|field| format!("field {} {}", field.full_name(), kind(&field)));
    std::iter::once(name).chain(fields).collect()
}

fn kind(field: &FieldDescriptor) -> String {
    let oneof = field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
    let oneof = oneof.map(|oneof| format!(" of {}", oneof.name())).unwrap_or_default();
    let presence = if field.supports_presence() { " with presence" } else { "" };
    format!("= {} {:?} {:?}{presence}{oneof}", field.number(), field.cardinality(), field.kind())
}

fn values(of: EnumDescriptor) -> Vec<String> {
    let name = of.full_name().to_owned();
    of.values().map(|value| format!("value {name}.{} = {}", value.name(), value.number())).collect()
}

/// Law: each change that an old client would notice is noticed here.
#[test]
fn changes_are_noticed() {
    let old = "message A { string name = 1; oneof of { uint64 left = 2; bool right = 3; } }
               enum E { E_NONE = 0; E_SOME = 1; } message B { repeated A all = 1; optional E e = 2; }
               service S { rpc Ask (A) returns (stream B); }";
    let locked = of_text(old);
    assert_eq!(broken(&locked, &of_text(old)), "");
    let grown = old.replace("string name = 1;", "string name = 1; bytes more = 9;");
    assert_eq!(broken(&locked, &of_text(&grown)), "", "growing breaks nothing");
    for (was, is) in [
        ("string name = 1", "string name = 4"),
        ("string name = 1", "bytes name = 1"),
        ("string name = 1", "string title = 1"),
        ("string name = 1", "repeated string name = 1"),
        ("string name = 1", "optional string name = 1"),
        ("string name = 1;", ""),
        ("bool right = 3; }", "} bool right = 3;"),
        ("E_SOME = 1", "E_SOME = 2"),
        ("E_SOME = 1;", ""),
        ("repeated A all = 1", "repeated B all = 1"),
        ("(stream B)", "(B)"),
        ("Ask (A)", "Ask (stream A)"),
        ("rpc Ask", "rpc Tell"),
    ] {
        assert!(old.contains(was));
        assert_ne!(broken(&locked, &of_text(&old.replacen(was, is, 1))), "", "{was:?} -> {is:?}");
    }
}

fn of_text(text: &str) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.proto");
    std::fs::write(&file, format!("syntax = \"proto3\"; package p; {text}")).unwrap();
    let mut compiler = protox::Compiler::new([folder.path()]).unwrap();
    compiler.open_file(&file).unwrap();
    lines(&compiler.descriptor_pool(), "p")
}

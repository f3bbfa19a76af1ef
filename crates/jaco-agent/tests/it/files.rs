//! What is put on the disk for a container, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use jaco_agent::engine::MountedFiles;
use jaco_agent::files::{self, FilesError};
use jaco_agent::{FileDirs, Unseal};
use jaco_compose::tree::{FileTree, TreeEntry};
use jaco_state::command::ContentPut;
use jaco_state::contents::{Form, Hold, Piece, PieceBytes};
use jaco_state::registries::RegistryLogin;
use jaco_state::{Command, Content, Table};
use jaco_types::{ContentId, InstanceId, RegistryName};

use crate::names::instance;

pub(crate) const SECRET: &[u8] = b"hunter2";

/// A seal that turns bytes round.
struct Mirror;

impl Unseal for Mirror {
    fn unseal(&self, _: &ContentId, sealed: &[u8]) -> Result<Vec<u8>, String> {
        match sealed {
            b"damaged" => Err("sealed value was altered".to_owned()),
            _ => Ok(sealed.iter().rev().copied().collect()),
        }
    }

    fn unseal_password(&self, _: &RegistryName, login: &RegistryLogin) -> Result<String, String> {
        let turned = login.password.0.iter().rev().copied().collect();
        String::from_utf8(turned).map_err(|_| "sealed value was altered".to_owned())
    }
}

pub(crate) fn file_dirs(folder: &Path) -> FileDirs {
    let (files, secrets) = (folder.join("contents"), folder.join("secrets"));
    FileDirs { files, secrets, removed: folder.join("removed"), unseal: Arc::new(Mirror) }
}

fn id(number: u8) -> ContentId {
    ContentId([number; 32])
}

fn plain(number: u8, bytes: &[u8]) -> Piece {
    Piece { id: id(number), form: Form::Plain, bytes: PieceBytes(bytes.into()) }
}

fn sealed(number: u8, bytes: &[u8]) -> Piece {
    let bytes: Vec<u8> = bytes.iter().rev().copied().collect();
    Piece { id: id(number), form: Form::Sealed, bytes: PieceBytes(bytes.into()) }
}

pub(crate) fn put(pieces: &[Piece]) -> Command {
    ContentPut::new(pieces.to_vec()).into()
}

pub(crate) fn contents(pieces: &[Piece]) -> BTreeSet<ContentId> {
    pieces.iter().map(|piece| piece.id).collect()
}

fn stored(pieces: &[Piece]) -> Table<ContentId, Content> {
    let row = |piece: &Piece| {
        let bytes = piece.bytes.clone();
        (piece.id, Content { bytes, form: piece.form, hold: Hold::Kept })
    };
    pieces.iter().map(row).collect()
}

fn folder_tree() -> FileTree {
    let file = |mode, pieces| TreeEntry::File { mode, size: 0, pieces };
    let folder = |mode| TreeEntry::Folder { mode };
    let link = TreeEntry::Link { target: "../a.conf".to_owned() };
    let entries: BTreeMap<String, TreeEntry> = [
        ("", folder(0o755)),
        ("a.conf", file(0o640, vec![id(1), id(2)])),
        ("closed", folder(0o500)),
        ("closed/link", link),
        ("closed/run.sh", file(0o4755, vec![id(2)])),
    ]
    .map(|(path, entry)| (path.to_owned(), entry))
    .into();
    FileTree::new(entries).unwrap()
}

/// A folder, a secret and a config, and the container that has all of them.
pub(crate) fn shipping() -> (Vec<Piece>, String) {
    let folder = folder_tree().text();
    let secret = FileTree::of_file(0o600, 7, vec![id(3)]).text();
    let pieces = vec![
        plain(1, b"one "),
        plain(2, b"two"),
        sealed(3, SECRET),
        plain(8, folder.as_bytes()),
        plain(9, secret.as_bytes()),
    ];
    let (folder, secret) = (id(8), id(9));
    let container = format!(
        r#"{{"configs":{{"c":{{"content":"text","name":"shop_c"}}}},
            "files":{{"conf":"{folder}"}},
            "secrets":{{"s":{{"name":"shop_s","version":"{secret}"}}}},
            "service":{{"image":"i",
              "configs":[{{"source":"c","target":"/c"}}],
              "secrets":[{{"source":"s","target":"key","mode":"0400"}}],
              "volumes":[{{"type":"bind","source":"conf","target":"/etc/app"}},
                         {{"type":"bind","source":"data","target":"/data"}}]}}}}"#
    );
    (pieces, container)
}

fn run(folder: &Path, pieces: &[Piece], container: &str) -> Result<MountedFiles, FilesError> {
    files::put(&file_dirs(folder), &instance(0, 5), container, &stored(pieces), None)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn folders(folder: &Path) -> BTreeSet<String> {
    files::found(&file_dirs(folder))
}

/// R-IN-4, R-IN-5: files, modes and links are as they were sent; a config and a secret are files of
/// the modes that are asked for; nobody else on the machine gets to any of them.
#[test]
fn mounted_files_equal_the_upload() {
    let folder = tempfile::tempdir().unwrap();
    let (pieces, container) = shipping();
    let shipped = run(folder.path(), &pieces, &container).unwrap();
    assert_eq!(shipped.binds.keys().collect::<Vec<_>>(), ["conf"], "what was not sent is not here");
    let conf = &shipped.binds["conf"];
    assert_eq!(fs::read(conf.join("a.conf")).unwrap(), b"one two");
    assert_eq!(fs::read_link(conf.join("closed/link")).unwrap(), Path::new("../a.conf"));
    assert_eq!(fs::read(conf.join("closed/link")).unwrap(), b"one two");
    assert_eq!((mode(conf), mode(&conf.join("a.conf"))), (0o755, 0o640));
    assert_eq!(mode(&conf.join("closed")), 0o500);
    assert_eq!(mode(&conf.join("closed/run.sh")), 0o755, "set-user-id is not kept");
    let [config, secret] = &shipped.mounts[..] else { panic!("{shipped:?}") };
    assert_eq!((config.target.as_str(), secret.target.as_str()), ("/c", "/run/secrets/key"));
    assert_eq!(
        (fs::read(&config.host).unwrap().as_slice(), mode(&config.host)),
        (&b"text"[..], 0o444)
    );
    assert_eq!((fs::read(&secret.host).unwrap().as_slice(), mode(&secret.host)), (SECRET, 0o400));
    assert!(secret.host.starts_with(folder.path().join("secrets")));
    assert_eq!(
        (mode(secret.host.parent().unwrap()), mode(config.host.parent().unwrap())),
        (0o700, 0o700)
    );
    let own = fs::metadata(folder.path()).unwrap().uid();
    assert_eq!(fs::metadata(&secret.host).unwrap().uid(), own);
}

/// AG-1: done twice is done once, and what a container wrote into its copy stays.
#[test]
fn writing_files_is_idempotent() {
    let folder = tempfile::tempdir().unwrap();
    let (pieces, container) = shipping();
    let first = run(folder.path(), &pieces, &container).unwrap();
    fs::write(first.binds["conf"].join("written"), "by the container").unwrap();
    // What an attempt left that was interrupted.
    let unfinished = folder.path().join(format!("contents/{}.unfinished", instance(0, 6)));
    fs::create_dir_all(unfinished.join("bind-0/half")).unwrap();
    assert_eq!(run(folder.path(), &pieces, &container).unwrap(), first);
    assert!(first.binds["conf"].join("written").is_file());
    let next =
        files::put(&file_dirs(folder.path()), &instance(0, 6), &container, &stored(&pieces), None);
    let next = next.unwrap();
    assert!(
        !next.binds["conf"].join("half").exists() && !next.binds["conf"].join("written").exists()
    );
    for (index, name) in [(5, instance(0, 5)), (6, instance(0, 6))] {
        assert!(folders(folder.path()).contains(&name.to_string()), "{index}");
        files::remove(&file_dirs(folder.path()), &name.to_string()).unwrap();
        files::remove(&file_dirs(folder.path()), &name.to_string()).unwrap();
    }
    assert_eq!(folders(folder.path()), BTreeSet::new());
}

/// R-IN-4: the owner that the manifest asks for gets the files.
#[test]
fn file_owners_follow_the_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let own = fs::metadata(folder.path()).unwrap();
    // Only root may give files away; anybody may keep them.
    let (user, group) = if own.uid() == 0 { (1234, 55) } else { (own.uid(), own.gid()) };
    let (pieces, container) = shipping();
    let container = container
        .replace(r#""mode":"0400""#, &format!(r#""mode":"0400","uid":"{user}","gid":"{group}""#))
        .replace(r#""image":"i""#, &format!(r#""image":"i","user":"{user}:{group}""#));
    let shipped = run(folder.path(), &pieces, &container).unwrap();
    let conf = &shipped.binds["conf"];
    for path in [&shipped.mounts[1].host, conf, &conf.join("a.conf"), &conf.join("closed")] {
        let found = fs::metadata(path).unwrap();
        assert_eq!((found.uid(), found.gid()), (user, group), "{}", path.display());
    }
    assert_eq!(mode(&shipped.mounts[1].host), 0o400);
}

fn check(instance: &InstanceId, pieces: &[Piece], container: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let put = files::put(&file_dirs(folder.path()), instance, container, &stored(pieces), None);
    let error = put.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    let place = file_dirs(folder.path()).secrets.join(instance.to_string());
    assert!(!place.exists(), "nothing half is where a container could mount it");
    files::remove(&file_dirs(folder.path()), &instance.to_string()).unwrap();
    assert_eq!(folders(folder.path()), BTreeSet::new());
}

/// R-IN-5: an error names the file, without its content.
#[test]
fn failed_write_names_the_file() {
    let (mut pieces, container) = shipping();
    let of = instance(0, 5);
    check(&of, &pieces[..4], &container, "secret \"s\": its content 0909");
    check(&of, &pieces[1..], &container, "the uploaded path \"conf\": its content 0101");
    let nobody = container.replace(r#""mode":"0400""#, r#""uid":"app""#);
    check(&of, &pieces, &nobody, "secret \"s\": its uid is not a number");
    let unsent = container.replace(r#""content":"text","#, "");
    check(&of, &pieces, &unsent, "config \"c\": the cluster was not given its content");
    check(&of, &pieces, r#"{"files":{}}"#, "cannot be read");
    pieces[2].bytes = PieceBytes(b"damaged"[..].into());
    check(&of, &pieces, &container, "secret \"s\": sealed value was altered");
}

/// The resolver of a container is its router's; search and options are those of its file, and what the file mounts
/// in that place itself stays.
#[test]
fn resolv_conf_names_the_router() {
    let folder = tempfile::tempdir().unwrap();
    let put = |index, service: &str| {
        let container = format!(r#"{{"service":{{"image":"i"{service}}}}}"#);
        let resolver = Some("10.65.0.2".parse().unwrap());
        let dirs = file_dirs(folder.path());
        files::put(&dirs, &instance(0, index), &container, &stored(&[]), resolver).unwrap()
    };
    let put_text = |index, service: &str| {
        let mounted = put(index, service).mounts.remove(0);
        assert_eq!(mounted.target, "/etc/resolv.conf");
        std::fs::read_to_string(mounted.host).unwrap()
    };
    assert_eq!(put_text(1, ""), "nameserver 10.65.0.2\n");
    let written = r#","dns_search":["a.example","b.example"],"dns_opt":["ndots:2"]"#;
    let expected = "nameserver 10.65.0.2\nsearch a.example b.example\noptions ndots:2\n";
    assert_eq!(put_text(2, written), expected);
    let own = r#","volumes":[{"type":"bind","source":"/r","target":"/etc/resolv.conf"}]"#;
    assert_eq!(put(3, own), MountedFiles::default());
}

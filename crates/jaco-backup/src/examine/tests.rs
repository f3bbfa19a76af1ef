//! What an examination finds in a backup: each object that could not be restored, and no content of a secret.

use std::io::Write;
use std::time::Duration;

use jaco_compose::tree::FileTree;
use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{
    AllocationRef, BackupDeployment, BackupDisabled, BackupEnd, BackupHeader, BackupNamed,
    BackupNetwork, BackupNode, BackupNotifyTarget, BackupPair, BackupPart, BackupPiece,
    BackupRegistry, BackupSecret, FileUpload,
};
use jaco_types::{ContentId, ErrorCode};
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{Detail, Examined, Extent, Model, Object, examine};
use crate::{Backup, Damage, Writer};

const MODEL: &str = r#"{"name":"shop","services":{"web":{"image":"web:1","configs":[{"source":"motd"}],
    "secrets":[{"source":"key"}],"volumes":[{"type":"volume","source":"data","target":"/data"}]}},
    "configs":{"motd":{"file":"./motd.txt"}},"secrets":{"key":{"external":true}},"volumes":{"data":{}}}"#;

const SECRETS: [&str; 5] =
    ["correct-horse", "battery-staple", "of-the-registry", "T0/B0/path", "that-signs"];

fn plain_id(text: &[u8]) -> ContentId {
    ContentId(Sha256::digest(text).into())
}

fn files(name: &str, list: &FileTree) -> Vec<FileUpload> {
    let tree = plain_id(list.text().as_bytes()).0.to_vec().into();
    vec![FileUpload { name: name.to_owned(), tree }]
}

fn piece(text: &str) -> Kind {
    Kind::Piece(BackupPiece { content: Bytes::copy_from_slice(text.as_bytes()) })
}

/// A backup of which everything can be restored, without its end.
fn parts() -> Vec<Kind> {
    let config = FileTree::of_file(0o444, 7, vec![plain_id(b"welcome")]);
    let secret = FileTree::of_file(0o444, 13, vec![ContentId([7; 32])]);
    vec![
        Kind::Header(BackupHeader {
            format: 1,
            cluster_name: "sun".to_owned(),
            raft_index: 42,
            ..BackupHeader::default()
        }),
        Kind::Node(BackupNode {
            hostname: "n1".to_owned(),
            labels: vec![BackupPair { key: "zone".to_owned(), value: "a".to_owned() }],
            cordoned: true,
        }),
        Kind::Named(BackupNamed {
            kind: "secret".to_owned(),
            name: "key".to_owned(),
            content: SECRETS[0].into(),
            users: None,
            expires_at_ms: 0,
        }),
        Kind::Registry(BackupRegistry {
            registry: "ghcr.io".to_owned(),
            username: "robot".to_owned(),
            password: SECRETS[2].to_owned(),
        }),
        Kind::Network(BackupNetwork { name: "back".to_owned(), internal: true, prefix_length: 25 }),
        piece("welcome"),
        piece(&config.text()),
        piece(&secret.text()),
        Kind::Secret(BackupSecret { id: vec![7; 32].into(), content: SECRETS[1].into() }),
        Kind::Deployment(BackupDeployment {
            name: "shop".to_owned(),
            revision: 3,
            compose_json: MODEL.to_owned(),
            configs: files("motd", &config),
            secrets: files("key", &secret),
            ..BackupDeployment::default()
        }),
        Kind::Disabled(BackupDisabled {
            allocations: vec![AllocationRef {
                deployment: "shop".to_owned(),
                service: "web".to_owned(),
                ..AllocationRef::default()
            }],
        }),
        Kind::NotifyTarget(BackupNotifyTarget {
            name: "ops".to_owned(),
            form: "webhook".to_owned(),
            url: format!("https://a.example/{}", SECRETS[3]),
            secret: SECRETS[4].to_owned(),
            ..BackupNotifyTarget::default()
        }),
    ]
}

/// The bytes of a backup of these parts, with its end.
fn written(parts: Vec<Kind>) -> Vec<u8> {
    let number = |of: fn(&Kind) -> bool| parts.iter().filter(|kind| of(kind)).count() as u64;
    let end = BackupEnd {
        deployments: number(|kind| matches!(kind, Kind::Deployment(_))),
        named: number(|kind| matches!(kind, Kind::Named(_))),
        contents: number(|kind| matches!(kind, Kind::Piece(_) | Kind::Secret(_))),
        registries: number(|kind| matches!(kind, Kind::Registry(_))),
        networks: number(|kind| matches!(kind, Kind::Network(_))),
        grants: number(|kind| matches!(kind, Kind::Grants(_))),
        notify_targets: number(|kind| matches!(kind, Kind::NotifyTarget(_))),
    };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes).unwrap();
    for kind in parts.into_iter().chain([Kind::End(end)]) {
        writer.part(&BackupPart { kind: Some(kind) }).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

fn open(bytes: &[u8]) -> Result<Backup, Damage> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Backup::open(file)
}

fn examined(parts: Vec<Kind>) -> Examined {
    examine(&open(&written(parts)).unwrap(), &Extent::All).unwrap()
}

/// An object, without what could not be restored of it.
fn line(object: &Object) -> String {
    let name = format!("{} {}", object.kind.as_str(), object.name);
    match (&object.detail, &object.model) {
        (Detail::None, _) => name,
        (Detail::Text(text), _) => format!("{name} {text}"),
        (Detail::LengthMs(length), _) => format!("{name} {length} ms"),
        (Detail::Uploads(uploads), None) => format!("{name} {uploads} uploads"),
        (Detail::Uploads(uploads), Some(Model { revision, services, .. })) => {
            let services: Vec<&str> = services.iter().map(String::as_str).collect();
            format!("{name} {uploads} uploads, revision {revision} with {}", services.join(", "))
        }
    }
}

/// R-CLI-6: everything that would come back is listed, and secrets by their names alone.
#[test]
fn what_would_come_back_is_listed_without_secrets() {
    let examined = examined(parts());
    assert_eq!(examined.faults(), []);
    let listed: Vec<String> = examined.objects.iter().map(line).collect();
    assert_eq!(
        listed,
        [
            "node n1 zone=a, cordoned",
            "registry ghcr.io robot",
            "network back /25, internal",
            "notify ops webhook",
            "secret key",
            "deployment shop 2 uploads, revision 3 with web",
            "disabled shop/web",
        ]
    );
    let absent = examined.absent();
    assert!(absent.contains(&"data of volumes: shop/data".to_owned()), "{absent:?}");
    assert!(absent.contains(&"images: web:1".to_owned()), "{absent:?}");
    let shown = format!("{examined:?}{absent:?}");
    assert!(SECRETS.iter().all(|secret| !shown.contains(secret)), "{shown}");
}

/// R-CLI-6: an object that could not be restored is named with the reason, whatever is missing or malformed; the others
/// are listed all the same.
#[test]
fn each_fault_is_named() {
    let check = |code: ErrorCode, reason: &str, change: fn(&mut Vec<Kind>)| {
        let mut parts = parts();
        change(&mut parts);
        let examined = examined(parts);
        let faults = examined.faults();
        assert!(
            matches!(&faults[..], [(found, line)] if *found == code && line.contains(reason)),
            "{reason}: {faults:?}"
        );
        assert_eq!(examined.objects.len(), 7, "{reason}");
    };
    let damaged = ErrorCode::BackupInvalid;
    // Contents: of a config, its list, a secret.
    check(damaged, "is referred to and missing", |parts| drop(parts.remove(5)));
    check(damaged, "is referred to and missing", |parts| drop(parts.remove(6)));
    check(damaged, "is referred to and missing", |parts| drop(parts.remove(8)));
    // A list that is none, and an id that is none.
    check(damaged, "list of files", |parts| {
        with_config(parts, plain_id(b"welcome").0.to_vec());
    });
    check(damaged, "32 bytes", |parts| with_config(parts, vec![1, 2, 3]));
    // A plain piece is no secret.
    check(damaged, "is referred to and missing", |parts| {
        let config = FileTree::of_file(0o444, 7, vec![plain_id(b"welcome")]);
        let secrets = files("key", &config);
        change_shop(parts, |shop| shop.secrets = secrets);
    });
    let refused = ErrorCode::InvalidManifest;
    check(refused, "", |parts| {
        change_shop(parts, |shop| shop.compose_json = MODEL.replace("image", "imago"));
    });
    check(refused, "", |parts| change_shop(parts, |shop| shop.overlay_yaml = "services: 7".into()));
    check(refused, "", |parts| change_shop(parts, |shop| shop.environment_toml = "[web".into()));
    check(refused, "", |parts| change_shop(parts, |shop| shop.name = "no name".into()));
    check(ErrorCode::ContentNotFound, "config \"motd\"", |parts| {
        change_shop(parts, |shop| shop.configs.clear());
    });
    check(ErrorCode::InvalidRequest, "/30", |parts| {
        let network = BackupNetwork { name: "b".into(), internal: false, prefix_length: 30 };
        parts[4] = Kind::Network(network);
    });
}

fn with_config(parts: &mut [Kind], tree: Vec<u8>) {
    let tree = tree.into();
    change_shop(parts, |shop| shop.configs = vec![FileUpload { name: "motd".into(), tree }]);
}

fn change_shop(parts: &mut [Kind], change: impl FnOnce(&mut BackupDeployment)) {
    let shop = parts.iter_mut().find_map(|kind| {
        let Kind::Deployment(shop) = kind else { return None };
        Some(shop)
    });
    change(shop.expect("the backup has a deployment"));
}

/// R-CLI-6: only what belongs to a selected deployment is looked at.
#[test]
fn an_extent_limits_what_is_examined() {
    let mut parts = parts();
    parts.insert(
        9,
        Kind::Deployment(BackupDeployment { name: "blog".into(), ..Default::default() }),
    );
    let backup = open(&written(parts)).unwrap();
    let of = |extent: Extent| examine(&backup, &extent).unwrap();
    assert_eq!(of(Extent::All).faults().len(), 1);
    let shop = of(Extent::Only(["shop".to_owned()].into()));
    assert_eq!(shop.faults(), []);
    let kinds: Vec<&str> = shop.objects.iter().map(|object| object.kind.as_str()).collect();
    assert_eq!(kinds, ["secret", "deployment", "disabled"]);
}

/// R-CLI-6, R-IN-3: damage is found at every byte: a file that is cut off anywhere, or in which any bit is flipped, is
/// never taken for a backup that could be restored.
#[test]
fn damage_is_found_at_every_byte() {
    let whole = written(parts());
    assert!(open(&whole).is_ok());
    for end in 0..whole.len() {
        assert!(matches!(open(&whole[..end]), Err(Damage::Truncated(_))), "cut off after {end}");
    }
    for at in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        assert!(open(&bytes).is_err(), "bit {at} was flipped");
    }
}

/// R-IN-3: a list of files is read once, however many deployments refer to it.
#[test]
fn a_shared_list_is_read_once() {
    jaco_mutate::stay_within(
        "examine::tests::a_shared_list_is_read_once",
        100 << 20,
        Duration::from_secs(15),
        || {
            let pieces = (0..10_000).map(|_| plain_id(b"welcome")).collect();
            let list = FileTree::of_file(0o444, 7, pieces);
            let mut parts = parts()[..1].to_vec();
            parts.extend([piece("welcome"), piece(&list.text())]);
            let configs = files("motd", &list);
            parts.extend((0..20_000).map(|number| {
                let (name, configs) = (format!("d{number}"), configs.clone());
                Kind::Deployment(BackupDeployment { name, configs, ..BackupDeployment::default() })
            }));
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&written(parts)).unwrap();
            file
        },
        |file| {
            let examined = examine(&Backup::open(file).unwrap(), &Extent::All).unwrap();
            assert_eq!(examined.faults().len(), 20_000, "they have no model");
        },
    );
}

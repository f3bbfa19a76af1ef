//! Laws of the file format: a written backup is read; a truncated, altered or newer one is reported as such.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{
    AllocationRef, BackupConstraints, BackupDeployment, BackupDisabled, BackupEnd, BackupGrants,
    BackupHeader, BackupNamed, BackupNetwork, BackupNode, BackupNotifyTarget, BackupPair,
    BackupPart, BackupPiece, BackupPolicy, BackupRegistry, BackupRetention, BackupSecret,
    FileUpload, NotifyFilter,
};
use jaco_types::{ContentId, NamedKind};
use prost::Message;
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use super::format::{FORMAT, MAGIC};
use super::{Backup, Damage, Summary, Writer, finish};
use crate::partial::Partial;

/// Written by the first version that wrote backups.
const FROZEN: &[u8] = include_bytes!("frozen/v1.jacobak");

/// Written by the first version that wrote policies.
const FROZEN_POLICY: &[u8] = include_bytes!("frozen/policy.jacobak");

/// One with targets of notifications.
const FROZEN_NOTIFY: &[u8] = include_bytes!("frozen/notify.jacobak");

fn parts() -> Vec<Kind> {
    let pair = |key: &str, value: &str| BackupPair { key: key.to_owned(), value: value.to_owned() };
    let files = |name: &str, tree: &[u8; 32]| {
        vec![FileUpload { name: name.to_owned(), tree: tree.to_vec().into() }]
    };
    vec![
        Kind::Header(BackupHeader {
            format: 1,
            cluster_id: "c1".repeat(16),
            cluster_name: "sun".to_owned(),
            raft_index: 42,
            taken_at_ms: 1_700_000_000_000,
            version: "0.1.0".to_owned(),
        }),
        Kind::Retention(BackupRetention { age_ms: 86_400_000 }),
        Kind::Constraints(BackupConstraints { pairs: vec![pair("ram", "1G")] }),
        Kind::Node(BackupNode {
            hostname: "n1".to_owned(),
            labels: vec![pair("zone", "a")],
            cordoned: true,
        }),
        Kind::Named(BackupNamed {
            kind: "secret".to_owned(),
            name: "db".to_owned(),
            content: Bytes::from_static(b"hunter2"),
            expires_at_ms: 0,
            users: None,
        }),
        Kind::Registry(BackupRegistry {
            registry: "ghcr.io".to_owned(),
            username: "robot".to_owned(),
            password: "hunter4".to_owned(),
        }),
        Kind::Piece(BackupPiece { content: Bytes::from_static(b"listen 80") }),
        Kind::Secret(BackupSecret {
            id: vec![7; 32].into(),
            content: Bytes::from_static(b"hunter3"),
        }),
        Kind::Deployment(BackupDeployment {
            name: "shop".to_owned(),
            revision: 3,
            compose_json: r#"{"name":"shop"}"#.to_owned(),
            overlay_yaml: "deployment: shop\n".to_owned(),
            environment_toml: "[web]\n".to_owned(),
            binds: files("conf", &[1; 32]),
            configs: files("rates", &[2; 32]),
            secrets: files("key", &[3; 32]),
        }),
        Kind::Disabled(BackupDisabled {
            allocations: vec![AllocationRef {
                deployment: "shop".to_owned(),
                service: "web".to_owned(),
                ..AllocationRef::default()
            }],
        }),
        Kind::End(BackupEnd {
            deployments: 1,
            named: 1,
            contents: 2,
            registries: 1,
            ..BackupEnd::default()
        }),
    ]
}

fn write(parts: Vec<Kind>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes).unwrap();
    for kind in parts {
        writer.part(&BackupPart { kind: Some(kind) }).unwrap();
    }
    let declared = writer.finish().unwrap().bytes;
    assert_eq!(declared, bytes.len() as u64);
    bytes
}

fn open(bytes: &[u8]) -> Result<Backup, Damage> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Backup::open(file)
}

/// Bytes followed by their checksum.
fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&sum);
    bytes
}

/// Encoded parts as a file.
fn framed(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = [MAGIC.as_slice(), &FORMAT.to_be_bytes()].concat();
    for part in parts {
        bytes.extend_from_slice(&u32::try_from(part.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes.extend_from_slice(&[0; 4]);
    with_checksum(bytes)
}

/// R-CLI-6: files of the first format are read, and the same parts are written as the same bytes.
#[test]
fn first_format_is_frozen() {
    assert_eq!(write(parts()), FROZEN);
    let backup = open(FROZEN).unwrap();
    assert_eq!((backup.header.raft_index, backup.header.cluster_name.as_str()), (42, "sun"));
    assert_eq!(
        (backup.retention_ms, backup.constraints[0].key.as_str()),
        (Some(86_400_000), "ram")
    );
    assert_eq!((backup.nodes[0].hostname.as_str(), backup.nodes[0].cordoned), ("n1", true));
    let named = &backup.named[0];
    assert_eq!((named.kind, named.name.as_str()), (NamedKind::Secret, "db"));
    assert_eq!(backup.named(named).unwrap().content, &b"hunter2"[..]);
    let piece = ContentId(Sha256::digest(b"listen 80").into());
    assert_eq!(backup.piece(piece).unwrap(), &b"listen 80"[..]);
    assert_eq!(backup.secret(ContentId([7; 32])).unwrap(), &b"hunter3"[..]);
    assert_eq!(backup.disabled[0].service, "web");
    let registries: Vec<BackupRegistry> = backup.registries().map(Result::unwrap).collect();
    assert_eq!((registries[0].registry.as_str(), registries.len()), ("ghcr.io", 1));
    assert_eq!(registries[0].password, "hunter4");
    let names: Vec<&str> = backup.deployments().collect();
    let shop = backup.deployment("shop").unwrap().unwrap();
    assert_eq!((names, shop.revision, shop.secrets[0].tree[0]), (vec!["shop"], 3, 3));
    assert!(backup.deployment("blog").unwrap().is_none());
    assert!(matches!(backup.piece(ContentId([9; 32])), Err(Damage::Contradiction(_))));
}

/// The parts with a policy.
fn parts_with_policy() -> Vec<Kind> {
    let mut all = parts();
    let Some(Kind::End(end)) = all.pop() else { panic!("the end is last") };
    all.push(Kind::Policy(BackupPolicy { mode: "refuse".to_owned() }));
    all.push(Kind::Grants(BackupGrants {
        deployment: "shop".to_owned(),
        reaches: vec!["host-path=/srv/media".to_owned(), "privileged".to_owned()],
    }));
    all.push(Kind::End(BackupEnd { grants: 1, ..end }));
    all
}

/// R-IN-6, R-CLI-6: policy and grants are read from the bytes that were written first, and what is missing of them is noticed.
#[test]
fn policies_are_frozen_and_counted() {
    assert_eq!(write(parts_with_policy()), FROZEN_POLICY);
    let backup = open(FROZEN_POLICY).unwrap();
    assert_eq!(backup.policy.as_deref(), Some("refuse"));
    assert_eq!(backup.grants[0].deployment, "shop");
    assert_eq!(backup.grants[0].reaches, ["host-path=/srv/media", "privileged"]);
    let old = open(FROZEN).unwrap();
    assert!(old.policy.is_none() && old.grants.is_empty());
    let without = |dropped: fn(&Kind) -> bool| {
        open(&write(parts_with_policy().into_iter().filter(|kind| !dropped(kind)).collect()))
    };
    let lost = without(|kind| matches!(kind, Kind::Grants(_)));
    assert!(matches!(lost, Err(Damage::Contradiction(_))), "{lost:?}");
    let twice = parts_with_policy();
    let policy = twice.iter().find(|kind| matches!(kind, Kind::Policy(_))).cloned().unwrap();
    let mut all = vec![twice[0].clone(), policy];
    all.extend(twice.into_iter().skip(1));
    assert!(matches!(open(&write(all)), Err(Damage::Contradiction(_))));
}

/// The parts with targets of notifications.
fn parts_with_targets() -> Vec<Kind> {
    let mut all = parts();
    let Some(Kind::End(end)) = all.pop() else { panic!("the end is last") };
    let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<String>>();
    all.push(Kind::NotifyTarget(BackupNotifyTarget {
        name: "ops".to_owned(),
        form: "webhook".to_owned(),
        url: "https://a.example/hunter5".to_owned(),
        secret: "hunter6-hunter6-hunter6".to_owned(),
        filter: Some(NotifyFilter {
            groups: texts(&["wake"]),
            types: texts(&["apply"]),
            deployments: texts(&["shop"]),
            severity: "warning".to_owned(),
        }),
        ..BackupNotifyTarget::default()
    }));
    all.push(Kind::NotifyTarget(BackupNotifyTarget {
        name: "pager".to_owned(),
        form: "email".to_owned(),
        url: "smtps://jaco@mail.example.com".to_owned(),
        secret: "hunter7".to_owned(),
        filter: Some(NotifyFilter { severity: "info".to_owned(), ..NotifyFilter::default() }),
        mail_from: "jaco@example.com".to_owned(),
        mail_to: texts(&["ann@example.com", "bob@example.com"]),
    }));
    all.push(Kind::End(BackupEnd { notify_targets: 2, ..end }));
    all
}

/// R-OPS-1, R-CLI-6: targets of notifications are read from the bytes that were written first, and one that is missing is
/// noticed.
#[test]
fn notification_targets_are_frozen_and_counted() {
    assert_eq!(write(parts_with_targets()), FROZEN_NOTIFY);
    let backup = open(FROZEN_NOTIFY).unwrap();
    let targets: Vec<BackupNotifyTarget> = backup.notify_targets().map(Result::unwrap).collect();
    let is_target = |kind: &Kind| matches!(kind, Kind::NotifyTarget(_));
    let written: Vec<Kind> = parts_with_targets().into_iter().filter(is_target).collect();
    let targets: Vec<Kind> = targets.into_iter().map(Kind::NotifyTarget).collect();
    assert_eq!(targets, written);
    assert_eq!(open(FROZEN).unwrap().notify_targets().count(), 0);
    let mut lost = parts_with_targets();
    lost.retain(|kind| !matches!(kind, Kind::NotifyTarget(target) if target.name == "ops"));
    assert!(matches!(open(&write(lost)), Err(Damage::Contradiction(_))));
}

/// R-CLI-6: shared networks are read back, and one that is missing is noticed.
#[test]
fn shared_networks_are_counted() {
    let network = BackupNetwork { name: "back".to_owned(), internal: true, prefix_length: 25 };
    let with = |networks: Vec<BackupNetwork>, declared: u64| {
        let mut all = parts();
        let Some(Kind::End(end)) = all.pop() else { panic!("the end is last") };
        all.extend(networks.into_iter().map(Kind::Network));
        all.push(Kind::End(BackupEnd { networks: declared, ..end }));
        open(&write(all))
    };
    assert_eq!(with(vec![network.clone()], 1).unwrap().networks, std::slice::from_ref(&network));
    for (networks, declared) in [(vec![], 1), (vec![network.clone()], 0), (vec![network], 2)] {
        assert!(matches!(with(networks, declared), Err(Damage::Contradiction(_))), "{declared}");
    }
}

/// R-CLI-6: a file truncated at any byte is reported as truncated.
#[test]
fn truncated_file_is_reported() {
    for end in 0..FROZEN.len() {
        match open(&FROZEN[..end]) {
            Err(Damage::Truncated(at)) => assert_eq!(at, end as u64),
            other => panic!("cut off after {end}: {other:?}"),
        }
    }
}

/// R-CLI-6: every flipped bit is detected.
#[test]
fn flipped_bit_is_detected() {
    for at in 0..FROZEN.len() * 8 {
        let mut bytes = FROZEN.to_vec();
        bytes[at / 8] ^= 1 << (at % 8);
        let damage = open(&bytes).expect_err("a bit was flipped");
        let right = match damage {
            Damage::Foreign => at / 8 < MAGIC.len(),
            Damage::Newer(_) => (MAGIC.len()..MAGIC.len() + 4).contains(&(at / 8)),
            Damage::Altered | Damage::Truncated(_) => at / 8 >= MAGIC.len() + 4,
            Damage::NewerPart
            | Damage::Contradiction(_)
            | Damage::Encrypted
            | Damage::OtherKey
            | Damage::Unauthentic
            | Damage::Io(_) => false,
        };
        assert!(right, "bit {at}: {damage}");
    }
    let longer = [FROZEN, b"x"].concat();
    assert!(matches!(open(&longer), Err(Damage::Altered)));
}

/// R-CLI-6: a file of a newer version is reported as such; no part of it is ignored.
#[test]
fn newer_file_is_reported() {
    let encoded: Vec<Vec<u8>> =
        parts().into_iter().map(|kind| BackupPart { kind: Some(kind) }.encode_to_vec()).collect();
    assert_eq!(framed(&encoded), FROZEN);
    // Field 16 of a part, a message: a kind that there is not yet. Then field 9 of a node.
    let unknown_kind = vec![0x82, 0x01, 0x00];
    let unknown_field = vec![0x22, 0x02, 0x48, 0x01];
    for newer in [unknown_kind, unknown_field, Vec::from(b"\xff\xff\xff")] {
        let mut parts = encoded.clone();
        parts.insert(4, newer);
        assert!(matches!(open(&framed(&parts)), Err(Damage::NewerPart)));
    }
    let mut of_format_2 = parts();
    if let Kind::Header(header) = &mut of_format_2[0] {
        header.format = 2;
    }
    assert!(matches!(open(&write(of_format_2)), Err(Damage::Newer(2))));
    assert!(matches!(open(b"services: {}\n"), Err(Damage::Foreign)));
}

/// R-CLI-6: inconsistent contents are refused even if the checksum is right.
#[test]
fn inconsistent_file_is_refused() {
    let check = |change: fn(&mut Vec<Kind>)| {
        let mut parts = parts();
        change(&mut parts);
        let encoded = |kind| BackupPart { kind: Some(kind) }.encode_to_vec();
        let encoded: Vec<Vec<u8>> = parts.into_iter().map(encoded).collect();
        let refused = open(&framed(&encoded));
        assert!(matches!(refused, Err(Damage::Contradiction(_))), "{refused:?}");
    };
    check(|parts| drop(parts.remove(0)));
    check(|parts| drop(parts.pop()));
    check(|parts| drop(parts.remove(5)));
    check(|parts| drop(parts.remove(6)));
    check(|parts| parts.push(parts[8].clone()));
    check(|parts| parts.insert(9, parts[8].clone()));
    check(|parts| {
        let short = BackupSecret { id: vec![1].into(), ..BackupSecret::default() };
        parts.insert(6, Kind::Secret(short));
    });
    // A part of a size that must not be allocated before it is checked.
    let mut large = [MAGIC.as_slice(), &FORMAT.to_be_bytes()].concat();
    large.extend_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(open(&large), Err(Damage::Altered)));
}

/// R-CLI-6: a backup gets its name only when it is complete, only its owner can read it, and an incomplete
/// one leaves no file.
#[test]
fn backup_gets_its_name_when_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jacobak");
    let listed = || -> Vec<_> {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    std::fs::write(folder.path().join("a.jacobak.partial"), "left by a power cut").unwrap();
    let summary =
        Summary { header: BackupHeader::default(), end: BackupEnd::default(), bytes: 0, key: None };
    let partial = Partial::create(&path).unwrap();
    let mut writer = Writer::new(partial.out()).unwrap();
    writer.part(&BackupPart { kind: parts().into_iter().next() }).unwrap();
    assert_eq!(writer.finish().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(matches!(finish(partial, &summary), Err(Damage::Truncated(_))));
    assert_eq!(listed(), Vec::<String>::new());

    let partial = Partial::create(&path).unwrap();
    partial.out().write_all(FROZEN).unwrap();
    assert_eq!(listed(), ["a.jacobak.partial"]);
    finish(partial, &summary).unwrap();
    assert_eq!(listed(), ["a.jacobak"]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(open(&std::fs::read(&path).unwrap()).is_ok());
}

/// Files of 45 MB of the smallest parts of one kind, whose checksum is right.
fn crafted(part: fn(u32) -> Vec<u8>) -> std::fs::File {
    let mut out = io::BufWriter::new(tempfile::tempfile().unwrap());
    let mut hash = Sha256::new();
    let mut written = 0;
    let mut put = |bytes: &[u8]| {
        hash.update(bytes);
        written += bytes.len();
        out.write_all(bytes).unwrap();
        written < 45_000_000
    };
    put(MAGIC);
    put(&FORMAT.to_be_bytes());
    let header = BackupPart { kind: parts().into_iter().next() }.encode_to_vec();
    for part in std::iter::once(header).chain((0..).map(part)) {
        put(&u32::try_from(part.len()).unwrap().to_be_bytes());
        if !put(&part) {
            break;
        }
    }
    put(&[0; 4]);
    let sum: [u8; 32] = hash.finalize().into();
    out.write_all(&sum).unwrap();
    out.into_inner().unwrap()
}

fn refused_soon(test: &str, part: fn(u32) -> Vec<u8>) {
    // Without optimisation, it may take as much longer.
    let time = Duration::from_secs(if cfg!(debug_assertions) { 15 } else { 1 });
    let test = format!("tests::{test}");
    jaco_mutate::stay_within(
        &test,
        100 << 20,
        time,
        || crafted(part),
        |file| {
            let refused = Backup::open(file);
            assert!(
                matches!(refused, Err(Damage::Contradiction(_) | Damage::Altered)),
                "{refused:?}"
            );
        },
    );
}

/// R-IN-3: a file of 45 MB that says to have millions of pieces took 9.6 s and 299 MB to be refused.
#[test]
fn millions_of_pieces_are_refused_soon() {
    refused_soon("millions_of_pieces_are_refused_soon", |number| {
        let content = Bytes::copy_from_slice(&number.to_be_bytes());
        BackupPart { kind: Some(Kind::Piece(BackupPiece { content })) }.encode_to_vec()
    });
}

/// R-IN-3: two bytes of an empty entry of a list are a hundred in memory.
#[test]
fn millions_of_empty_entries_are_refused_soon() {
    refused_soon("millions_of_empty_entries_are_refused_soon", |_| {
        let disabled = BackupDisabled { allocations: vec![AllocationRef::default()] };
        let one = BackupPart { kind: Some(Kind::Disabled(disabled)) }.encode_to_vec();
        let [part, 2, entry, 0] = one[..] else { panic!("four bytes: {one:?}") };
        let mut many = vec![part];
        let entries = 4_000_000;
        prost::encoding::encode_varint(2 * entries, &mut many);
        many.extend([entry, 0].repeat(usize::try_from(entries).unwrap()));
        many
    });
}

/// R-IN-3: the same in many parts.
#[test]
fn millions_of_nodes_are_refused_soon() {
    refused_soon("millions_of_nodes_are_refused_soon", |_| {
        let node = BackupNode { cordoned: true, ..BackupNode::default() };
        BackupPart { kind: Some(Kind::Node(node)) }.encode_to_vec()
    });
}

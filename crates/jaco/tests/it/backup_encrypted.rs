//! `jaco backup --recipient` and `--identity`: who opens an encrypted backup, and what is said of one that nobody opens.

use jaco_client::scripted::Feed;
use jaco_proto::v1;
use jaco_proto::v1::backup_part::Kind;
use serde_json::Value;

use crate::backup::{Cluster, files, piped};
use crate::fixture::Session;

/// A pair of `age-keygen`.
const RECIPIENT: &str = "age14lcnwtzjevayg2uetq9gujhshhnmj8a98tq5ukkuqjxqzhh2h9jqqq7fhn";
const IDENTITY: &str = "AGE-SECRET-KEY-14S2D2H0HX707VYCMSJNKED4VTW5R0S8RHW7ALGHPUMSNE7888UUQ5YA2XR";
const OTHER_IDENTITY: &str =
    "AGE-SECRET-KEY-1U40ZWTG0U7FGQZ6QUD3MXR5N4FP7RFC98AC5ANU0ZW434CEKZD8SDF7RWA";

/// A cluster with one secret, and the keys in files.
fn session() -> Session {
    let header = v1::BackupHeader {
        format: 1,
        cluster_id: "c1".repeat(16),
        cluster_name: "sun".to_owned(),
        raft_index: 42,
        taken_at_ms: 1_700_000_000_000,
        version: "0.1.0".to_owned(),
    };
    let secret = v1::BackupNamed {
        kind: "secret".to_owned(),
        name: "db".to_owned(),
        content: b"correct-horse"[..].into(),
        ..v1::BackupNamed::default()
    };
    let end = v1::BackupEnd { named: 1, ..v1::BackupEnd::default() };
    let kinds = [Kind::Header(header), Kind::Named(secret), Kind::End(end)];
    let parts = kinds.into_iter().map(|kind| v1::BackupPart { kind: Some(kind) }).collect();
    let session = Session::with(Cluster(Feed::of(parts)));
    session.write("key.txt", &format!("# mine\n{IDENTITY}\n"));
    session.write("other.txt", OTHER_IDENTITY);
    session.write("recipients.txt", &format!("# the safe\n{RECIPIENT}\n"));
    session
}

/// R-CLI-6, R-CLI-7: a backup for recipients has no secret in plain text, in a file and in a pipe, and is opened by their
/// identities alone.
#[test]
fn a_backup_is_encrypted_for_its_recipients() {
    let session = session();
    let run = session.run(&format!("backup --recipient {RECIPIENT} a.jacobak.age"));
    assert_eq!(run.code, Some(0), "{}", run.err);
    let run = session.run("backup --recipients-file recipients.txt b.jacobak.age -o json");
    let written: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(written["encrypted"], true, "{written}");
    let pipe = session.command(&format!("backup --recipient {RECIPIENT} -")).output().unwrap();
    assert!(pipe.status.success());
    for name in ["a.jacobak.age", "b.jacobak.age"] {
        let bytes = std::fs::read(session.folder.path().join(name)).unwrap();
        assert!(bytes.starts_with(b"age-encryption.org/v1\n"), "{name}");
        assert!(!bytes.windows(13).any(|some| some == b"correct-horse"), "{name}");
        let checked = session.run(&format!("restore --check --offline --identity key.txt {name}"));
        assert_eq!(checked.code, Some(0), "{}", checked.err);
        assert!(checked.out.contains("restorable"), "{}", checked.out);
    }
    let checked = piped(&session, "restore --check --offline --identity key.txt -", &pipe.stdout);
    assert_eq!(checked.code, Some(0), "{}", checked.err);
    let tried =
        session.run("restore --dry-run --identity other.txt --identity key.txt a.jacobak.age");
    assert!(tried.err.contains("backup of sun, taken at 2023-11-14T22:13:20Z"), "{}", tried.err);

    let refused = session.run("restore a.jacobak.age");
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("is encrypted") && refused.err.contains("--identity"));
    let refused = session.run("restore --identity other.txt a.jacobak.age");
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("none of the identities opens it"), "{}", refused.err);
    let cut =
        piped(&session, "restore --identity key.txt -", &pipe.stdout[..pipe.stdout.len() - 1]);
    assert_eq!(cut.code, Some(3), "{}", cut.err);
    assert!(cut.err.contains("altered or truncated"), "{}", cut.err);
}

/// R-CLI-6: an encrypted backup that no key opens is neither good nor damaged: it is unchecked, and a drill with one does
/// not succeed.
#[test]
fn what_nobody_opens_is_unchecked() {
    let session = session();
    assert_eq!(session.run("backup plain.jacobak").code, Some(0));
    assert_eq!(session.run(&format!("backup --recipient {RECIPIENT} a.age")).code, Some(0));
    let run = session.run("restore --check --offline plain.jacobak a.age");
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("1 of 2 backups encrypted and unchecked"), "{}", run.err);
    assert!(
        run.out.contains("unchecked: it is encrypted, and no identity was given"),
        "{}",
        run.out
    );
    assert!(!run.out.contains("damaged"), "{}", run.out);
    let told = session.run("restore --check --offline a.age -o json");
    // The error is behind it.
    let mut values = serde_json::Deserializer::from_str(&told.out).into_iter::<Value>();
    let told = values.next().unwrap().unwrap();
    assert_eq!(told["files"][0]["restorable"], Value::Null, "{told}");
    let both = session.run("restore --check --offline --identity key.txt plain.jacobak a.age");
    assert_eq!(both.code, Some(0), "{}", both.err);
}

/// R-CLI-6: keys that are none are refused before a file is written, and an identity is not repeated.
#[test]
fn keys_that_are_none_are_refused() {
    let session = session();
    session.write("empty.txt", "# nobody\n");
    for (options, said) in [
        ("--recipient age1nobody", "is no recipient"),
        (&format!("--recipient {IDENTITY}"), "this is an identity"),
        ("--recipients-file empty.txt", "there is no key in it"),
        ("--recipients-file key.txt", "this is an identity"),
    ] {
        let run = session.run(&format!("backup {options} a.age"));
        assert_eq!(run.code, Some(2), "{}", run.err);
        assert!(run.err.contains(said), "{options}: {}", run.err);
        assert!(!run.err.contains(&IDENTITY[20..]), "{}", run.err);
    }
    assert!(!files(&session).contains(&"a.age".to_owned()));
    let run = session.run("restore --identity recipients.txt a.age");
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("line 2 is no identity"), "{}", run.err);
}

/// R-CLI-6, R-CLI-7: a folder holds plain and encrypted backups, and those that no key opens are named as unchecked.
#[test]
fn a_folder_holds_both() {
    let session = session();
    std::fs::create_dir(session.folder.path().join("b")).unwrap();
    assert_eq!(session.run("backup --to b --keep 3").code, Some(0));
    let line = format!("backup --to b --keep 3 --recipient {RECIPIENT} -o json");
    let run = session.run(&line);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let written: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(written["path"], "b/sun-20231114T221320Z-42.jacobak.age", "{written}");
    assert_eq!(written["kept"].as_array().unwrap().len(), 2, "{written}");
    assert_eq!(written["unchecked"], serde_json::json!([]), "{written}");
}

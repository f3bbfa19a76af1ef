//! Files beside a compose file that are encrypted with age: who opens them, and what is said where nobody does.

use crate::fixture::Session;
use crate::upload::{Cluster, project};

/// The identity that the files of `tests/encrypted` are for, and another one, both of `age-keygen`.
const IDENTITY: &str = "AGE-SECRET-KEY-14S2D2H0HX707VYCMSJNKED4VTW5R0S8RHW7ALGHPUMSNE7888UUQ5YA2XR";
const OTHER_IDENTITY: &str =
    "AGE-SECRET-KEY-1U40ZWTG0U7FGQZ6QUD3MXR5N4FP7RFC98AC5ANU0ZW434CEKZD8SDF7RWA";

const SECRET: &[u8] = include_bytes!("../encrypted/db.txt.age");
const ENVIRONMENT: &[u8] = include_bytes!("../encrypted/prod.env.age");

const COMPOSE: &str = "\
name: shop
services:
  web:
    image: web:2
    env_file: prod.env.age
    secrets: [db]
secrets:
  db: {file: ./db.txt.age}
";

fn encrypted() -> (Session, Cluster) {
    let (session, cluster) = project(COMPOSE);
    put(&session, "db.txt.age", SECRET);
    put(&session, "prod.env.age", ENVIRONMENT);
    session.write("key.txt", &format!("# mine\n{IDENTITY}\n"));
    session.write("other.txt", OTHER_IDENTITY);
    (session, cluster)
}

fn put(session: &Session, name: &str, bytes: &[u8]) {
    std::fs::write(session.folder.path().join(name), bytes).unwrap();
}

/// Whether a file of the session has a value in clear.
fn is_on_disk(session: &Session) -> bool {
    let entries = std::fs::read_dir(session.folder.path()).unwrap();
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut contents = files.map(|path| std::fs::read(path).unwrap());
    let has = |bytes: &[u8], value: &[u8]| bytes.windows(value.len()).any(|some| some == value);
    contents.any(|bytes| has(&bytes, b"correct-horse") || has(&bytes, b"battery-staple"))
}

/// R-IN-5: what `age` encrypted for git is opened by an identity, sealed as what lies there in clear, and neither printed nor
/// written to a disk.
#[test]
fn encrypted_files_are_opened_in_memory() {
    for by_variable in [false, true] {
        let (session, cluster) = encrypted();
        let run = match by_variable {
            true => {
                let mut command = session.command("apply --detach");
                let key = session.folder.path().join("key.txt");
                session.result(command.env("JACO_AGE_IDENTITY", key).output().unwrap())
            }
            false => session.run("apply --detach --identity other.txt --identity key.txt"),
        };
        assert_eq!(run.code, Some(0), "{}", run.err);
        let received = cluster.0.lock().unwrap();
        let secrets: Vec<&[u8]> = received.secrets.iter().map(|(value, _)| &value[..]).collect();
        assert_eq!(secrets, [b"correct-horse"]);
        let model = &received.applied[0].compose_json;
        assert!(model.contains("postgres://shop:battery-staple@db"), "{model}");
        assert!(!model.contains("correct-horse"), "{model}");
        let told = format!("{run:?}");
        assert!(!told.contains("correct-horse") && !told.contains("battery-staple"), "{told}");
        assert!(!is_on_disk(&session));
    }
}

/// R-IN-5, R-IN-3: without the right identity, and from damaged files, nothing is applied; the error says where and what to do.
#[test]
fn what_cannot_be_opened_is_not_applied() {
    let refused = |options: &str, edit: &dyn Fn(&Session)| {
        let (session, cluster) = encrypted();
        edit(&session);
        let run = session.run(&format!("apply --detach {options}"));
        assert_ne!(run.code, Some(0), "{options}");
        let received = cluster.0.lock().unwrap();
        assert!(received.applied.is_empty() && received.secrets.is_empty(), "{options}");
        let told = format!("{run:?}");
        assert!(!told.contains("correct-horse") && !told.contains("battery-staple"), "{told}");
        assert!(!told.contains(&IDENTITY[20..40]), "{told}");
        run.err
    };
    let nothing = |_: &Session| {};
    let told = refused("", &nothing);
    assert!(told.contains("compose.yaml:5:") && told.contains("no identity was given"), "{told}");
    assert!(told.contains("--identity FILE, or JACO_AGE_IDENTITY"), "{told}");
    let told = refused("--identity other.txt", &nothing);
    assert!(told.contains("none of the identities opens it"), "{told}");
    let told = refused("--identity nobody.txt", &nothing);
    assert!(told.contains("cannot read nobody.txt"), "{told}");
    let told = refused("--identity key.txt", &|session| {
        put(session, "db.txt.age", &SECRET[..SECRET.len() - 60]);
    });
    assert!(told.contains("compose.yaml:8:") && told.contains("it is damaged"), "{told}");
    let told = refused("--identity key.txt", &|session| {
        let mut altered = ENVIRONMENT.to_vec();
        *altered.last_mut().unwrap() ^= 1;
        put(session, "prod.env.age", &altered);
    });
    assert!(told.contains("compose.yaml:5:") && told.contains("altered or truncated"), "{told}");
    let told = refused("--identity key.txt", &|session| {
        put(session, "db.txt.age", b"hunter2");
    });
    assert!(told.contains("it is not encrypted by age") && !told.contains("hunter2"), "{told}");
}

/// R-IN-5: a check needs no identity, opens nothing, and says so; the model that is printed has no value of them.
#[test]
fn validation_leaves_them_closed() {
    let (session, _) = encrypted();
    for options in ["", "--identity key.txt"] {
        let run = session.run(&format!("validate {options}"));
        assert_eq!(run.code, Some(0), "{}", run.err);
        assert!(run.err.contains("prod.env.age was not opened"), "{}", run.err);
        assert!(run.err.contains("secret `db` was not opened"), "{}", run.err);
        let run = session.run(&format!("compose config {options}"));
        assert_eq!(run.code, Some(0), "{}", run.err);
        assert!(!run.out.contains("DB_URL"), "{}", run.out);
        assert!(run.err.contains("prod.env.age is encrypted"), "{}", run.err);
    }
}

/// R-IN-5: a secret of the cluster is stored from an encrypted file, and not as it lies there.
#[test]
fn a_stored_secret_comes_from_an_encrypted_file() {
    let (session, _) = encrypted();
    let run = session.run("secret set db db.txt.age");
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("db.txt.age cannot be opened") && run.err.contains("--identity FILE"));
    let run = session.run("secret set db db.txt.age --identity other.txt");
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("none of the identities opens it"), "{}", run.err);
}

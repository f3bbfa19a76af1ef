//! Objects at a store that verifies signatures by code of its own, and that fails, hangs and truncates (R-CLI-6).

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use jaco_s3::{
    AccessKey, Addressing, Digest, Limits, ObjectStore, PART_BYTES, Place, PlainHttp, Roots,
};
use jaco_testkit::{ObjectStore as TestStore, StoreAnswer};

const LIMITS: Limits =
    Limits { answer: Duration::from_millis(800), silence: Duration::from_millis(800) };

fn objects_of(store: &TestStore, secret: &str) -> ObjectStore {
    let place = Place::new(
        &store.endpoint(),
        TestStore::REGION,
        (TestStore::BUCKET, "prod"),
        Addressing::Path,
        PlainHttp::LoopbackOnly,
    );
    let key = AccessKey::new(TestStore::KEY, secret).expect("a key");
    let limits = Limits { answer: Duration::from_secs(30), ..LIMITS };
    ObjectStore::new(place.expect("a place"), &key, Roots::System, limits)
}

fn objects(store: &TestStore) -> ObjectStore {
    objects_of(store, TestStore::SECRET)
}

/// A file of this length that does not repeat itself from part to part.
fn file(length: u64) -> (File, Digest) {
    let mut file = tempfile::tempfile().expect("a file");
    let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    file.write_all(&content).expect("written");
    let digest = Digest::of(&file).expect("read");
    assert_eq!(digest.length, length);
    (file, digest)
}

/// What is written comes back, in one request or in parts; lists have all pages and nothing of other folders.
#[tokio::test]
async fn objects_come_back() {
    let (store, all) = (TestStore::start(), file(100));
    let objects = objects(&store);
    for name in ["a", "b", "c", "d", "e-2+x"] {
        objects.put(name, &all.0, &all.1).await.expect("stored");
    }
    store.plant("sun-backups-of-others", b"x");
    store.plant("prod/deeper/a", b"x");
    let listed = objects.list().await.expect("listed");
    let names: Vec<&str> = listed.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e-2+x"]);
    assert!(listed.iter().all(|object| object.length == 100));
    assert_eq!(objects.read("a").await.expect("read"), (all.1.clone(), Some(all.1.sha256.clone())));
    objects.remove("a").await.expect("removed");
    objects.remove("a").await.expect("without one there is nothing to do");
    assert!(objects.read("a").await.expect_err("it is gone").to_string().contains("NoSuchKey"));

    for length in [0, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 1000] {
        let (content, digest) = file(length);
        objects.put("large", &content, &digest).await.expect("stored");
        let (read, said) = objects.read("large").await.expect("read");
        assert_eq!((&read, said.as_ref()), (&digest, Some(&digest.sha256)), "{length}");
    }
    assert_eq!(store.open_uploads(), 0);
    let parts = store.requests().iter().filter(|it| it.starts_with("PUT")).count();
    assert_eq!(parts, 5 + 1 + 1 + 2 + 3);
}

/// What a store does not do is an error that says what, without what is secret.
#[tokio::test]
async fn failures_have_a_reason() {
    let (store, all) = (TestStore::start(), file(100));
    let with_another = objects_of(&store, "another-secret");
    let refused = with_another.put("a", &all.0, &all.1).await.expect_err("refused").to_string();
    let expected = "the object store answered 403 (SignatureDoesNotMatch) to a request to write: the secret of the key is another one, or the region is";
    assert_eq!(refused, expected);
    let objects = objects(&store);
    objects.put("a", &all.0, &all.1).await.expect("stored");
    store.answers(StoreAnswer::Refuses("PUT", 503, "SlowDown"));
    let refused = objects.put("b", &all.0, &all.1).await.expect_err("refused").to_string();
    assert_eq!(refused, "the object store answered 503 (SlowDown) to a request to write");
    store.answers(StoreAnswer::SendsOn);
    let sent_on = objects.list().await.expect_err("it is not followed").to_string();
    assert!(sent_on.contains("answered 307 to a request to list: the bucket is in"), "{sent_on}");
    store.answers(StoreAnswer::Truncates);
    let (read, said) = objects.read("a").await.expect("the store says that it is all");
    assert_eq!((read.length, said.as_ref()), (50, Some(&all.1.sha256)));
    assert_ne!(read.sha256, all.1.sha256);
    store.answers(StoreAnswer::BreaksOff);
    let broken = objects.read("a").await.expect_err("less came than was said").to_string();
    assert!(broken.contains("to a request to read broke off"), "{broken}");
    store.answers(StoreAnswer::Obeys);
    store.plant("prod/x", &vec![b'<'; 6 << 20]);
    assert_eq!(objects.list().await.expect("listed").len(), 2);
}

/// A store that hangs costs so much time and no more; parts that were uploaded are given back.
#[tokio::test]
async fn a_store_that_hangs_is_not_waited_for() {
    let store = TestStore::start();
    let place = Place::new(
        &store.endpoint(),
        TestStore::REGION,
        (TestStore::BUCKET, ""),
        Addressing::Path,
        PlainHttp::LoopbackOnly,
    );
    let key = AccessKey::new(TestStore::KEY, TestStore::SECRET).expect("a key");
    let objects = ObjectStore::new(place.expect("a place"), &key, Roots::System, LIMITS);
    store.answers(StoreAnswer::Never("PUT"));
    let (content, digest) = file(PART_BYTES + 1);
    let began = std::time::Instant::now();
    let hung = objects.put("a", &content, &digest).await.expect_err("it hangs").to_string();
    assert!(hung.contains("did not answer a request to write within 0 s"), "{hung}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!((store.open_uploads(), store.keys().len()), (0, 0));
    let nobody = Place::new(
        "http://127.0.0.1:1",
        "r",
        (TestStore::BUCKET, ""),
        Addressing::Path,
        PlainHttp::LoopbackOnly,
    );
    let nobody = ObjectStore::new(nobody.expect("a place"), &key, Roots::System, LIMITS);
    let refused = nobody.list().await.expect_err("the port is closed").to_string();
    assert!(refused.starts_with("cannot connect to the object store: "), "{refused}");
}

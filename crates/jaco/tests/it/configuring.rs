//! `jaco config` and `jaco validate`: what is printed of compose files, without a cluster.

use crate::session::Session;

const SHOP: &str = "
name: shop
services:
  web: {image: 'web:1'}
  worker: {image: 'web:1'}
  db: {image: 'db:2', profiles: [data]}
";

/// R-IN-2: names alone, for scripts.
#[test]
fn names_of_services_and_images_are_listed() {
    let session = Session::alone();
    session.write("compose.yaml", SHOP);
    let out = |line: &str| session.run(line).out;
    assert_eq!(out("config --services"), "web\nworker\n");
    assert_eq!(out("config --images"), "web:1\n");
    assert_eq!(out("config --images --profile data"), "db:2\nweb:1\n");
    let json: Vec<String> = serde_json::from_str(&out("config --services -o json")).unwrap();
    assert_eq!(json, ["web", "worker"]);
    assert_eq!(session.run("config --services --images").code, Some(2));
}

/// R-IN-2: a service that must be built is refused with what to do, and the flag that the advice
/// names is one that there is.
#[test]
fn a_build_is_refused_with_advice_that_works() {
    let session = Session::alone();
    session
        .write("compose.yaml", "name: shop\nservices:\n  web:\n    build: .\n    image: web:1\n");
    let refused = session.run("validate");
    assert_eq!(refused.code, Some(3), "{}", refused.err);
    for part in ["compose.yaml:4:12", "docker build -t web:1", "docker push web:1"] {
        assert!(refused.err.contains(part), "{part} is not in {}", refused.err);
    }
    let advice =
        refused.err.split_whitespace().find(|word| word.starts_with("--") && *word != "-->");
    let taken = session.run(&format!("validate {}", advice.expect("the advice names a flag")));
    assert_eq!(taken.code, Some(0), "{}", taken.err);
    assert!(taken.err.contains("every node must have the image `web:1`"), "{}", taken.err);
}

/// R-IN-2: the flag is no way around naming an image.
#[test]
fn a_build_without_an_image_is_always_refused() {
    let session = Session::alone();
    session.write("compose.yaml", "name: shop\nservices:\n  web: {build: .}\n");
    let refused = session.run("validate --allow-local-image");
    assert_eq!(refused.code, Some(3), "{}", refused.err);
    assert!(refused.err.contains("docker build -t REGISTRY/web:TAG"), "{}", refused.err);
}

/// R-HASH-1: a line per service; a changed file of a service changes its hash alone, a comment none.
#[test]
fn hashes_are_told_by_service() {
    let session = Session::alone();
    let compose = "\
services:
  web: {image: 'web:1', volumes: ['./conf:/etc/web:ro']}
  worker: {image: 'web:1'}
";
    session.write("compose.yaml", compose);
    session.write("conf/a.conf", "listen 80");
    let hashes = || {
        let did = session.run("config --hash");
        assert_eq!(did.code, Some(0), "{}", did.err);
        let lines: Vec<(String, String)> = did
            .out
            .lines()
            .map(|line| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap())
            .collect();
        assert!(lines.iter().all(|(_, hash)| hash.len() == 64), "{lines:?}");
        lines
    };
    let first = hashes();
    assert_eq!((first[0].0.as_str(), first[1].0.as_str()), ("web", "worker"));
    session.write("compose.yaml", &format!("# said\n{compose}"));
    assert_eq!(hashes(), first);
    session.write("conf/a.conf", "listen 81");
    let second = hashes();
    assert_ne!(second[0], first[0]);
    assert_eq!(second[1], first[1]);
    let one = session.run("config --hash worker -o json");
    let json: std::collections::BTreeMap<String, String> = serde_json::from_str(&one.out).unwrap();
    assert_eq!(json, [first[1].clone()].into());
    let nobody = session.run("config --hash wrker");
    assert_eq!(nobody.code, Some(2));
    assert!(nobody.err.contains("has no service wrker"), "{}", nobody.err);
}

//! `jaco compose config` and `jaco validate`, which need no cluster.

use crate::fixture::Session;

const SHOP: &str = "
name: shop
services:
  web: {image: 'web:1'}
  worker: {image: 'web:1'}
  db: {image: 'db:2', profiles: [data]}
";

/// R-IN-2: names of services and images are listed for scripts. `jaco config` without a subcommand is an
/// alias.
#[test]
fn names_of_services_and_images_are_listed() {
    let session = Session::alone();
    session.write("compose.yaml", SHOP);
    let out = |line: &str| {
        let out = session.run(&format!("compose {line}")).out;
        assert_eq!(session.run(line).out, out, "{line}");
        out
    };
    assert!(out("config").starts_with("name: shop\n"), "{}", out("config"));
    assert_eq!(out("config -f compose.yaml"), out("config"));
    assert_eq!(out("config compose.yaml -o json"), out("config -o json"));
    assert_eq!(out("config --services"), "web\nworker\n");
    assert_eq!(out("config --images"), "web:1\n");
    assert_eq!(out("config --images --profile data"), "db:2\nweb:1\n");
    let json: Vec<String> = serde_json::from_str(&out("config --services -o json")).unwrap();
    assert_eq!(json, ["web", "worker"]);
    assert_eq!(session.run("compose config --services --images").code, Some(2));
}

/// R-IN-2: the image beside a `build` is taken, and a warning says that nothing is built.
#[test]
fn the_image_beside_a_build_is_taken() {
    let session = Session::alone();
    session
        .write("compose.yaml", "name: shop\nservices:\n  web:\n    build: .\n    image: web:1\n");
    for (option, says) in [
        ("", "nodes run the image `web:1`"),
        ("--allow-local-image", "the image `web:1` must already be on every node"),
    ] {
        let accepted = session.run(&format!("validate {option}"));
        assert_eq!(accepted.code, Some(0), "{}", accepted.err);
        for part in ["compose.yaml:4:12", "service `web` is not built", says] {
            assert!(accepted.err.contains(part), "{part} is not in {}", accepted.err);
        }
    }
}

/// R-IN-2: the option does not replace the name of an image.
#[test]
fn build_without_an_image_is_always_refused() {
    let session = Session::alone();
    session.write("compose.yaml", "name: shop\nservices:\n  web: {build: .}\n");
    let refused = session.run("validate --allow-local-image");
    assert_eq!(refused.code, Some(3), "{}", refused.err);
    assert!(refused.err.contains("docker build -t REGISTRY/web:TAG"), "{}", refused.err);
}

/// R-HASH-1: one hash per service; a changed file changes the hash of its service, a comment no hash.
#[test]
fn hashes_are_printed_per_service() {
    let session = Session::alone();
    let compose = "\
services:
  web: {image: 'web:1', volumes: ['./conf:/etc/web:ro']}
  worker: {image: 'web:1'}
";
    session.write("compose.yaml", compose);
    session.write("conf/a.conf", "listen 80");
    let hashes = || {
        let run = session.run("compose config --hash");
        assert_eq!(run.code, Some(0), "{}", run.err);
        let lines: Vec<(String, String)> = run
            .out
            .lines()
            .map(|line| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap())
            .collect();
        assert!(lines.iter().all(|(_, hash)| hash.len() == 64), "{lines:?}");
        lines
    };
    let first = hashes();
    assert_eq!((first[0].0.as_str(), first[1].0.as_str()), ("web", "worker"));
    session.write("compose.yaml", &format!("# comment\n{compose}"));
    assert_eq!(hashes(), first);
    session.write("conf/a.conf", "listen 81");
    let second = hashes();
    assert_ne!(second[0], first[0]);
    assert_eq!(second[1], first[1]);
    let one = session.run("compose config --hash worker -o json");
    let json: std::collections::BTreeMap<String, String> = serde_json::from_str(&one.out).unwrap();
    assert_eq!(json, [first[1].clone()].into());
    let unknown = session.run("compose config --hash wrker");
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("has no service wrker"), "{}", unknown.err);
}

//! Which declared resources a service uses: what is printed, what is sent, what has to be uploaded. R-IN-2, R-IN-4.

use jaco_compose::{EnvFiles, Input, Project, ReferenceKind, from_model, load};
use serde_json::{Value as Json, json};

use crate::util::folder;

const SECTIONS: [&str; 4] = ["configs", "networks", "secrets", "volumes"];

const DECLARED: &str = "
configs: {a: {file: ./a}, b: {file: ./b}}
networks: {a: , b: }
secrets: {a: {file: ./sa}, b: {file: ./sb}}
volumes: {a: , b: }
";

/// A project whose one service has these members.
fn project(members: &str) -> Project {
    let text = format!("services:\n  web:\n    image: i\n    {members}\n{DECLARED}");
    let input = Input { env_files: EnvFiles::Nothing, ..Input::file("/p/compose.yaml") };
    load(&input, &folder(&[("/p/compose.yaml", &text)])).unwrap().project
}

/// The names of a section of a model; none if it is absent.
fn names(model: &Json, section: &str) -> Vec<String> {
    model[section].as_object().into_iter().flat_map(|map| map.keys().cloned()).collect()
}

/// What is printed has the resources that a service uses, and no section without one; what is sent has all of
/// them, for jaco.yaml may name one.
#[test]
fn unused_resources_are_sent_and_not_printed() {
    for (members, used) in [
        ("tty: true", ["", "default", "", ""]),
        ("configs: [b]", ["b", "default", "", ""]),
        ("networks: [b]", ["", "b", "", ""]),
        ("secrets: [b]", ["", "default", "b", ""]),
        ("volumes: ['b:/b']", ["", "default", "", "b"]),
        // A build takes secrets, too; a path that is named like a volume is none.
        ("build: {context: ., secrets: [b]}", ["", "default", "b", ""]),
        ("volumes: [{type: bind, source: b, target: /b}]", ["", "default", "", ""]),
    ] {
        let project = project(members);
        let printed = project.canonical_json();
        for (section, used) in SECTIONS.into_iter().zip(used) {
            let used: Vec<&str> = if used.is_empty() { vec![] } else { vec![used] };
            assert_eq!(names(&printed, section), used, "{section} of {members}");
            let sent = names(&project.sent_model(), section);
            assert!(sent.starts_with(&["a".to_owned(), "b".to_owned()]), "{section} of {members}");
        }
    }
}

/// Files are needed for what a service uses only, each with its owner.
#[test]
fn unused_files_are_not_needed() {
    let files = |members: &str| -> Vec<String> {
        let project = project(members);
        let references = project.references().iter();
        references.map(|each| format!("{:?} {} {}", each.kind, each.path, each.owner)).collect()
    };
    assert_eq!(files("tty: true"), [""; 0]);
    assert_eq!(files("configs: [b]"), ["Config /p/b b"]);
    assert_eq!(files("secrets: [b]"), ["Secret /p/sb b"]);
    assert_eq!(files("build: {context: ., secrets: [a]}"), ["Secret /p/sa a"]);
    assert_eq!(
        files("volumes: ['./b:/b', '/etc/b:/c', 'b:/d', '../b:/e']"),
        ["ProjectBind /p/b web", "HostBind /b web", "HostBind /etc/b web"]
    );
    let kinds = [ReferenceKind::Config, ReferenceKind::Secret];
    let items = project("configs: [a]\n    secrets: [b]").upload_items();
    assert_eq!(items.len(), kinds.len());
    assert_eq!(items.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

/// What is received gets the names that the client would have given, and keeps those that it gave.
#[test]
fn received_resources_have_names() {
    let sections =
        json!({"a": {"file": "./a"}, "b": {"file": "./b", "name": "own"}, "c": {"external": true}});
    let plain = json!({"a": {}, "b": {"name": "own"}, "c": {"external": true}});
    let model = json!({
        "name": "shop",
        "services": {"web": {"image": "i"}},
        "configs": sections, "secrets": sections, "networks": plain, "volumes": plain,
    });
    let received = from_model(model.to_string().as_bytes()).unwrap().model();
    for section in SECTIONS {
        let name =
            |key: &str| received[section][key]["name"].as_str().unwrap_or_default().to_owned();
        assert_eq!(["a", "b", "c"].map(name), ["shop_a", "own", "c"], "{section}");
    }
}

//! Mounts that a service takes from others with `volumes_from`, within bounds. R-IN-2, R-IN-3.

use std::fmt::Write as _;

use jaco_compose::model::ContainerSpec;

use crate::util::{problems_of, resolve_text};

/// The mounts of `web` in order, each as `SOURCE:TARGET`, with `:ro` where it is read-only.
fn mounts(text: &str, overlay: Option<&str>) -> Vec<String> {
    let resolved = resolve_text(text, overlay).unwrap_or_else(|problems| panic!("{problems}"));
    let spec = ContainerSpec::parse(&resolved.services["web"].container.canonical).unwrap();
    let shown = |mount: &jaco_compose::model::Mount| {
        let source = mount.source.as_deref().unwrap_or_default();
        format!("{source}:{}{}", mount.target, if mount.read_only { ":ro" } else { "" })
    };
    let known: Vec<String> = spec.volumes.keys().cloned().collect();
    let mounts: Vec<String> = spec.service.volumes.iter().map(shown).collect();
    for source in spec.service.volumes.iter().filter_map(|mount| mount.source.as_deref()) {
        assert!(
            source.contains('/') || known.contains(&source.to_owned()),
            "{source} of {known:?}"
        );
    }
    mounts
}

/// A project where `web` has `members`, and three services each take from the next one.
fn project(members: &str) -> String {
    format!(
        "
services:
  web: {{image: i, {members}}}
  one: {{image: i, volumes: ['a:/a', 'b:/b:ro'], volumes_from: [two]}}
  two: {{image: i, volumes: ['c:/c', 'd:/a'], volumes_from: ['three:ro']}}
  three: {{image: i, volumes: ['e:/e']}}
volumes: {{a: , b: , c: , d: , e: }}
networks: {{n: }}
"
    )
}

/// A service has its own mounts first, then those of the services that it names, and of those that they name; what it
/// mounts itself stays, and `ro` holds for all that is taken that way.
#[test]
fn mounts_are_taken_from_other_services() {
    let all = ["a:/a", "b:/b:ro", "c:/c", "d:/a", "e:/e:ro"];
    assert_eq!(mounts(&project("volumes_from: [one]"), None), all);
    assert_eq!(
        mounts(&project("volumes_from: ['one:ro']"), None),
        ["a:/a:ro", "b:/b:ro", "c:/c:ro", "d:/a:ro", "e:/e:ro"]
    );
    assert_eq!(mounts(&project("volumes_from: [three, two]"), None), ["e:/e", "c:/c", "d:/a"]);
    assert_eq!(
        mounts(&project("volumes: ['e:/own', 'c:/b'], volumes_from: ['one:rw']"), None),
        ["e:/own", "c:/b", "a:/a", "c:/c", "d:/a", "e:/e:ro"]
    );
    let overlay = "services: [{name: web, networks: [n]}]\n";
    assert_eq!(mounts(&project("volumes_from: [one]"), Some(overlay)), all);
    assert_eq!(mounts(&project("tty: true"), Some(overlay)), [""; 0]);
}

/// R-HASH-1: who takes a mount is a new container when the mount changes; whose mount it is, too; nobody else.
#[test]
fn a_changed_mount_recreates_those_that_have_it() {
    let text = project("volumes_from: [one]");
    let changed = text.replace("'c:/c'", "'c:/elsewhere'");
    for (service, same) in [("web", false), ("one", false), ("two", false), ("three", true)] {
        let hash = |text| resolve_text(text, None).unwrap().services[service].container.hash;
        assert_eq!(hash(&text) == hash(&changed), same, "{service}");
    }
}

/// A chain of services that take from each other, the last one with a number of mounts.
fn chain(length: usize, mounts: usize) -> String {
    let mut text = "services:\n".to_owned();
    for at in 0..length {
        let next = format!("volumes_from: [s{}]", at + 1);
        let name = if at == 0 { "web".to_owned() } else { format!("s{at}") };
        writeln!(text, "  {name}: {{image: i, {next}}}").unwrap();
    }
    let list: Vec<String> = (0..mounts).map(|number| format!("'v:/m{number}'")).collect();
    writeln!(text, "  s{length}: {{image: i, volumes: [{}]}}\nvolumes: {{v: }}", list.join(", "))
        .unwrap();
    text
}

/// R-IN-3: a chain and a number of mounts that no file needs are refused where they begin.
#[test]
fn inheritance_is_bounded() {
    assert_eq!(mounts(&chain(8, 256), None).len(), 256);
    for (text, place) in [(chain(9, 1), "2:33"), (chain(1, 257), "2:33")] {
        let problems = resolve_text(&text, None).unwrap_err();
        let told = problems_of(&problems);
        let expected =
            "error too_large: `volumes_from` is nested too deeply or adds too many mounts";
        assert!(told.starts_with(&format!("{place} {expected}")), "{told}");
    }
}

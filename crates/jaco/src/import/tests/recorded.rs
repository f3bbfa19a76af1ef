//! Imports of what an engine 20.10 said of real projects: of docker-compose 1.29.2, of containers with the labels of Docker
//! Compose 2, and of a stack of Swarm. The compose files beside the recordings are what is expected.

use std::fmt::Write as _;

use expect_test::{ExpectFile, expect_file};
use serde_json::Value;

use super::super::found::Findings;
use super::super::stack::StackSnapshot;
use super::super::{Imported, import_project, import_stack};
use super::{objects, project, written};

/// The compose file, and behind it what its user is told.
fn check(imported: &Imported, expected: &ExpectFile) {
    let (mut text, problems) = written(imported);
    assert!(problems.errors().next().is_none(), "{problems}\n{text}");
    text.push_str("\n# What is said of it:\n");
    for line in said(&imported.findings) {
        writeln!(text, "# - {line}").unwrap();
    }
    expected.assert_eq(&text);
}

fn said(findings: &Findings) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(
        findings.differences.iter().map(|one| format!("{}: {}", one.service, one.sentence)),
    );
    lines.extend(
        findings.local_images.iter().map(|one| format!("{} runs local {}", one.service, one.image)),
    );
    lines.extend(
        findings.secret_values.iter().map(|one| format!("{} has secret {}", one.service, one.key)),
    );
    lines.extend(
        findings.stored_secrets.iter().map(|one| format!("secret {} of {:?}", one.name, one.file)),
    );
    for data in &findings.data {
        let place = format!("{:?}:{}", data.container, data.target);
        let names = format!("{} is {}", data.volume, data.engine_volume);
        lines.push(format!("volume {names}, at {place}, used by {:?}", data.services));
    }
    lines.extend(findings.stop.iter().cloned());
    lines
}

fn recorded(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// R-IN-1, R-IN-2: a project of docker-compose 1.29: scaled services, a built image, secrets, links, a job that has ended.
#[test]
fn a_project_of_the_first_generation() {
    let snapshot = project("shop", recorded(include_str!("recorded/compose_v1.json")));
    check(&import_project(&snapshot), &expect_file!["./recorded/compose_v1.yaml"]);
}

/// R-IN-1, R-IN-2: labels of Docker Compose 2 say what depends on what; networks and volumes of others are named.
#[test]
fn a_project_of_the_second_generation() {
    let snapshot = project("media", recorded(include_str!("recorded/compose_v2.json")));
    check(&import_project(&snapshot), &expect_file!["./recorded/compose_v2.yaml"]);
}

/// R-IN-1, R-IN-2: a stack: modes, placement, updates, ports, configs with their contents, secrets without.
#[test]
fn a_stack() {
    let mut said = recorded(include_str!("recorded/stack.json"));
    let configs =
        said["services"][0]["Spec"]["TaskTemplate"]["ContainerSpec"]["Configs"].as_array();
    let ids =
        configs.into_iter().flatten().map(|config| config["ConfigID"].as_str().unwrap().to_owned());
    let snapshot = StackSnapshot {
        name: "shop".to_owned(),
        configs: ids.map(|id| (id, b"welcome".to_vec())).collect(),
        services: objects(said["services"].take()),
        networks: objects(said["networks"].take()),
    };
    assert_eq!(snapshot.configs.len(), 1);
    check(&import_stack(&snapshot), &expect_file!["./recorded/stack.yaml"]);
}

/// R-IN-5: what is said holds no value of a variable.
#[test]
fn no_value_is_said() {
    let snapshot = project("shop", recorded(include_str!("recorded/compose_v1.json")));
    let imported = import_project(&snapshot);
    assert!(written(&imported).0.contains("kept-out-of-sight"));
    assert!(!format!("{:?}", imported.findings).contains("kept-out-of-sight"));
}

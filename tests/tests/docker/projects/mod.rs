//! Compose files of public projects, unmodified, deployed on real containers: only their images are
//! replaced, by an override file as a user would write it.
//!
//! The files keep their own licences and are not part of this repository. Where their folder is
//! absent the test says so and checks nothing; `JACO_COMPOSE_CORPUS` names another folder.

mod agreement;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine};
use serde_json::{Value, json};

/// A project: its compose file below the folder, and how many services run.
struct Public {
    file: &'static str,
    services: usize,
}

const PROJECTS: [Public; 5] = [
    // Conditions, and a shared environment by anchors and merge keys.
    Public { file: "penpot__penpot/docker/images/docker-compose.yaml", services: 7 },
    // Six published ports, conditions, and a long environment with defaults in defaults.
    Public { file: "langfuse__langfuse/docker-compose.yml", services: 6 },
    // A template that leans on variables of its platform.
    Public {
        file: "coollabsio__coolify/templates/compose/n8n-with-postgres-and-worker.yaml",
        services: 5,
    },
    // A stack of Swarm's: two networks, replicas.
    Public { file: "dockersamples__example-voting-app/docker-stack.yml", services: 5 },
    // Several networks, exposed ports.
    Public { file: "docker__awesome-compose/nextcloud-redis-mariadb/compose.yaml", services: 3 },
];

/// R-IN-1, R-IN-2: projects as their authors wrote them converge, and their containers are what the
/// files say.
#[tokio::test(flavor = "multi_thread")]
async fn public_projects_run_unmodified() {
    let Some(corpus) = corpus() else { return };
    let index = fs::read(corpus.join("index.json")).expect("the index can be read");
    let index: Vec<Value> = serde_json::from_slice(&index).expect("the index is JSON");
    let cluster = Cluster::start(1, Engine::Docker).await;
    let mut wrong = Vec::new();
    for project in PROJECTS {
        let file = format!("files/{}", project.file);
        let row = index.iter().find(|row| row["file"] == file.as_str());
        let row = row.unwrap_or_else(|| panic!("the index has no {file}"));
        let files = files(&cluster, &corpus, row);
        let model = model(&cluster, &files);
        let services = model["services"].as_object().map_or(0, |services| services.len());
        assert_eq!(services, project.services, "{file}");
        let apply = ["apply", "--timeout", "120s"].map(String::from);
        done(&cluster, &[apply.as_slice(), &files].concat());
        wrong.extend(agreement::disagreements(&model, &containers(&cluster.id)));
        let name = model["name"].as_str().expect("a model has a name");
        done(&cluster, &["delete", name, "--yes"].map(String::from));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The corpus; none only if `JACO_COMPOSE_CORPUS=none` asks for no comparison.
fn corpus() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus/compose");
    let named = std::env::var_os("JACO_COMPOSE_CORPUS");
    if named.as_deref() == Some("none".as_ref()) {
        return None;
    }
    let folder = named.map_or_else(|| default.into(), PathBuf::from);
    let place = folder.display();
    let is_there = folder.join("index.json").is_file();
    assert!(is_there, "no compose corpus at {place}: set JACO_COMPOSE_CORPUS to it, or to `none`");
    Some(folder)
}

/// The arguments that name a project's files: its own, what its platform would add, and the override
/// that replaces the images.
fn files(cluster: &Cluster, corpus: &Path, row: &Value) -> Vec<String> {
    let text = |path: PathBuf| path.to_str().expect("a path of plain letters").to_owned();
    let mut args = Vec::new();
    for key in ["file", "override"] {
        if let Some(path) = row[key].as_str() {
            args.extend(["-f".to_owned(), text(corpus.join(path))]);
        }
    }
    let folder = cluster.nodes[0].folder();
    let variables = row["env"].as_object();
    if let Some(variables) = variables.filter(|variables| !variables.is_empty()) {
        let line = |(name, value): (&String, &Value)| {
            format!("{name}={}\n", value.as_str().unwrap_or_default())
        };
        let path = folder.join("variables.env");
        fs::write(&path, variables.iter().map(line).collect::<String>())
            .expect("it can be written");
        args.extend(["--env-file".to_owned(), text(path)]);
    }
    let path = folder.join("override.yaml");
    fs::write(&path, replaced_images(&model(cluster, &args))).expect("it can be written");
    args.extend(["-f".to_owned(), text(path)]);
    args
}

/// An override that runs every service from the local image on one machine. A check that ran a program of the
/// original image asks the local one; when and how often stays.
fn replaced_images(model: &Value) -> String {
    let services = model["services"].as_object().expect("a model has services");
    let replaced = services.iter().map(|(name, service)| {
        let mut members = json!({
            "image": "jaco-hello:v1",
            "entrypoint": ["/hello"],
            "command": ["serve", "--port", "8080"],
        });
        if service.get("healthcheck").is_some() {
            let test = json!(["CMD", "/hello", "check", "http://127.0.0.1:8080/healthz"]);
            members["healthcheck"] = json!({ "test": test });
        }
        // One machine has each port once.
        if service.get("ports").is_some() && service["deploy"]["replicas"].as_u64() > Some(1) {
            members["deploy"] = json!({ "replicas": 1 });
        }
        (name.clone(), members)
    });
    json!({ "services": replaced.collect::<serde_json::Map<_, _>>() }).to_string()
}

/// What the files come to.
fn model(cluster: &Cluster, files: &[String]) -> Value {
    let config = ["config", "-o", "json"].map(String::from);
    let out = done(cluster, &[config.as_slice(), files].concat());
    serde_json::from_slice(&out.stdout).expect("config prints JSON")
}

/// Runs a command that must work.
fn done(cluster: &Cluster, args: &[String]) -> Output {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let out = cluster.cli(0, &args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "jaco {}: {said}", args.join(" "));
    out
}

/// What Docker says about the containers of the cluster, by service.
fn containers(cluster: &str) -> BTreeMap<String, Vec<Value>> {
    let label = format!("label=jaco.cluster_id={cluster}");
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for id in docker(&["ps", "--quiet", "--filter", &label]).lines() {
        let shown: Vec<Value> = serde_json::from_str(&docker(&["inspect", id])).expect("JSON");
        for container in shown {
            let service = container["Config"]["Labels"]["jaco.service"].as_str();
            let service = service.expect("it carries its service").to_owned();
            found.entry(service).or_default().push(container);
        }
    }
    found
}

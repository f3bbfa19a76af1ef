//! Compose files of public projects, unmodified, deployed on real containers.

mod agreement;
mod corpus;
mod spread;
mod stand_in;
mod talks;

use std::collections::BTreeMap;
use std::fs;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine};
use serde_json::{Value, json};

use corpus::{Corpus, done, model, text};

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
    let Some(corpus) = Corpus::open() else { return };
    let cluster = Cluster::start(1, Engine::Docker).await;
    let mut wrong = Vec::new();
    for project in PROJECTS {
        let files = files(&cluster, &corpus, project.file);
        let model = model(&cluster, &files);
        let services = model["services"].as_object().map_or(0, |services| services.len());
        assert_eq!(services, project.services, "{}", project.file);
        let apply = ["apply", "--timeout", "120s"].map(String::from);
        done(&cluster, &[apply.as_slice(), &files].concat());
        wrong.extend(agreement::disagreements(&model, &containers(&cluster.id)));
        let name = model["name"].as_str().expect("a model has a name");
        done(&cluster, &["delete", name, "--yes"].map(String::from));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The arguments that name a project's files, and the override that replaces the images.
fn files(cluster: &Cluster, corpus: &Corpus, file: &str) -> Vec<String> {
    let folder = cluster.nodes[0].folder();
    let mut args = corpus.arguments(file, folder);
    let path = folder.join("override.yaml");
    fs::write(&path, replaced_images(&model(cluster, &args))).expect("it can be written");
    args.extend(["-f".to_owned(), text(&path)]);
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

//! Imports of what a real engine said, and of what it would say of generated services.

mod recorded;
mod round_trip;

use std::collections::BTreeMap;

use jaco_compose::{EnvFiles, Input, Problems};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::found::Imported;
use super::scene::ProjectSnapshot;
use super::{check, document, inspected};

/// Reads what `inspect` of each kind of objects said.
fn project(name: &str, mut said: Value) -> ProjectSnapshot {
    ProjectSnapshot {
        name: name.to_owned(),
        containers: objects(said["containers"].take()),
        images: objects(said["images"].take()),
        networks: objects(said["networks"].take()),
        volumes: objects(said["volumes"].take()),
    }
}

fn objects<T: DeserializeOwned>(list: Value) -> Vec<T> {
    let Value::Array(list) = list else { return Vec::new() };
    list.into_iter().map(|object| inspected::read(object).unwrap()).collect()
}

/// The compose file, and the problems that a cluster has with it.
fn written(imported: &Imported) -> (String, Problems) {
    let text = document(imported);
    let problems = check(&text, imported);
    (text, problems)
}

/// The services of a compose file as the loader has them.
fn services(text: &str) -> Value {
    let files = BTreeMap::from([("compose.yaml".to_owned(), text.as_bytes().to_vec())]);
    let input = Input { env_files: EnvFiles::Nothing, ..Input::file("compose.yaml") };
    let loaded = jaco_compose::load(&input, &files);
    let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    loaded.project.model()["services"].take()
}

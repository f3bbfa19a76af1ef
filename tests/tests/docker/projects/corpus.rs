//! Compose files of public projects, as their authors wrote them.
//!
//! They keep their own licences and are not part of this repository. `JACO_COMPOSE_CORPUS` names their folder; where it
//! is absent the tests fail, unless `JACO_COMPOSE_CORPUS=none` says that nothing is to be checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use jaco_testkit::Cluster;
use serde_json::Value;

/// The folder of the files, and what its index says of each.
pub(super) struct Corpus {
    folder: PathBuf,
    index: Vec<Value>,
}

impl Corpus {
    /// None only if `JACO_COMPOSE_CORPUS=none` asks for no comparison.
    pub(super) fn open() -> Option<Self> {
        let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus/compose");
        let named = std::env::var_os("JACO_COMPOSE_CORPUS");
        if named.as_deref() == Some("none".as_ref()) {
            return None;
        }
        let folder = named.map_or_else(|| default.into(), PathBuf::from);
        let index = fs::read(folder.join("index.json")).unwrap_or_else(|error| {
            let place = folder.display();
            panic!(
                "no compose corpus at {place}: set JACO_COMPOSE_CORPUS to it, or to `none`: {error}"
            )
        });
        let index = serde_json::from_slice(&index).expect("the index is JSON");
        Some(Self { folder, index })
    }

    /// The arguments that name the files of a project: its own, what its platform would add, and its variables, which
    /// are written into a folder.
    pub(super) fn arguments(&self, file: &str, folder: &Path) -> Vec<String> {
        let file = format!("files/{file}");
        let row = self.index.iter().find(|row| row["file"] == file.as_str());
        let row = row.unwrap_or_else(|| panic!("the index has no {file}"));
        let mut args = Vec::new();
        for key in ["file", "override"] {
            if let Some(path) = row[key].as_str() {
                args.extend(["-f".to_owned(), text(&self.folder.join(path))]);
            }
        }
        let variables = row["env"].as_object();
        if let Some(variables) = variables.filter(|variables| !variables.is_empty()) {
            let line = |(name, value): (&String, &Value)| {
                format!("{name}={}\n", value.as_str().unwrap_or_default())
            };
            let path = folder.join("variables.env");
            fs::write(&path, variables.iter().map(line).collect::<String>())
                .expect("it can be written");
            args.extend(["--env-file".to_owned(), text(&path)]);
        }
        args
    }
}

/// A path as an argument.
pub(super) fn text(path: &Path) -> String {
    path.to_str().expect("a path of plain letters").to_owned()
}

/// What files come to.
pub(super) fn model(cluster: &Cluster, files: &[String]) -> Value {
    let config = ["config", "-o", "json"].map(String::from);
    let out = done(cluster, &[config.as_slice(), files].concat());
    serde_json::from_slice(&out.stdout).expect("config prints JSON")
}

/// Runs a command that must work.
pub(super) fn done(cluster: &Cluster, args: &[String]) -> Output {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let out = cluster.cli(0, &args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "jaco {}: {said}", args.join(" "));
    out
}

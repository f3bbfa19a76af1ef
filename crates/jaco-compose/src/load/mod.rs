//! Loading: files in, one merged tree out. The phases, in order, for every document:
//! read → parse → interpolate → check and normalise → extends → include → merge.
//!
//! Files come in through [`Files`], variables as a map; nothing here touches a disk.

mod complete;
mod document;
pub mod dotenv;
mod expression;
mod extends;
mod input;
mod interpolate;
mod loader;
mod merge;
mod name;
mod received;

use std::collections::{BTreeMap, BTreeSet};

use self::name::project_name;
use crate::diagnostics::code::Code;
use crate::diagnostics::problem::Problems;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::{Pos, Sources};
use crate::load::loader::{Loader, Scope};
use crate::project;
use crate::project::Loaded;
use crate::yaml::node::{Map, Node, Value};

pub use input::{EnvFiles, FileError, Files, Input};
pub use received::from_model;

/// Loads a project.
///
/// # Errors
///
/// Every problem of all files, at least one of them an error.
pub fn load(input: &Input, files: &dyn Files) -> Result<Loaded, Problems> {
    let mut loader = Loader {
        files,
        project_dir: input.project_dir.clone(),
        sources: Sources::default(),
        report: Report::default(),
        bytes: 0,
        home: input.env.get("HOME").cloned(),
        extended: BTreeMap::new(),
        texts: BTreeMap::new(),
        unset: BTreeSet::new(),
        expanded: 0,
        env_bytes: 0,
        marks: false,
        ports: 0,
    };
    let Some(project) = load_project(&mut loader, input) else {
        return Err(loader.report.finish(&loader.sources));
    };
    if loader.report.has_errors() {
        return Err(loader.report.finish(&loader.sources));
    }
    let warnings = std::mem::take(&mut loader.report).finish(&loader.sources);
    Ok(Loaded { project: project.with_sources(loader.sources), warnings })
}

fn load_project(loader: &mut Loader<'_>, input: &Input) -> Option<project::Project> {
    if input.files.is_empty() {
        loader.report.error_nowhere(Code::EmptyDocument, "no compose file was given");
        return None;
    }
    let mut env = loader.environment(input);
    let documents: Vec<_> = input.files.iter().map(|path| loader.documents(path, None)).collect();
    let name = project_name(loader, input, &env, &documents)?;
    env.insert("COMPOSE_PROJECT_NAME".to_owned(), name.clone());

    let scope = Scope { dir: &input.project_dir, env: &env, included: &[] };
    let mut root = Node::new(Value::Map(Map::default()), Pos::default());
    let mut any = false;
    let mut failed = false;
    for (path, documents) in input.files.iter().zip(documents) {
        let Some(documents) = documents else {
            failed = true;
            continue;
        };
        for document in documents {
            any = true;
            loader.add_document(path, document, &scope, &mut root);
        }
    }
    if failed {
        return None;
    }
    if !any {
        let path = &input.files[0];
        loader.report.error_nowhere(Code::EmptyDocument, format!("{path} is empty"));
        return None;
    }
    loader.settle(&mut root);
    complete::finish(loader, root, name, &env, input)
}

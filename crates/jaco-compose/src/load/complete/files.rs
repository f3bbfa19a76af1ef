//! Folds env files into `environment` and label files into `labels`.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostics::code::Code;
use crate::diagnostics::source::Pos;
use crate::load::dotenv::Format;
use crate::load::interpolate::Env;
use crate::load::loader::Loader;
use crate::project::reference::{Reference, ReferenceKind};
use crate::yaml::builder::MAX_NODES;
use crate::yaml::node::{Map, Node, Value};

/// Fills variables that have a name only, and lays `environment` over the env files.
pub(crate) fn fold_env_files(
    loader: &mut Loader<'_>,
    name: &str,
    service: &mut Node,
    env: &Env,
    references: &mut BTreeSet<Reference>,
) {
    let Some(map) = service.as_map_mut() else {
        return;
    };
    let mut own = Map::default();
    if let Some(Value::Map(environment)) = map.remove("environment").map(|node| node.value) {
        own = environment;
    }
    for entry in own.iter_mut() {
        if let (true, Some(value)) = (entry.node.is_null(), env.get(entry.key.as_str())) {
            entry.node.value = Value::Str(value.as_str().into());
        }
    }
    let files = map.remove("env_file");
    let mut all: BTreeMap<String, (String, Pos)> = BTreeMap::new();
    for file in files.as_ref().and_then(Node::as_seq).unwrap_or_default() {
        let Some(path) = file.get_str("path") else {
            continue;
        };
        references.insert(Reference {
            kind: ReferenceKind::EnvFile,
            path: path.to_owned(),
            owner: name.to_owned(),
        });
        let mut outer: Env =
            all.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        let texts =
            own.iter().filter_map(|e| Some((e.key.to_string(), e.node.as_str()?.to_owned())));
        outer.extend(texts);
        outer.extend(env.clone());
        let format =
            if file.get_str("format") == Some("raw") { Format::Raw } else { Format::Compose };
        let required = file.get("required").and_then(Node::as_bool) != Some(false);
        if let Some(values) = loader.env_file(path, format, &outer, required, Some(file.pos)) {
            all.extend(values.into_iter().map(|(key, value)| (key, (value, file.pos))));
        }
    }
    loader.expanded += all.len();
    if loader.expanded > MAX_NODES {
        let pos = files.map(|node| node.pos).unwrap_or_default();
        loader.report.error(pos, Code::TooLarge, "the env files define too many variables");
        return;
    }
    for (key, (value, pos)) in all {
        own.insert_default(&key, Value::Str(value.into()), pos);
    }
    if !own.is_empty() {
        map.insert("environment", Node::new(Value::Map(own), Pos::default()));
    }
}

/// Arguments of a build that have a name only are variables; those that are not set are left out.
pub(crate) fn fill_build_args(service: &mut Node, env: &Env) {
    let build = service.as_map_mut().and_then(|map| map.get_mut("build")?.as_map_mut());
    let Some(args) = build.and_then(|build| build.get_mut("args")?.as_map_mut()) else { return };
    args.retain_mut(|entry| {
        if let (true, Some(value)) = (entry.node.is_null(), env.get(entry.key.as_str())) {
            entry.node.value = Value::Str(value.as_str().into());
        }
        !entry.node.is_null()
    });
}

pub(crate) fn fold_label_files(
    loader: &mut Loader<'_>,
    name: &str,
    service: &mut Node,
    env: &Env,
    references: &mut BTreeSet<Reference>,
) {
    let Some(map) = service.as_map_mut() else {
        return;
    };
    let Some(files) = map.remove("label_file") else {
        return;
    };
    let mut all = Env::new();
    for file in files.as_seq().unwrap_or_default() {
        let Some(path) = file.as_str() else {
            continue;
        };
        references.insert(Reference {
            kind: ReferenceKind::LabelFile,
            path: path.to_owned(),
            owner: name.to_owned(),
        });
        if let Some(values) = loader.env_file(path, Format::Compose, env, true, Some(file.pos)) {
            all.extend(values);
        }
    }
    map.insert_default("labels", Value::Map(Map::default()), files.pos);
    if let Some(labels) = map.get_mut("labels").and_then(Node::as_map_mut) {
        for (key, value) in all {
            labels.insert_default(&key, Value::Str(value.into()), files.pos);
        }
    }
}

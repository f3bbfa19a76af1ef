//! A model as a client sent it.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::diagnostics::problem::Problems;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::{FileId, Sources};
use crate::load::complete::cycles::check_cycles;
use crate::load::complete::resources::{complete_networks, name_resources};
use crate::load::complete::service::complete_service;
use crate::load::complete::{consistency, prune};
use crate::normalise::checker::Checker;
use crate::notation::name::normalise_name;
use crate::project::Project;
use crate::project::usage::{collect_references, drop_unused_models};
use crate::support;
use crate::yaml::access::take_section;
use crate::yaml::json;
use crate::yaml::node::{Map, Node, Value};

/// Takes a model as a client sent it: checked like a file, but without variables, env files,
/// includes and extends, so that no file is read.
///
/// # Errors
///
/// Every problem of the model.
pub fn from_model(json: &[u8]) -> Result<Project, Problems> {
    let mut report = Report::default();
    let mut sources = Sources::default();
    let file = sources.add("the sent model", "".into());
    let project = parse_model(json, file, &mut report);
    match project {
        Some(mut project) if !report.has_errors() => {
            project.sources = sources;
            Ok(project)
        }
        Some(_) | None => Err(report.finish(&sources)),
    }
}

fn parse_model(json: &[u8], file: FileId, report: &mut Report) -> Option<Project> {
    let mut root = json::parse(json, file, report)?;
    let mut ports = 0;
    let mut checker =
        Checker { what: "the model", report, ports: &mut ports, dir: ".", home: None };
    checker.apply(&support::FILE, &mut root, Path::root(""));
    let pos = root.pos;
    let map = root.as_map_mut()?;
    for entry in map.get("services").and_then(Node::as_map).into_iter().flat_map(Map::iter) {
        for key in ["extends", "env_file", "label_file"] {
            if let Some(node) = entry.node.get(key) {
                let message = format!(
                    "`services.{}.{key}` must be resolved by the client before the model is sent",
                    entry.key
                );
                report.error(node.pos, Code::InvalidValue, message);
            }
        }
    }
    if map.contains("include") {
        report.error(
            pos,
            Code::InvalidValue,
            "`include` must be resolved by the client before the model is sent",
        );
    }
    let name = map.get("name").and_then(Node::as_str).unwrap_or_default().to_owned();
    if name.is_empty() || normalise_name(&name) != name {
        report.error(pos, Code::InvalidName, format!("`{name}` is not a valid project name"));
    }
    if report.has_errors() {
        return None;
    }
    let mut services = take_section(map, "services");
    for entry in services.iter_mut() {
        complete_service(&mut entry.node);
    }
    check_cycles(&services, report);
    map.insert("services", Node::new(Value::Map(services), pos));
    complete_networks(map);
    for section in ["networks", "volumes", "configs", "secrets"] {
        name_resources(map, section, &name);
    }
    consistency::check(map, &optional_dependencies(map), report);
    drop_unused_models(map);
    prune::prune_project(map);
    let mut references = BTreeSet::new();
    collect_references(map, ".", &mut references);
    let references = references.into_iter().collect();
    let (dir, secrets) = (".".to_owned(), BTreeMap::new());
    Some(Project { name, root, sources: Sources::default(), references, dir, secrets })
}

/// Services that others depend on with `required: false`: the client leaves them out where their
/// profile is not active, and does not send that there was one.
fn optional_dependencies(map: &Map) -> BTreeSet<String> {
    let services = map.get("services").and_then(Node::as_map);
    let dependencies = services.into_iter().flat_map(Map::iter).flat_map(|service| {
        let depends_on = service.node.get("depends_on").and_then(Node::as_map);
        depends_on.into_iter().flat_map(Map::iter)
    });
    let optional = dependencies
        .filter(|entry| entry.node.get("required").and_then(Node::as_bool) == Some(false));
    optional.map(|entry| entry.key.to_string()).collect()
}

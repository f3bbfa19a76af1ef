//! Completes a merged tree: defaults, implied dependencies and networks, env files, profiles, names.
//!
//! Written values stay as they are; this only adds what the specification implies, and leaves out
//! services of inactive profiles.

pub(super) mod consistency;
pub(super) mod cycles;
mod files;
mod profiles;
pub(super) mod prune;
pub(super) mod resources;
pub(super) mod service;
mod values;

use std::collections::BTreeSet;

use crate::diagnostics::code::Code;
use crate::diagnostics::source::{Pos, Sources};
use crate::load::complete::cycles::check_cycles;
use crate::load::complete::files::{fill_build_args, fold_env_files, fold_label_files};
use crate::load::complete::profiles::drop_inactive;
use crate::load::complete::resources::{
    bind_volume_devices, complete_networks, fill_configs, name_resources, secrets_of_variables,
};
use crate::load::complete::service::complete_service;
use crate::load::input::Input;
use crate::load::interpolate::Env;
use crate::load::loader::Loader;
use crate::project::Project;
use crate::project::usage::{collect_references, drop_unused_models};
use crate::yaml::access::take_section;
use crate::yaml::node::{Node, Value};

/// Most services of a project; each costs a few kilobytes once it is resolved.
const MAX_SERVICES: usize = 10_000;

/// Completes a merged tree.
pub(crate) fn finish(
    loader: &mut Loader<'_>,
    mut root: Node,
    name: String,
    env: &Env,
    input: &Input,
) -> Option<Project> {
    let map = root.as_map_mut()?;
    map.remove("version");
    map.remove("include");
    map.insert("name", Node::text(name.clone(), Pos::default()));
    let mut references = BTreeSet::new();

    let mut services = take_section(map, "services");
    if services.len() > MAX_SERVICES {
        let message = format!("the project has {} services", services.len());
        let pos = services.iter().nth(MAX_SERVICES).map(|entry| entry.key_pos).unwrap_or_default();
        loader
            .report
            .error(pos, Code::TooLarge, message)
            .expected(format!("at most {MAX_SERVICES}"))
            .suggest("split it into several deployments");
        return None;
    }
    for entry in services.iter_mut() {
        complete_service(&mut entry.node);
    }
    check_cycles(&services, &mut loader.report);
    let disabled = drop_inactive(&mut services, env, input);
    for entry in services.iter_mut() {
        fold_env_files(loader, &entry.key, &mut entry.node, env, &mut references);
        fold_label_files(loader, &entry.key, &mut entry.node, env, &mut references);
        fill_build_args(&mut entry.node, env);
    }
    map.insert("services", Node::new(Value::Map(services), Pos::default()));
    complete_networks(map);
    for section in ["networks", "volumes", "configs", "secrets"] {
        name_resources(map, section, &name);
    }
    bind_volume_devices(map, &input.project_dir);
    fill_configs(map, env);
    let secrets = secrets_of_variables(map, env);
    consistency::check(map, &disabled, &mut loader.report);
    drop_unused_models(map);
    prune::prune_project(map);
    collect_references(map, &input.project_dir, &mut references);
    Some(Project {
        name,
        root,
        sources: Sources::default(),
        references: references.into_iter().collect(),
        dir: input.project_dir.clone(),
        secrets,
    })
}

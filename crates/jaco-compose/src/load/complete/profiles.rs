//! Leaves out services of inactive profiles.

use std::collections::BTreeSet;

use crate::load::input::Input;
use crate::load::interpolate::Env;
use crate::yaml::access::texts;
use crate::yaml::node::Map;

/// Takes out services whose profiles are not active and returns their names.
pub(crate) fn drop_inactive(services: &mut Map, env: &Env, input: &Input) -> BTreeSet<String> {
    let from_env = env.get("COMPOSE_PROFILES").map_or("", String::as_str);
    let active: BTreeSet<&str> = input
        .profiles
        .iter()
        .map(String::as_str)
        .chain(from_env.split(',').map(str::trim))
        .filter(|name| !name.is_empty())
        .collect();
    let mut dropped = BTreeSet::new();
    services.retain(|entry| {
        let Some(map) = entry.node.as_map() else {
            return true;
        };
        let mut profiles = texts(map, "profiles").peekable();
        let wanted = profiles.peek().is_none()
            || active.contains("*")
            || profiles.any(|profile| active.contains(profile));
        if !wanted {
            dropped.insert(entry.key.to_string());
        }
        wanted
    });
    dropped
}

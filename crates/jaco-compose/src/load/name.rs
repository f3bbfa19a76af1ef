//! The project's name.

use crate::diagnostics::code::Code;
use crate::load::expression;
use crate::load::input::Input;
use crate::load::interpolate::Env;
use crate::load::loader::Loader;
use crate::notation::name::normalise_name;
use crate::notation::paths;
use crate::yaml::node::Node;

/// The project's name: the caller's, `COMPOSE_PROJECT_NAME`, `name:`, or the folder's.
pub(crate) fn project_name(
    loader: &mut Loader<'_>,
    input: &Input,
    env: &Env,
    documents: &[Option<Vec<Node>>],
) -> Option<String> {
    let chosen = input.name.as_ref().or_else(|| env.get("COMPOSE_PROJECT_NAME"));
    if let Some(name) = chosen.filter(|name| !name.is_empty()) {
        if normalise_name(name) == *name {
            return Some(name.clone());
        }
        loader
            .report
            .error_nowhere(Code::InvalidName, format!("`{name}` is not a valid project name"))
            .expected("lower-case letters, digits, `-` and `_`, starting with a letter or digit");
        return None;
    }
    let written =
        documents.iter().flatten().flatten().filter_map(|node| node.get("name")).next_back();
    if let Some(text) = written.and_then(Node::as_str) {
        let lookup = |name: &str| env.get(name).map(String::as_str);
        // A broken form is reported when the document itself is interpolated.
        let text = expression::expand(text, &lookup).map_or_else(|_| String::new(), |e| e.text);
        let name = normalise_name(&text);
        if !name.is_empty() {
            return Some(name);
        }
    }
    let name = normalise_name(paths::file_name(&input.project_dir));
    if name.is_empty() {
        loader
            .report
            .error_nowhere(Code::InvalidName, "the project has no name")
            .suggest("add `name:` to the compose file");
        return None;
    }
    Some(name)
}

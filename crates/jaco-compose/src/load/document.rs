//! One document: interpolated, checked, extended, with its includes, merged over what came before.

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::diagnostics::report::Report;
use crate::load::interpolate::Env;
use crate::load::loader::{Loader, Scope};
use crate::load::{dotenv, extends, interpolate, merge};
use crate::normalise::checker::Checker;
use crate::notation::paths;
use crate::support;
use crate::yaml::node::{Map, Node, Value};

/// How deep files may include each other.
const MAX_INCLUDE_DEPTH: usize = 16;

impl Loader<'_> {
    /// Brings one document into its final form and lays it over `root`.
    pub(super) fn add_document(
        &mut self,
        path: &str,
        mut document: Node,
        scope: &Scope<'_>,
        root: &mut Node,
    ) {
        if document.as_map().is_none() {
            let message = format!("a compose file must be a mapping, found {}", document.kind());
            self.report.error(document.pos, Code::WrongType, message);
            return;
        }
        interpolate::interpolate(&mut document, scope.env, &mut self.unset, &mut self.report);
        let mut checker = Checker {
            what: "a compose file",
            report: &mut self.report,
            ports: &mut self.ports,
            dir: scope.dir,
            home: self.home.as_deref(),
        };
        checker.apply(&support::FILE, &mut document, Path::root(""));
        extends::apply(self, path, &mut document, scope);
        self.include(path, &mut document, scope);
        merge::merge(&support::FILE, root, document);
    }

    pub(super) fn include(&mut self, path: &str, document: &mut Node, scope: &Scope<'_>) {
        let Some(list) = document.as_map_mut().and_then(|map| map.remove("include")) else {
            return;
        };
        let mut included = scope.included.to_vec();
        included.push(path.to_owned());
        for item in list.as_seq().unwrap_or_default() {
            if let Some(imported) = self.included(item, &included, scope) {
                import(document, imported, &mut self.report);
            }
        }
    }

    /// Loads what one item of `include` names.
    pub(super) fn included(
        &mut self,
        item: &Node,
        chain: &[String],
        scope: &Scope<'_>,
    ) -> Option<Node> {
        let files: Vec<String> = texts(item.get("path"))
            .map(|path| paths::resolve(scope.dir, path, self.home.as_deref()))
            .collect();
        let first = files.first()?;
        if chain.len() > MAX_INCLUDE_DEPTH || files.iter().any(|file| chain.contains(file)) {
            self.report
                .error(item.pos, Code::IncludeCycle, format!("`{first}` includes itself"))
                .suggest(format!("include chain: {}", chain.join(" → ")));
            return None;
        }
        let dir = match item.get_str("project_directory") {
            Some(dir) => paths::join(scope.dir, dir),
            None => paths::parent(first),
        };
        let env = self.included_env(item, &dir, scope);
        let inner = Scope { dir: &dir, env: &env, included: chain };
        let mut root = Node::new(Value::Map(Map::default()), item.pos);
        for file in &files {
            for document in self.documents(file, Some(item.pos))? {
                self.add_document(file, document, &inner, &mut root);
            }
        }
        self.settle(&mut root);
        Some(root)
    }

    pub(super) fn included_env(&mut self, item: &Node, dir: &str, scope: &Scope<'_>) -> Env {
        let mut env = scope.env.clone();
        let listed: Vec<String> =
            texts(item.get("env_file")).map(|path| paths::join(scope.dir, path)).collect();
        let required = !listed.is_empty();
        let listed = if required { listed } else { vec![paths::join(dir, ".env")] };
        let mut more = Env::new();
        for path in listed {
            let format = dotenv::Format::Compose;
            if let Some(values) = self.env_file(&path, format, scope.env, required, Some(item.pos))
            {
                more.extend(values);
            }
        }
        for (key, value) in more {
            env.entry(key).or_insert(value);
        }
        env
    }
}

fn texts(node: Option<&Node>) -> impl Iterator<Item = &str> {
    node.and_then(Node::as_seq).unwrap_or_default().iter().filter_map(Node::as_str)
}

/// Adds what an included project declares; declaring it differently is a conflict.
fn import(document: &mut Node, imported: Node, report: &mut Report) {
    let (Some(target), Value::Map(imported)) = (document.as_map_mut(), imported.value) else {
        return;
    };
    for section in imported.into_entries() {
        let known = ["services", "networks", "volumes", "secrets", "configs", "models"];
        let Value::Map(declared) = section.node.value else {
            continue;
        };
        if !known.contains(&section.key.as_str()) {
            continue;
        }
        target.insert_default(&section.key, Value::Map(Map::default()), section.key_pos);
        let Some(map) = target.get_mut(&section.key).and_then(Node::as_map_mut) else {
            continue;
        };
        for entry in declared.into_entries() {
            match map.get(&entry.key) {
                None => map.insert(&entry.key, entry.node),
                Some(own) if own.same(&entry.node) => {}
                Some(own) => {
                    let message = format!(
                        "`{}.{}` is also declared differently by an included file",
                        section.key, entry.key
                    );
                    report.error(own.pos, Code::Conflict, message);
                }
            }
        }
    }
}

//! `extends`: a service that starts from another one, of this file or of another.
//!
//! The base is resolved first, then the service is laid over it. Chains and their cost are bounded.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::diagnostics::source::Pos;
use crate::load::loader::{Loader, Scope};
use crate::load::{interpolate, merge};
use crate::normalise::checker::Checker;
use crate::notation::paths;
use crate::support;
use crate::yaml::builder::MAX_NODES;
use crate::yaml::node::{Map, Node, Value};

/// Longest chain of services; real ones have two or three.
const MAX_CHAIN: usize = 32;

/// Resolves every `extends` of `document`.
pub(crate) fn apply(loader: &mut Loader<'_>, path: &str, document: &mut Node, scope: &Scope<'_>) {
    let services = document.as_map_mut().and_then(|map| map.get_mut("services"));
    let Some(services) = services.and_then(Node::as_map_mut) else {
        return;
    };
    if !services.iter().any(|entry| entry.node.get("extends").is_some()) {
        return;
    }
    let place = Place { file: path, dir: scope.dir, services, checked: Checked::Yes };
    let mut resolver = Resolver { loader, scope, done: BTreeMap::new(), chain: Vec::new() };
    let names: Vec<String> = place
        .services
        .iter()
        .filter(|entry| entry.node.get("extends").is_some())
        .map(|entry| entry.key.to_string())
        .collect();
    let mut resolved = Vec::new();
    for name in names {
        if let Some(node) = resolver.service(&name, &place, Pos::default()) {
            resolved.push((name, node));
        }
    }
    for (name, node) in resolved {
        services.insert(&name, node);
    }
}

/// Whether a tree went through the key table already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checked {
    Yes,
    No,
}

/// The services of one file.
struct Place<'p> {
    file: &'p str,
    dir: &'p str,
    services: &'p Map,
    checked: Checked,
}

struct Resolver<'r, 'f> {
    loader: &'r mut Loader<'f>,
    scope: &'r Scope<'r>,
    done: BTreeMap<(String, String), Option<Node>>,
    chain: Vec<(String, String)>,
}

impl Resolver<'_, '_> {
    /// The service `name` of `place` with its bases laid below it.
    fn service(&mut self, name: &str, place: &Place<'_>, asked_at: Pos) -> Option<Node> {
        let id = (place.file.to_owned(), name.to_owned());
        if let Some(done) = self.done.get(&id) {
            return done.clone();
        }
        if self.chain.contains(&id) || self.chain.len() >= MAX_CHAIN {
            let mut way: Vec<&str> = self.chain.iter().map(|(_, name)| name.as_str()).collect();
            way.push(name);
            self.loader
                .report
                .error(asked_at, Code::ExtendsCycle, format!("`{name}` extends itself"))
                .suggest(format!("extends chain: {}", way.join(" → ")));
            return None;
        }
        self.chain.push(id.clone());
        let resolved = self.uncached(name, place, asked_at);
        self.chain.pop();
        self.done.insert(id, resolved.clone());
        resolved
    }

    fn uncached(&mut self, name: &str, place: &Place<'_>, asked_at: Pos) -> Option<Node> {
        let Some(own) = place.services.get(name) else {
            let file = place.file;
            self.loader
                .report
                .error(asked_at, Code::UnknownService, format!("{file} has no service `{name}`"))
                .nearest(name, place.services.keys());
            return None;
        };
        let mut own = own.clone();
        self.spend(&own)?;
        if place.checked == Checked::No {
            let mut checker = Checker {
                what: "a service",
                report: &mut self.loader.report,
                ports: &mut self.loader.ports,
                dir: place.dir,
                home: self.loader.home.as_deref(),
            };
            let services = Path::root("services");
            checker.apply(&support::SERVICE, &mut own, services.key(name));
        }
        let Some(extends) = own.as_map_mut().and_then(|map| map.remove("extends")) else {
            return Some(own);
        };
        let name = extends.get("service")?;
        let base = match extends.get("file") {
            None => self.service(name.as_str()?, place, name.pos),
            Some(file) => self.base_in_file(name, file, place.dir),
        };
        let mut base = base?;
        merge::merge(&support::SERVICE, &mut base, own);
        Some(base)
    }

    fn base_in_file(&mut self, name: &Node, named: &Node, dir: &str) -> Option<Node> {
        let file = paths::resolve(dir, named.as_str()?, self.loader.home.as_deref());
        let services = self.file_services(&file, named.pos)?;
        let dir = paths::parent(&file);
        let place = Place { file: &file, dir: &dir, services: &services, checked: Checked::No };
        self.service(name.as_str()?, &place, name.pos)
    }

    /// The services of another file, interpolated but not checked: only what is extended counts.
    fn file_services(&mut self, file: &str, pos: Pos) -> Option<Arc<Map>> {
        if let Some(known) = self.loader.extended.get(file) {
            return known.clone();
        }
        let services = self.read_services(file, pos);
        self.loader.extended.insert(file.to_owned(), services.clone());
        services
    }

    fn read_services(&mut self, file: &str, pos: Pos) -> Option<Arc<Map>> {
        let documents = self.loader.documents(file, Some(pos))?;
        let mut services = None;
        for mut document in documents {
            interpolate::interpolate(
                &mut document,
                self.scope.env,
                &mut self.loader.unset,
                &mut self.loader.report,
            );
            let section = document.as_map_mut().and_then(|map| map.remove("services"));
            if let Some(Node { value: Value::Map(map), .. }) = section {
                services = Some(Arc::new(map));
            }
        }
        if services.is_none() {
            let message = format!("{file} has no services");
            self.loader.report.error(pos, Code::UnknownService, message);
        }
        services
    }

    fn spend(&mut self, node: &Node) -> Option<()> {
        self.loader.expanded += count(node);
        if self.loader.expanded <= MAX_NODES {
            return Some(());
        }
        self.loader.report.error(node.pos, Code::TooLarge, "`extends` expands to too many values");
        None
    }
}

fn count(node: &Node) -> usize {
    match &node.value {
        Value::Seq(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Map(map) => 1 + map.iter().map(|entry| count(&entry.node)).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => 1,
    }
}

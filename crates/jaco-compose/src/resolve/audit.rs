//! Walks a project along the key tables and reports every key that is not simply honoured, so that
//! nothing is ignored silently.
//!
//! One problem per key, however many services use it, at the first of them by name: the client, which
//! knows positions, and the server, which does not, report the same.

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::project::containers::{ContainerNames, NAMESPACES};
use crate::resolve::options::Images;
use crate::support;
use crate::support::shape::{Class, Inside, Key, Object, Shape};
use crate::yaml::node::{Entry, Node};

/// How often a key is used, and one place.
struct Use {
    key: &'static Key,
    pos: Pos,
    path: String,
    count: usize,
}

/// Reports every key of `root` that is not honoured as written.
pub(crate) fn audit(
    root: &Node,
    containers: &ContainerNames<'_>,
    images: Images,
    report: &mut Report,
) {
    let mut uses = Uses::default();
    uses.object(&support::TOP_LEVEL, root, Path::root(""));
    for used in &uses.list {
        if !support::is_build(used.key) {
            speak(used, report);
        }
    }
    let services = root.get("services").and_then(Node::as_map);
    for entry in services.into_iter().flat_map(|map| map.iter()) {
        check_build(entry, images, report);
        check_node_bound(entry, containers, report);
    }
}

fn speak(used: &Use, report: &mut Report) {
    let Use { key, pos, path, count } = used;
    let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
    match key.class {
        Class::Honoured => {}
        Class::Differently => {
            let message = format!("`{path}`{times} works differently on a cluster: {}", key.note);
            report.warning(*pos, Code::HonouredDifferently, message);
        }
        Class::Ignored => {
            let message = format!("`{path}`{times} has no effect: {}", key.note);
            report.warning(*pos, Code::NoEffect, message);
        }
        Class::Rejected => {
            let message = format!("`{path}`{times} is not supported on a cluster");
            report.error(*pos, Code::Unsupported, message).suggest(key.note);
        }
    }
}

/// The keys in use that are not simply honoured; the table has few of them, so a list will do.
#[derive(Default)]
struct Uses {
    list: Vec<Use>,
}

impl Uses {
    fn value(&mut self, shape: &'static Shape, node: &Node, path: Path<'_>) {
        match shape.inside() {
            Inside::Nothing => {}
            Inside::Itself(inner) => self.value(inner, node, path),
            Inside::Items(item) => {
                for child in node.as_seq().unwrap_or_default() {
                    self.value(item, child, path);
                }
            }
            Inside::Values(value) => {
                for entry in node.as_map().into_iter().flat_map(|map| map.iter()) {
                    self.value(value, &entry.node, path.key(&entry.key));
                }
            }
            Inside::Keys(object) => self.object(object, node, path),
        }
    }

    fn object(&mut self, object: &'static Object, node: &Node, path: Path<'_>) {
        for Entry { key, key_pos, node } in node.as_map().into_iter().flat_map(|map| map.iter()) {
            let Some(known) = object.search(key.into()) else {
                continue;
            };
            let path = path.key(key);
            if known.class != Class::Honoured && was_written(*key_pos) && !is_usual(known, node) {
                self.note(known, *key_pos, path);
            }
            if matches!(known.class, Class::Honoured | Class::Differently) {
                self.value(&known.shape, node, path);
            }
        }
    }

    fn note(&mut self, key: &'static Key, pos: Pos, path: Path<'_>) {
        match self.list.iter_mut().find(|used| std::ptr::eq(used.key, key)) {
            Some(used) => used.count += 1,
            None => self.list.push(Use { key, pos, path: path.to_string(), count: 1 }),
        }
    }
}

/// Whether the key was written by the user and not implied by a default.
fn was_written(pos: Pos) -> bool {
    pos != Pos::default()
}

/// A value that short forms imply: the server, which gets long forms only, cannot tell the difference.
fn is_usual(key: &Key, node: &Node) -> bool {
    if key.name == "networks" {
        let only = node.as_map().filter(|map| map.len() == 1).and_then(|map| map.get("default"));
        return only.is_some_and(Node::is_null);
    }
    matches!(
        (key.name, node.as_str(), node.as_bool()),
        ("mode", Some("ingress"), _) | ("create_host_path", _, Some(true))
    )
}

fn check_build(entry: &Entry, images: Images, report: &mut Report) {
    let Some(build) = entry.node.get("build") else {
        return;
    };
    let name = &entry.key;
    let image = entry.node.get_str("image");
    match (images, image) {
        (Images::AllowLocal, Some(image)) => {
            let message = format!(
                "service `{name}` is not built; the image `{image}` must already be on every node"
            );
            report.warning(build.pos, Code::NoEffect, message);
        }
        (Images::FromRegistry, Some(image)) => {
            let message = format!("service `{name}` is not built; nodes run the image `{image}`");
            report.warning(build.pos, Code::NoEffect, message);
        }
        (Images::FromRegistry | Images::AllowLocal, None) => {
            let image = format!("REGISTRY/{name}:TAG");
            report
                .error(
                    build.pos,
                    Code::BuildUnsupported,
                    format!("service `{name}` has to be built, and nodes do not build images"),
                )
                .suggest(format!(
                    "`jaco apply --build` builds it here and pushes it into the cluster; or `docker build -t \
                     {image} …`, `docker push {image}`, then `image: {image}`"
                ));
        }
    }
}

/// Values that tie a service to something outside of the cluster.
fn check_node_bound(entry: &Entry, containers: &ContainerNames<'_>, report: &mut Report) {
    let name = &entry.key;
    for key in NAMESPACES {
        if let Some(node) = entry.node.get(key)
            && containers.service(node).is_none()
            && node.as_str().is_some_and(|text| text.starts_with("container:"))
        {
            let message =
                format!("service `{name}` shares `{key}` with a container that is named by its id");
            report
                .error(node.pos, Code::Unsupported, message)
                .suggest(format!("make it a service and write `{key}: service:NAME`"));
        }
    }
    for node in entry.node.get("volumes_from").and_then(Node::as_seq).unwrap_or_default() {
        if node.as_str().is_some_and(|text| text.starts_with("container:")) {
            let message =
                format!("service `{name}` takes volumes from a container that is named by its id");
            report.error(node.pos, Code::Unsupported, message).suggest("name a service instead");
        }
    }
    for node in entry.node.get("volumes").and_then(Node::as_seq).unwrap_or_default() {
        check_mount(name, node, report);
    }
    let mode = entry.node.get("deploy").and_then(|deploy| deploy.get("mode"));
    if let Some(node) = mode
        && !matches!(node.as_str(), Some("replicated" | "global" | "replicated-job" | "global-job"))
    {
        report
            .error(
                node.pos,
                Code::Unsupported,
                format!("service `{name}` has an unknown `deploy.mode`"),
            )
            .expected("`replicated`, `global`, `replicated-job` or `global-job`");
    }
}

fn check_mount(name: &str, node: &Node, report: &mut Report) {
    match (node.get_str("type"), node.get_str("source")) {
        (Some(kind @ ("npipe" | "cluster")), _) => {
            let message = format!("service `{name}` has a mount of type `{kind}`");
            report
                .error(node.pos, Code::Unsupported, message)
                .expected("`bind`, `volume`, `tmpfs` or `image`");
        }
        (Some("bind"), Some(source)) if is_engine_socket(source) => {
            let message = format!(
                "service `{name}` mounts the engine's socket: it controls the node it runs on, \
                 and sees only the containers of that node"
            );
            report
                .warning(node.pos, Code::HonouredDifferently, message)
                .suggest("pin it with `placement: hosts`, or run it everywhere with `global`");
        }
        _ => {}
    }
}

/// Whether a path is the engine's socket.
pub(crate) fn is_engine_socket(path: &str) -> bool {
    matches!(path.trim_end_matches('/'), "/var/run/docker.sock" | "/run/docker.sock")
}

//! Which module of a crate uses which, read from `use` items and paths.
//!
//! A module is a file, or a folder with all that is in it. Names are followed through re-exports to the module that
//! defines them. What a parent re-exports or declares of its children is no use of them.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// Path of a module from the crate's root.
pub(super) type Path = Vec<String>;

/// A crate's modules with their code outside of tests.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<Path, Module>);

#[derive(Debug, Default)]
struct Module {
    code: String,
    imports: Vec<Import>,
}

/// One leaf of a `use` item.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    path: Path,
    /// The name under which it is known here; `*` for everything.
    name: String,
    is_public: bool,
}

impl Modules {
    /// Takes the files below `src/` by their path from there.
    pub(super) fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a Source)>) -> Self {
        let mut modules = Self::default();
        for (file, source) in files {
            let module = modules.0.entry(module_path(file)).or_default();
            let code = source.product();
            let (imports, rest) = imports(&code);
            module.imports.extend(imports);
            module.code.push_str(&rest);
        }
        modules
    }

    /// Modules that use each other, each group sorted; siblings are compared with siblings.
    pub(super) fn circles(&self) -> Vec<Vec<String>> {
        let mut levels: BTreeMap<Path, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (from, to) in self.uses() {
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
                let level = levels.entry(from[..shared].to_vec()).or_default();
                level.entry(a.clone()).or_default().insert(b.clone());
            }
        }
        let name = |folder: &Path, module: &String| {
            folder.iter().chain([module]).cloned().collect::<Vec<_>>().join("::")
        };
        let of_level = |(folder, graph): (&Path, &BTreeMap<String, BTreeSet<String>>)| {
            let groups = super::circle::components(graph).into_iter();
            groups.map(|group| group.iter().map(|module| name(folder, module)).collect()).collect()
        };
        levels.iter().flat_map(|level| -> Vec<Vec<String>> { of_level(level) }).collect()
    }

    /// All pairs of a module and a module that it uses.
    pub(super) fn uses(&self) -> BTreeSet<(Path, Path)> {
        let mut uses = BTreeSet::new();
        for (from, module) in &self.0 {
            let imported = module.imports.iter().map(|import| import.path.clone());
            for path in imported.chain(paths(&module.code)) {
                if let Some(to) = self.target(from, &path, 0).filter(|to| to != from) {
                    uses.insert((from.clone(), to));
                }
            }
        }
        uses
    }

    /// The module that a path, as written in `from`, leads to; `None` for what is not of this crate.
    fn target(&self, from: &Path, path: &[String], depth: usize) -> Option<Path> {
        let mut at = from.clone();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => (at, rest) = (Vec::new(), &path[1..]),
            Some("self") => rest = &path[1..],
            Some("super") => {
                while let Some(("super", others)) = rest.split_first().map(|(a, b)| (a.as_str(), b))
                {
                    at.pop();
                    rest = others;
                }
            }
            Some(first) if self.has(&child(&at, first)) => {}
            _ => return None,
        }
        for (index, name) in rest.iter().enumerate() {
            let next = child(&at, name);
            if self.has(&next) {
                at = next;
                continue;
            }
            return Some(self.definition(&at, &rest[index..], depth).unwrap_or(at));
        }
        Some(at)
    }

    /// Follows a name that a module imported to where it is defined.
    fn definition(&self, at: &Path, rest: &[String], depth: usize) -> Option<Path> {
        let (name, module) = (rest.first()?, self.0.get(at)?);
        if depth > 8 {
            return None;
        }
        if let Some(import) = module.imports.iter().find(|import| import.name == *name) {
            let whole: Path = import.path.iter().chain(&rest[1..]).cloned().collect();
            return self.target(at, &whole, depth + 1);
        }
        let globs = module.imports.iter().filter(|import| import.name == "*");
        let mut targets = globs.filter_map(|import| self.target(at, &import.path, depth + 1));
        targets.find(|target| target != at && self.defines(target, name))
    }

    fn defines(&self, at: &Path, name: &str) -> bool {
        const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "type", "static"];
        let defined = |code: &str| {
            KINDS.iter().any(|kind| code.contains(&format!("{kind} {name}")))
                || code.contains(&format!("macro_rules! {name}"))
        };
        self.0.get(at).is_some_and(|module| defined(&module.code))
    }

    fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }
}

fn child(path: &Path, name: &str) -> Path {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

fn module_path(file: &str) -> Path {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut path: Path = stem.split('/').map(str::to_owned).collect();
    if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

/// The imports of a file, and its code without them.
fn imports(code: &str) -> (Vec<Import>, String) {
    let (mut found, mut rest, mut from) = (Vec::new(), String::new(), 0);
    for (at, _) in code.match_indices("use ") {
        if at < from || code[..at].ends_with(is_word) {
            continue;
        }
        let Some(length) = code[at..].find(';') else { break };
        let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_public = line.starts_with("pub");
        if !line.is_empty() && !is_public {
            continue;
        }
        rest.push_str(&code[from..at]);
        from = at + length;
        let tree: String = code[at + 4..from].split_whitespace().collect::<Vec<_>>().join(" ");
        expand(&tree, &[], is_public, &mut found);
    }
    rest.push_str(&code[from..]);
    (found, rest)
}

/// Takes `a::{b, c as d, e::*}` apart.
fn expand(tree: &str, prefix: &[String], is_public: bool, found: &mut Vec<Import>) {
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let head = head.split("::").map(str::trim).filter(|part| !part.is_empty());
        let prefix: Path = prefix.iter().cloned().chain(head.map(str::to_owned)).collect();
        let group = group.strip_suffix('}').unwrap_or(group);
        for part in split_group(group) {
            expand(part, &prefix, is_public, found);
        }
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim())),
        None => (tree, None),
    };
    let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty());
    let mut path: Path = prefix.iter().cloned().chain(parts.map(str::to_owned)).collect();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self" || last == "*") {
        let last = path.pop().unwrap_or_default();
        let name = if last == "*" { last } else { path.last().cloned().unwrap_or_default() };
        found.push(Import { path, name: alias.map_or(name, str::to_owned), is_public });
    } else if let Some(last) = path.last().cloned() {
        found.push(Import { path, name: alias.map_or(last, str::to_owned), is_public });
    }
}

fn split_group(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[from..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// Paths in code that begin with `crate::`, `super::` or `self::`.
fn paths(code: &str) -> Vec<Path> {
    let roots = ["crate::", "super::", "self::"];
    let starts = roots.iter().flat_map(|root| code.match_indices(root)).filter(|(at, _)| {
        !code[..*at].ends_with(|c| is_word(c) || c == ':') || code[..*at].ends_with(" ::")
    });
    let path = |(at, _): (usize, &str)| {
        let end = code[at..].find(|c| !is_word(c) && c != ':').map_or(code.len(), |end| at + end);
        let parts = code[at..end].split("::").filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    starts.map(path).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<_> =
            files.iter().map(|(path, text)| (*path, Source::parse(text))).collect();
        Modules::new(sources.iter().map(|(path, source)| (*path, source))).circles()
    }

    #[test]
    fn modules_that_use_each_other_are_found_through_reexports() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; mod c;\npub use a::A;\n"),
            ("a.rs", "use crate::{b::{self, B as Other}, c::C};\npub struct A;\n"),
            ("b.rs", "use crate::A;\npub struct B;\n"),
            ("c.rs", "pub struct C;\n#[cfg(test)]\nmod tests { use crate::a::A; }\n"),
        ]);
        assert_eq!(found, [["a", "b"]]);
    }

    #[test]
    fn folders_are_modules_and_parents_no_siblings() {
        let found = circles(&[
            ("x/mod.rs", "mod one; mod two;\npub use one::One;\npub struct X;\n"),
            ("x/one.rs", "use super::X;\nfn f() { super::two::two() }\npub struct One;\n"),
            ("x/two.rs", "pub fn two() { crate::y::y() }\n"),
            ("y.rs", "use crate::x::One;\npub fn y() {}\n"),
        ]);
        assert_eq!(found, [["x", "y"]]);
    }
}

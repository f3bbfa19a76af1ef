//! Loading: files in, one merged tree out. The phases, in order, for every document:
//! read → parse → interpolate → check and normalise → extends → include → merge.
//!
//! Files come in through [`Files`], variables as a map; nothing here touches a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::complete;
use crate::dotenv;
use crate::extends;
use crate::interpolate::{self, Env};
use crate::merge;
use crate::node::{Map, Node, Value};
use crate::parse;
use crate::paths;
use crate::place::Path;
use crate::problem::{Code, Problems, Report};
use crate::project::{self, Loaded};
use crate::shape::Checker;
use crate::source::{FileId, Pos, Sources};
use crate::support;

/// Most files one load reads, includes and extends counted.
const MAX_FILES: usize = 256;

/// Most bytes one load reads.
const MAX_TOTAL_BYTES: usize = 16 << 20;

/// Most bytes of env files that are read for services, the same file counted for each.
const MAX_ENV_BYTES: usize = 32 << 20;

/// How deep files may include each other.
const MAX_INCLUDE_DEPTH: usize = 16;

/// Why a file cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// There is no such file.
    #[error("there is no such file")]
    NotFound,
    /// The caller does not allow this file to be read.
    #[error("the file may not be read: {0}")]
    Forbidden(String),
    /// Reading failed.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
}

/// Where files come from. The command line reads the disk, tests have maps.
pub trait Files {
    /// The content of the file at `path`, a clean path below or beside the project folder.
    ///
    /// # Errors
    ///
    /// Why there is no content.
    fn read(&self, path: &str) -> Result<Vec<u8>, FileError>;
}

impl Files for BTreeMap<String, Vec<u8>> {
    fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        self.get(path).cloned().ok_or(FileError::NotFound)
    }
}

/// Which env files give the variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvFiles {
    /// `.env` of the project folder, if it is there.
    Project,
    /// These, in order; a later one wins.
    Listed(Vec<String>),
    /// None.
    Nothing,
}

/// What to load.
#[derive(Debug, Clone)]
pub struct Input {
    /// The compose files, first the one that the others are laid over.
    pub files: Vec<String>,
    /// The folder that relative paths start from, as it should appear in the model.
    pub project_dir: String,
    /// The name, if the caller sets one: wins over everything.
    pub name: Option<String>,
    /// The variables; they win over env files.
    pub env: BTreeMap<String, String>,
    /// Env files that give more variables.
    pub env_files: EnvFiles,
    /// Active profiles; `*` activates all.
    pub profiles: Vec<String>,
}

impl Input {
    /// One file in its folder, without variables.
    #[must_use]
    pub fn file(path: &str) -> Self {
        Self {
            files: vec![path.to_owned()],
            project_dir: paths::parent(path),
            name: None,
            env: BTreeMap::new(),
            env_files: EnvFiles::Project,
            profiles: Vec::new(),
        }
    }
}

/// Loads a project.
///
/// # Errors
///
/// Every problem of all files, at least one of them an error.
pub fn load(input: &Input, files: &dyn Files) -> Result<Loaded, Problems> {
    let mut loader = Loader {
        files,
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
    let name = project::project_name(loader, input, &env, &documents)?;
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

/// What is the same for all files of one level of includes.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'s> {
    /// The folder relative paths start from.
    pub(crate) dir: &'s str,
    /// The variables.
    pub(crate) env: &'s Env,
    /// The files that led here.
    pub(crate) included: &'s [String],
}

/// The state of one load.
pub(crate) struct Loader<'f> {
    files: &'f dyn Files,
    pub(crate) sources: Sources,
    pub(crate) report: Report,
    bytes: usize,
    pub(crate) home: Option<String>,
    /// Files that services extend, read once.
    pub(crate) extended: BTreeMap<String, Option<Arc<Map>>>,
    /// Texts of env files, which many services share.
    texts: BTreeMap<String, (FileId, Arc<str>)>,
    /// Variables that were warned about.
    pub(crate) unset: BTreeSet<String>,
    /// Values that `extends` and env files added, bounded.
    pub(crate) expanded: usize,
    /// Bytes of env files that were read for services, bounded.
    env_bytes: usize,
    /// Whether a text could hold `!reset` or `!override`.
    marks: bool,
    /// Ports that ranges were expanded to, bounded.
    pub(crate) ports: usize,
}

impl Loader<'_> {
    fn environment(&mut self, input: &Input) -> Env {
        let mut env = input.env.clone();
        let mut from_files = Env::new();
        let listed: Vec<(String, bool)> = match &input.env_files {
            EnvFiles::Project => vec![(paths::join(&input.project_dir, ".env"), false)],
            EnvFiles::Listed(list) => {
                list.iter().map(|path| (paths::join(&input.project_dir, path), true)).collect()
            }
            EnvFiles::Nothing => Vec::new(),
        };
        for (path, required) in listed {
            let mut outer = from_files.clone();
            outer.extend(input.env.clone());
            if let Some(values) =
                self.env_file(&path, dotenv::Format::Compose, &outer, required, None)
            {
                from_files.extend(values);
            }
        }
        for (key, value) in from_files {
            env.entry(key).or_insert(value);
        }
        env
    }

    /// Reads an env file; an absent one is a problem only if `required`.
    pub(crate) fn env_file(
        &mut self,
        path: &str,
        format: dotenv::Format,
        outer: &Env,
        required: bool,
        named_at: Option<Pos>,
    ) -> Option<Env> {
        let (file, text) = match self.texts.get(path) {
            Some(known) => known.clone(),
            None => {
                let read = self.text(path, required, named_at)?;
                self.texts.insert(path.to_owned(), read.clone());
                read
            }
        };
        self.env_bytes += text.len();
        if self.env_bytes > MAX_ENV_BYTES {
            self.blame(named_at, Code::TooLarge, format!("{path}: the env files are too long"));
            return None;
        }
        match dotenv::parse(&text, format, outer) {
            Ok(values) => Some(values),
            Err(error) => {
                let pos = Pos { file, line: error.line, column: 1 };
                self.report
                    .error(pos, Code::InvalidEnvFile, error.reason)
                    .expected("`NAME=value` lines");
                None
            }
        }
    }

    /// Reads a file as text and remembers it for messages.
    fn text(
        &mut self,
        path: &str,
        required: bool,
        named_at: Option<Pos>,
    ) -> Option<(FileId, Arc<str>)> {
        let bytes = match self.files.read(path) {
            Ok(bytes) => bytes,
            Err(FileError::NotFound) if !required => return None,
            Err(error) => {
                let code = match error {
                    FileError::Forbidden(_) => Code::FileForbidden,
                    FileError::NotFound | FileError::Unreadable(_) => Code::FileNotFound,
                };
                self.blame(named_at, code, format!("{path}: {error}"));
                return None;
            }
        };
        self.bytes += bytes.len();
        if self.bytes > MAX_TOTAL_BYTES || self.sources.len() >= MAX_FILES {
            self.blame(named_at, Code::TooLarge, format!("{path}: the project has too many files"));
            return None;
        }
        let file = self.sources.add(path, Arc::from(""));
        let text: Arc<str> = Arc::from(parse::decode(&bytes, file, &mut self.report)?);
        self.sources.set_text(file, Arc::clone(&text));
        Some((file, text))
    }

    fn blame(&mut self, named_at: Option<Pos>, code: Code, message: String) {
        match named_at {
            Some(pos) => self.report.error(pos, code, message),
            None => self.report.error_nowhere(code, message),
        };
    }

    /// Takes out what is marked as reset, if anything can be.
    fn settle(&self, root: &mut Node) {
        if self.marks {
            merge::settle(root);
        }
    }

    /// Reads and parses a compose file.
    pub(crate) fn documents(&mut self, path: &str, named_at: Option<Pos>) -> Option<Vec<Node>> {
        let (file, text) = self.text(path, true, named_at)?;
        self.marks |= text.contains("!reset") || text.contains("!override");
        parse::parse(&text, file, &mut self.report)
    }

    /// Brings one document into its final form and lays it over `root`.
    fn add_document(&mut self, path: &str, mut document: Node, scope: &Scope<'_>, root: &mut Node) {
        if document.as_map().is_none() {
            let message = format!("a compose file is a mapping, but this is {}", document.kind());
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

    fn include(&mut self, path: &str, document: &mut Node, scope: &Scope<'_>) {
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
    fn included(&mut self, item: &Node, chain: &[String], scope: &Scope<'_>) -> Option<Node> {
        let files: Vec<String> = texts(item.get("path"))
            .map(|path| paths::resolve(scope.dir, path, self.home.as_deref()))
            .collect();
        let first = files.first()?;
        if chain.len() > MAX_INCLUDE_DEPTH || files.iter().any(|file| chain.contains(file)) {
            self.report
                .error(item.pos, Code::IncludeCycle, format!("`{first}` includes itself"))
                .suggest(format!("the way here: {}", chain.join(" → ")));
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

    fn included_env(&mut self, item: &Node, dir: &str, scope: &Scope<'_>) -> Env {
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
                    let message =
                        format!("`{}.{}` is also declared by an include", section.key, entry.key);
                    report.error(own.pos, Code::Conflict, message);
                }
            }
        }
    }
}

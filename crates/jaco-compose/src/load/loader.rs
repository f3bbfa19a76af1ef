//! The state of one load: reads texts, env files and documents within the bounds of a load.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::{FileId, Pos, Sources};
use crate::load::input::{EnvFiles, FileError, Files, Input};
use crate::load::interpolate::Env;
use crate::load::{dotenv, merge};
use crate::notation::paths;
use crate::yaml::node::{Map, Node};
use crate::yaml::parse;

/// Most files one load reads, includes and extends counted.
const MAX_FILES: usize = 256;

/// Most bytes one load reads.
const MAX_TOTAL_BYTES: usize = 16 << 20;

/// Most bytes of env files that are read for services, the same file counted for each.
const MAX_ENV_BYTES: usize = 32 << 20;

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
    pub(super) files: &'f dyn Files,
    /// The folder of the project.
    pub(super) project_dir: String,
    pub(crate) sources: Sources,
    pub(crate) report: Report,
    pub(super) bytes: usize,
    pub(crate) home: Option<String>,
    /// Files that services extend, read once.
    pub(crate) extended: BTreeMap<String, Option<Arc<Map>>>,
    /// Texts of env files, which many services share.
    pub(super) texts: BTreeMap<String, (FileId, Arc<str>)>,
    /// Variables that were warned about.
    pub(crate) unset: BTreeSet<String>,
    /// Values that `extends` and env files added, bounded.
    pub(crate) expanded: usize,
    /// Bytes of env files that were read for services, bounded.
    pub(super) env_bytes: usize,
    /// Whether a text could hold `!reset` or `!override`.
    pub(super) marks: bool,
    /// Ports that ranges were expanded to, bounded.
    pub(crate) ports: usize,
}

impl Loader<'_> {
    pub(super) fn environment(&mut self, input: &Input) -> Env {
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
                // Passwords are what env files are for.
                self.sources.hide_lines(read.0);
                self.texts.insert(path.to_owned(), read.clone());
                read
            }
        };
        self.env_bytes += text.len();
        if self.env_bytes > MAX_ENV_BYTES {
            self.blame(
                named_at,
                Code::TooLarge,
                format!("{path}: the env files are too large in total"),
            );
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
    pub(super) fn text(
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
            self.blame(
                named_at,
                Code::TooLarge,
                format!("{path}: the project has too many files or too many bytes"),
            );
            return None;
        }
        let file = self.sources.add(path, Arc::from(""));
        let text: Arc<str> = Arc::from(parse::decode(&bytes, file, &mut self.report)?);
        self.sources.set_text(file, Arc::clone(&text));
        Some((file, text))
    }

    pub(super) fn blame(&mut self, named_at: Option<Pos>, code: Code, message: String) {
        match named_at {
            Some(pos) => self.report.error(pos, code, message),
            None => self.report.error_nowhere(code, message),
        };
    }

    /// Takes out what is marked as reset, if anything can be.
    pub(super) fn settle(&self, root: &mut Node) {
        if self.marks {
            merge::settle(root);
        }
    }

    /// Reads and parses a compose file.
    ///
    /// One that another file names may be anything that the reader can open. What is no compose file is named without
    /// its lines, and without what is wrong with it where that could quote it.
    pub(crate) fn documents(&mut self, path: &str, named_at: Option<Pos>) -> Option<Vec<Node>> {
        let (file, text) = self.text(path, true, named_at)?;
        self.marks |= text.contains("!reset") || text.contains("!override");
        let Some(named_at) = named_at else {
            return parse::parse(&text, file, &mut self.report);
        };
        let mut findings = Report::default();
        let documents = parse::parse(&text, file, &mut findings);
        if documents.as_ref().is_some_and(|documents| documents.iter().all(is_compose)) {
            self.report.absorb(findings);
            return documents;
        }
        self.sources.hide_lines(file);
        // What is in the project and cannot be parsed is most likely a compose file that is being written.
        if documents.is_none()
            && paths::is_below(&paths::clean(&self.project_dir), &paths::clean(path))
        {
            self.report.absorb(findings);
            return None;
        }
        let message = format!("{path} is not a compose file");
        let help = "it may be anything, so nothing of it is shown: look at the file itself";
        self.report.error(named_at, Code::WrongType, message).suggest(help);
        None
    }
}

/// Whether a document has a part of a compose file, or nothing else either.
fn is_compose(document: &Node) -> bool {
    let sections = ["services", "include", "networks", "volumes", "configs", "secrets", "models"];
    let is_ordinary = |key: &str| ["name", "version"].contains(&key) || key.starts_with("x-");
    document.as_map().is_some_and(|map| {
        sections.iter().any(|section| map.get(section).is_some())
            || map.iter().all(|entry| is_ordinary(&entry.key))
    })
}

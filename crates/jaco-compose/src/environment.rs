//! `jaco.services.toml`: what the services of one environment reserve, and other values that differ
//! between environments. One table per service (R-RES-2):
//!
//! ```toml
//! [web]
//! memory = "512 MB"
//! cpu = "500 MHz"
//! greeting = "hello from production"
//! ```
//!
//! `memory` and `cpu` are reservations; every key, these two included, is also a variable for `${…}`
//! (R-RES-5).

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::{Spanned, Value};

use crate::diagnostics::code::Code;
use crate::diagnostics::problem::Problems;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::{FileId, Pos, Sources};
use crate::project::Project;
use crate::resolve::options::Override;

/// Largest file that is read: some bytes for each of a thousand services.
const MAX_BYTES: usize = 256 << 10;

/// What starts the name of every variable that comes from the file.
const VARIABLE_PREFIX: &str = "JACO";

/// The values of one environment, by service.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    services: BTreeMap<String, Table>,
    sources: Sources,
}

#[derive(Debug, Clone)]
struct Table {
    pos: Pos,
    values: BTreeMap<String, String>,
}

/// The file of an environment, beside jaco.yaml or the compose file: `jaco.services.toml`, or
/// `jaco.services.<name>.toml`.
#[must_use]
pub fn file_name(environment: Option<&str>) -> String {
    match environment {
        None => "jaco.services.toml".to_owned(),
        Some(name) => format!("jaco.services.{name}.toml"),
    }
}

impl Environment {
    /// Reads the text of `file`, the name that messages show.
    ///
    /// # Errors
    ///
    /// Every problem of the file.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Problems> {
        let mut read = Reading::new(file);
        let services = read.services(bytes).unwrap_or_default();
        if read.report.has_errors() {
            return Err(read.report.finish(&read.sources));
        }
        Ok(Self { services, sources: read.sources })
    }

    /// The reservations by service.
    #[must_use]
    pub fn overrides(&self) -> BTreeMap<String, Override> {
        let of = |table: &Table| Override {
            memory: table.values.get("memory").cloned(),
            cpu: table.values.get("cpu").cloned(),
        };
        self.services.iter().map(|(name, table)| (name.clone(), of(table))).collect()
    }

    /// Everything of the file, by service and key.
    pub fn values(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, String>)> {
        self.services.iter().map(|(name, table)| (name.as_str(), &table.values))
    }

    /// Everything of the file as variables: `JACO_<SERVICE>_<KEY>` in capitals, with `_` for what a
    /// variable's name cannot hold.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, String> {
        let of_service = |(service, values): (&str, &BTreeMap<String, String>)| {
            let named = values.iter().map(|(key, value)| (variable(service, key), value.clone()));
            named.collect::<Vec<_>>()
        };
        self.values().flat_map(of_service).collect()
    }

    /// Reports tables of services that the project does not have.
    ///
    /// # Errors
    ///
    /// One problem per table.
    pub fn check(&self, project: &Project) -> Result<(), Problems> {
        let mut report = Report::default();
        for (name, table) in &self.services {
            if project.service(name).is_none() {
                let message = format!("the compose file has no service `{name}`");
                report
                    .error(table.pos, Code::UnknownService, message)
                    .nearest(name, project.service_names());
            }
        }
        if report.has_errors() { Err(report.finish(&self.sources)) } else { Ok(()) }
    }
}

/// The variable that a key of a service's table is read by.
#[must_use]
pub fn variable(service: &str, key: &str) -> String {
    let word = |text: &str| {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        text.chars().map(letter).collect::<String>()
    };
    format!("{VARIABLE_PREFIX}_{}_{}", word(service), word(key))
}

type Tables = BTreeMap<Spanned<String>, Spanned<Value>>;

/// One file on its way from text to tables.
struct Reading {
    file: FileId,
    text: Arc<str>,
    /// Where lines begin: a file has as many tables as lines, and each has a position.
    lines: Vec<usize>,
    sources: Sources,
    report: Report,
}

impl Reading {
    fn new(name: &str) -> Self {
        let mut sources = Sources::default();
        let file = sources.add(name, "".into());
        Self { file, text: "".into(), lines: Vec::new(), sources, report: Report::default() }
    }

    fn services(&mut self, bytes: &[u8]) -> Option<BTreeMap<String, Table>> {
        let whole = Pos { file: self.file, line: 0, column: 0 };
        if bytes.len() > MAX_BYTES {
            let message = format!("the file has {} bytes, more than {MAX_BYTES}", bytes.len());
            self.report.error(whole, Code::TooLarge, message);
            return None;
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.report.error(whole, Code::NotText, "the file is not UTF-8");
            return None;
        };
        self.text = text.into();
        self.lines =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        self.sources.set_text(self.file, Arc::clone(&self.text));
        let tables: Tables = match toml::from_str(text) {
            Ok(tables) => tables,
            Err(error) => {
                let pos = self.pos(error.span().map_or(0, |span| span.start));
                let message = error.message().lines().next().unwrap_or("not TOML").to_owned();
                self.report
                    .error(pos, Code::InvalidEnvFile, message)
                    .expected("a table for each service: `[web]`, then `memory = \"512 MB\"`");
                return None;
            }
        };
        Some(tables.into_iter().map(|(name, body)| self.table(name, body)).collect())
    }

    fn table(&mut self, name: Spanned<String>, body: Spanned<Value>) -> (String, Table) {
        let pos = self.pos(name.span().start);
        let name = name.into_inner();
        let mut values = BTreeMap::new();
        let Value::Table(entries) = body.into_inner() else {
            self.report
                .error(pos, Code::WrongType, format!("`{name}` is outside of any table"))
                .expected("a `[SERVICE]` table header above it");
            return (name, Table { pos, values });
        };
        for (key, value) in entries {
            match plain(&value) {
                Some(text) => {
                    values.insert(key, text);
                }
                None => {
                    let message = format!("`{key}` of `{name}` has the type {}", value.type_str());
                    self.report
                        .error(pos, Code::WrongType, message)
                        .expected("a string, a number or a boolean");
                }
            }
        }
        (name, Table { pos, values })
    }

    fn pos(&self, offset: usize) -> Pos {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).map_or(0, |above| self.lines[above]);
        let column = self.text.get(start..offset).unwrap_or("").chars().count() + 1;
        let line = line.max(1);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Pos { file: self.file, line: number(line), column: number(column) }
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(answer) => Some(answer.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> (String, u32, u32) {
        let problems = Environment::parse("jaco.services.toml", text.as_bytes()).unwrap_err();
        let problem = &problems.list[0];
        (problem.code.as_str().to_owned(), problem.line, problem.column)
    }

    /// R-RES-2, R-RES-5: reservations by service; every key is a variable too.
    #[test]
    fn tables_are_reservations_and_variables() {
        let text = "[web]\nmemory = \"512 MB\"\ncpu = 500\n\n[my-db]\nmax_rows = 7\nready = true\n";
        let environment = Environment::parse("jaco.services.toml", text.as_bytes()).unwrap();
        let overrides = environment.overrides();
        let web = Override { memory: Some("512 MB".to_owned()), cpu: Some("500".to_owned()) };
        assert_eq!(overrides["web"], web);
        assert_eq!(overrides["my-db"], Override::default());
        let variables: Vec<_> = environment.variables().into_iter().collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            variables,
            [
                pair("JACO_MY_DB_MAX_ROWS", "7"),
                pair("JACO_MY_DB_READY", "true"),
                pair("JACO_WEB_CPU", "500"),
                pair("JACO_WEB_MEMORY", "512 MB"),
            ]
        );
    }

    /// R-RES-2: a mistake has its place.
    #[test]
    fn mistakes_have_their_place() {
        let at = |code: &str, line, column| (code.to_owned(), line, column);
        assert_eq!(first("memory = 1\n"), at("wrong_type", 1, 1));
        assert_eq!(first("[web]\n\n[db]\nports = [1]\n"), at("wrong_type", 3, 2));
        assert_eq!(first("[web]\nmemory 1\n").0, "invalid_env_file");
        assert_eq!(first("[web]\nmemory 1\n").1, 2);
        assert_eq!(first(&"#".repeat(MAX_BYTES + 1)), at("too_large", 0, 0));
    }
}

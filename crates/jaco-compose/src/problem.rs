//! Problems: errors and warnings as values, with the place, the expectation and the nearest name.
//!
//! Every phase writes into one [`Report`], so that a person sees all mistakes of all files in one
//! run. Nothing here decides what is a mistake.

use std::fmt;
use std::fmt::Write as _;

use serde_json::json;

use crate::source::{Pos, Sources};

/// How many problems are listed; the rest is a number.
///
/// Past fifty a reader fixes the first ones and runs again, and a hostile file must not be able to
/// make the answer large.
pub const MAX_LISTED: usize = 50;

/// Problems kept before sorting: enough that the listed ones are among the first of every file, few
/// enough that advice for each costs nothing.
const MAX_KEPT: usize = 200;

/// Whether a problem stops the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The input is refused.
    Error,
    /// The input is taken; something in it has no effect, or another one than elsewhere.
    Warning,
}

impl Severity {
    /// The word used in text and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)*) => {
        /// What kind of problem it is: a closed list, stable for scripts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, for documentation and tests.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name, in snake case.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// The text is not YAML.
    YamlSyntax => "yaml_syntax",
    /// The text is not UTF-8, or holds a NUL byte.
    NotText => "not_text",
    /// A file, a document or an expansion is larger than the loader takes.
    TooLarge => "too_large",
    /// Deeper nesting than the loader takes.
    TooDeep => "too_deep",
    /// A mapping names a key twice.
    DuplicateKey => "duplicate_key",
    /// A mapping key is not a plain text.
    InvalidKey => "invalid_key",
    /// An alias that names nothing, itself, or too much.
    InvalidAlias => "invalid_alias",
    /// The file holds nothing.
    EmptyDocument => "empty_document",
    /// A file that was named could not be read.
    FileNotFound => "file_not_found",
    /// A file lies outside of what the caller allows.
    FileForbidden => "file_forbidden",
    /// An env file has a line that is not an assignment.
    InvalidEnvFile => "invalid_env_file",
    /// A `$` that starts no known form.
    InvalidInterpolation => "invalid_interpolation",
    /// `${X:?…}` and X is not set.
    MissingVariable => "missing_variable",
    /// A variable without a default is not set; an empty text was used.
    UnsetVariable => "unset_variable",
    /// A key the schema does not know.
    UnknownKey => "unknown_key",
    /// A key that a mapping must have.
    MissingKey => "missing_key",
    /// A value of another type than the key takes.
    WrongType => "wrong_type",
    /// A value of the right type that means nothing.
    InvalidValue => "invalid_value",
    /// A list that must not repeat a value does.
    DuplicateValue => "duplicate_value",
    /// Two files declare the same thing differently.
    Conflict => "conflict",
    /// Files that include each other.
    IncludeCycle => "include_cycle",
    /// Services that extend each other.
    ExtendsCycle => "extends_cycle",
    /// A service that nobody declares.
    UnknownService => "unknown_service",
    /// A network that nobody declares.
    UnknownNetwork => "unknown_network",
    /// A volume that nobody declares.
    UnknownVolume => "unknown_volume",
    /// A config that nobody declares.
    UnknownConfig => "unknown_config",
    /// A secret that nobody declares.
    UnknownSecret => "unknown_secret",
    /// `depends_on` names a service that does not exist.
    UnknownDependsOnService => "unknown_depends_on_service",
    /// `depends_on` goes round in a circle, or names its own service.
    InvalidDependsOn => "invalid_depends_on",
    /// A service has neither an image nor a build section.
    MissingImage => "missing_image",
    /// A service must be built before it can run on a cluster.
    BuildUnsupported => "build_unsupported",
    /// A key that has no meaning across nodes.
    Unsupported => "unsupported",
    /// A key that is accepted and changes nothing.
    NoEffect => "no_effect",
    /// A key that is honoured in another way than on one host.
    HonouredDifferently => "honoured_differently",
    /// A key of an old compose version.
    LegacyComposeField => "legacy_compose_field",
    /// The project or deployment name cannot be used.
    InvalidName => "invalid_name",
    /// A rule of jaco.yaml is broken.
    ValidationFailed => "validation_failed",
    /// A resource bound that contradicts itself.
    InvalidManifest => "invalid_manifest",
    /// A reservation outside of the bounds.
    UnsupportedResourceConfiguration => "unsupported_resource_configuration",
    /// More replicas than pinned hosts.
    ReplicasExceedPinnedHosts => "replicas_exceed_pinned_hosts",
    /// One domain with TLS both on and off.
    RouteTlsMixed => "route_tls_mixed",
    /// A second catch-all route of a domain.
    RouteMultipleCatchall => "route_multiple_catchall",
    /// Two services publish the same host port.
    PortConflict => "port_conflict",
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind.
    pub code: Code,
    /// Whether it stops the load.
    pub severity: Severity,
    /// The file as the caller named it; empty if no file is to blame.
    pub file: String,
    /// Line from 1; 0 if the file as a whole is meant.
    pub line: u32,
    /// Column from 1; 0 if the file as a whole is meant.
    pub column: u32,
    /// The line itself.
    pub snippet: String,
    /// What is wrong, in one sentence without a period.
    pub message: String,
    /// What would have been right.
    pub expected: Option<String>,
    /// The nearest name, or what to write instead.
    pub suggestion: Option<String>,
}

impl Problem {
    /// The problem as JSON, for `-o json`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "code": self.code.as_str(),
            "severity": self.severity.as_str(),
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "snippet": self.snippet,
            "message": self.message,
            "expected": self.expected,
            "suggestion": self.suggestion,
        })
    }
}

/// Compiler style: kind, message, place, line, marker, advice.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}[{}]: {}", self.severity.as_str(), self.code.as_str(), self.message)?;
        if !self.file.is_empty() && self.line == 0 {
            writeln!(f, "  --> {}", self.file)?;
        } else if !self.file.is_empty() {
            writeln!(f, "  --> {}:{}:{}", self.file, self.line, self.column)?;
        }
        if !self.snippet.is_empty() {
            let number = self.line.to_string();
            let gutter = " ".repeat(number.len());
            // Tabs are kept before the marker, so that it lands below its column.
            let lead: String = self
                .snippet
                .chars()
                .take((self.column as usize).saturating_sub(1))
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            writeln!(f, "{gutter} |\n{number} | {}\n{gutter} | {lead}^", self.snippet)?;
        }
        if let Some(expected) = &self.expected {
            writeln!(f, "  expected: {expected}")?;
        }
        if let Some(suggestion) = &self.suggestion {
            writeln!(f, "  help: {suggestion}")?;
        }
        Ok(())
    }
}

/// Everything that was found, sorted by place; at least one is an error where this is an `Err`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first ones by position, errors before warnings, at most [`MAX_LISTED`] of each.
    pub list: Vec<Problem>,
    /// How many more there are.
    pub omitted: usize,
}

impl Problems {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The errors.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter().filter(|problem| problem.severity == Severity::Error)
    }

    /// The warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter().filter(|problem| problem.severity == Severity::Warning)
    }

    /// All of it as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let list: Vec<_> = self.list.iter().map(Problem::to_json).collect();
        json!({ "problems": list, "omitted": self.omitted })
    }

    /// Puts two lists together, such as a load's warnings and a resolve's.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.list.extend(other.list);
        self.omitted += other.omitted;
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for problem in &self.list {
            writeln!(text, "{problem}")?;
        }
        if self.omitted > 0 {
            writeln!(text, "… and {} more", self.omitted)?;
        }
        f.write_str(text.trim_end())
    }
}

impl std::error::Error for Problems {}

/// A problem before its place is turned into a file name and a line.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pos: Option<Pos>,
    code: Code,
    severity: Severity,
    message: String,
    expected: Option<String>,
    suggestion: Option<String>,
    /// Past the limit: it is only counted, so advice would be wasted.
    spilled: bool,
}

impl Finding {
    /// Says what would have been right.
    pub(crate) fn expected(&mut self, text: impl Into<String>) -> &mut Self {
        self.expected = Some(text.into());
        self
    }

    /// Says what to write instead.
    pub(crate) fn suggest(&mut self, text: impl Into<String>) -> &mut Self {
        self.suggestion = Some(text.into());
        self
    }

    /// Suggests the nearest of `known`, if one is near.
    pub(crate) fn nearest<'n>(
        &mut self,
        wrong: &str,
        known: impl Iterator<Item = &'n str>,
    ) -> &mut Self {
        if self.spilled {
            return self;
        }
        if let Some(near) = crate::nearest::nearest(wrong, known) {
            self.suggestion = Some(format!("did you mean `{near}`?"));
        }
        self
    }
}

/// Collects findings during one run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    findings: Vec<Finding>,
    omitted_errors: usize,
    omitted_warnings: usize,
    /// Takes the findings past the limit, so that callers need no second path.
    spill: Option<Box<Finding>>,
}

impl Report {
    /// Adds an error at `pos`.
    pub(crate) fn error(
        &mut self,
        pos: Pos,
        code: Code,
        message: impl Into<String>,
    ) -> &mut Finding {
        self.push(Some(pos), code, Severity::Error, message.into())
    }

    /// Adds an error that belongs to no place in a file.
    pub(crate) fn error_nowhere(&mut self, code: Code, message: impl Into<String>) -> &mut Finding {
        self.push(None, code, Severity::Error, message.into())
    }

    /// Adds a warning at `pos`.
    pub(crate) fn warning(
        &mut self,
        pos: Pos,
        code: Code,
        message: impl Into<String>,
    ) -> &mut Finding {
        self.push(Some(pos), code, Severity::Warning, message.into())
    }

    /// Whether an error was found so far.
    pub(crate) fn has_errors(&self) -> bool {
        self.omitted_errors > 0 || self.findings.iter().any(|f| f.severity == Severity::Error)
    }

    /// Whether another problem would be shown: false once there are too many to explain.
    pub(crate) fn has_room(&self) -> bool {
        self.findings.len() < MAX_KEPT
    }

    fn push(
        &mut self,
        pos: Option<Pos>,
        code: Code,
        severity: Severity,
        message: String,
    ) -> &mut Finding {
        let spilled = !self.has_room();
        let finding =
            Finding { pos, code, severity, message, expected: None, suggestion: None, spilled };
        if !spilled {
            self.findings.push(finding);
            return self.findings.last_mut().expect("one was pushed just now");
        }
        match severity {
            Severity::Error => self.omitted_errors += 1,
            Severity::Warning => self.omitted_warnings += 1,
        }
        self.spill.insert(Box::new(finding))
    }

    /// Takes over what another report found.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.omitted_errors += other.omitted_errors;
        self.omitted_warnings += other.omitted_warnings;
    }

    /// Sorts, cuts and resolves what was found.
    pub(crate) fn finish(mut self, sources: &Sources) -> Problems {
        self.findings.sort_by_key(|finding| (finding.severity, finding.pos));
        let mut omitted = self.omitted_errors + self.omitted_warnings;
        let mut list = Vec::new();
        for severity in [Severity::Error, Severity::Warning] {
            let of_kind = self.findings.iter().filter(|f| f.severity == severity);
            let total = of_kind.clone().count();
            list.extend(of_kind.take(MAX_LISTED).map(|finding| resolve(finding, sources)));
            omitted += total.saturating_sub(MAX_LISTED);
        }
        Problems { list, omitted }
    }
}

fn resolve(finding: &Finding, sources: &Sources) -> Problem {
    let pos = finding.pos.unwrap_or_default();
    let file = finding.pos.map_or("", |pos| sources.name(pos.file));
    Problem {
        code: finding.code,
        severity: finding.severity,
        file: file.to_owned(),
        line: pos.line,
        column: pos.column,
        snippet: finding.pos.map_or_else(String::new, |pos| sources.snippet(pos)),
        message: finding.message.clone(),
        expected: finding.expected.clone(),
        suggestion: finding.suggestion.clone(),
    }
}

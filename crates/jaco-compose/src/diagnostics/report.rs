//! Collects the problems of one run. Nothing here decides what is a mistake.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostics::code::Code;
use crate::diagnostics::nearest::nearest;
use crate::diagnostics::problem::{MAX_LISTED, Problem, Problems, Severity};
use crate::diagnostics::source::{Pos, Sources};

/// Problems kept before sorting: enough that the listed ones are among the first of every file, few
/// enough that advice for each costs nothing.
const MAX_KEPT: usize = 200;

/// What begins the path or the name of a service in a message.
const SERVICE_MARKS: [&str; 2] = ["`services.", "service `"];

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
    /// Adds what would have been valid.
    pub(crate) fn expected(&mut self, text: impl Into<String>) -> &mut Self {
        self.expected = Some(text.into());
        self
    }

    /// Adds what to write instead.
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
        if let Some(near) = nearest(wrong, known) {
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
    /// Takes the findings past the limit and those that are there already, so that callers need no
    /// second path.
    spill: Option<Box<Finding>>,
    /// Values in which a variable is not set, and its name.
    unset: BTreeMap<Pos, String>,
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

    /// Remembers that the value at `pos` has a variable that is not set: what is wrong with the value
    /// is wrong because of that.
    pub(crate) fn note_unset(&mut self, pos: Pos, name: &str) {
        if self.unset.len() < MAX_KEPT {
            self.unset.entry(pos).or_insert_with(|| name.to_owned());
        }
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
        let known = severity == Severity::Error
            && self.findings.iter().any(|known| known.says(pos, code, &message));
        let spilled = known || !self.has_room();
        let finding =
            Finding { pos, code, severity, message, expected: None, suggestion: None, spilled };
        if known {
            return self.spill.insert(Box::new(finding));
        }
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
        self.blame_variables();
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

impl Report {
    /// An error of a value whose variable is not set says so, and needs no warning beside it.
    fn blame_variables(&mut self) {
        let errors = self.findings.iter_mut().filter(|found| found.severity == Severity::Error);
        let mut broken = BTreeSet::new();
        for error in errors {
            let Some((pos, name)) = error.pos.and_then(|pos| self.unset.get_key_value(&pos)) else {
                continue;
            };
            broken.insert(*pos);
            if error.suggestion.is_none() {
                error.suggestion = Some(format!("the variable `{name}` is not set"));
            }
        }
        self.findings.retain(|found| {
            found.code != Code::UnsetVariable || found.pos.is_none_or(|pos| !broken.contains(&pos))
        });
    }
}

impl Finding {
    /// Whether this is what another error says: the same of another service that has the same text by
    /// an anchor, or something about a value whose variables could not be filled in.
    fn says(&self, pos: Option<Pos>, code: Code, message: &str) -> bool {
        if self.pos != pos || self.severity != Severity::Error || pos.is_none_or(Pos::is_nowhere) {
            return false;
        }
        matches!(self.code, Code::MissingVariable | Code::InvalidInterpolation)
            || (self.code == code && without_service(&self.message).eq(without_service(message)))
    }
}

/// A message without the name of its service.
fn without_service(message: &str) -> impl Iterator<Item = &str> {
    let mark = SERVICE_MARKS.iter().find_map(|mark| Some(message.find(mark)? + mark.len()));
    let (before, name) = message.split_at(mark.unwrap_or(0));
    let end = name.find(['.', '`']).filter(|_| mark.is_some()).unwrap_or(0);
    [before, &name[end..]].into_iter()
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

//! The compose files that a project was started from, if this machine has them.

use std::fs;
use std::path::Path;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The compose files of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Originals {
    pub(super) files: Vec<String>,
    pub(super) state: State,
}

/// Whether they say what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// None was written to since the first container was created.
    Unchanged,
    Changed,
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Changed => "changed",
        }
    }
}

impl Originals {
    /// Looks for the files; none unless all of them are here. `created` is when the first container was, in RFC 3339.
    pub(super) fn find(files: Vec<String>, created: &str) -> Option<Self> {
        let created = OffsetDateTime::parse(created, &Rfc3339).ok()?;
        let mut state = State::Unchanged;
        for file in &files {
            let modified = fs::metadata(Path::new(file)).ok()?.modified().ok()?;
            if OffsetDateTime::from(modified) > created {
                state = State::Changed;
            }
        }
        (!files.is_empty()).then_some(Self { files, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-1: files are offered if all of them are there, and are said to have changed if one was written to later.
    #[test]
    fn files_that_changed_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("compose.yaml");
        fs::write(&path, "services: {}").unwrap();
        let file = path.display().to_string();
        let state =
            |created: &str| Originals::find(vec![file.clone()], created).map(|found| found.state);
        assert_eq!(state("2999-01-01T00:00:00.123456789Z"), Some(State::Unchanged));
        assert_eq!(state("1999-01-01T00:00:00Z"), Some(State::Changed));
        assert_eq!(state(""), None);
        let gone = vec![file.clone(), format!("{file}.gone")];
        assert_eq!(Originals::find(gone, "2999-01-01T00:00:00Z"), None);
    }
}

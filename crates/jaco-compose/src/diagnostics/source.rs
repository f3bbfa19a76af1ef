//! The texts a load was made from, and positions inside them.
//!
//! A position is twelve bytes and knows nothing; this table turns it into a file name and a line
//! of text when a problem is shown. It never reads a file itself.

use std::sync::Arc;

/// Index of a text in [`Sources`]; texts are numbered in the order they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub(crate) u16);

impl Default for FileId {
    /// No text: what was implied rather than written.
    fn default() -> Self {
        Self(u16::MAX)
    }
}

/// A place in a source text. Ordered by file, line, column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos {
    /// The text.
    pub file: FileId,
    /// Line, counted from 1; 0 means "the file as a whole".
    pub line: u32,
    /// Column in characters, counted from 1.
    pub column: u32,
}

impl Pos {
    /// Whether it is the place of what nobody wrote, or of a text as a whole.
    pub(crate) fn is_nowhere(self) -> bool {
        self.line == 0
    }

    /// The beginning of `file`.
    #[must_use]
    pub fn start_of(file: FileId) -> Self {
        Self { file, line: 1, column: 1 }
    }
}

#[derive(Debug, Clone)]
struct Source {
    name: String,
    text: Arc<str>,
    shown: Shown,
}

/// What messages may show of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// The line that a message is about.
    Lines,
    /// Its name and the number of the line.
    Name,
}

/// Names and texts of everything that was read.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<Source>,
}

impl Sources {
    /// Adds a text under the name that messages show.
    ///
    /// More than 65,535 texts share the last number; the loader's own limit is far lower.
    pub fn add(&mut self, name: &str, text: Arc<str>) -> FileId {
        self.files.push(Source { name: name.to_owned(), text, shown: Shown::Lines });
        FileId(u16::try_from(self.files.len() - 1).unwrap_or(u16::MAX))
    }

    /// Gives `file` its text once it is known to be one.
    pub(crate) fn set_text(&mut self, file: FileId, text: Arc<str>) {
        if let Some(source) = self.files.get_mut(usize::from(file.0)) {
            source.text = text;
        }
    }

    /// Keeps the lines of `file` out of messages: it may be anything that its reader can open.
    pub(crate) fn hide_lines(&mut self, file: FileId) {
        if let Some(source) = self.files.get_mut(usize::from(file.0)) {
            source.shown = Shown::Name;
        }
    }

    /// How many texts there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// The name of `file`, or an empty string for a text that was never added.
    #[must_use]
    pub fn name(&self, file: FileId) -> &str {
        self.files.get(usize::from(file.0)).map_or("", |source| source.name.as_str())
    }

    /// The line at `pos`, without its line end, cut to what fits a terminal; empty where it is not to be shown.
    #[must_use]
    pub fn snippet(&self, pos: Pos) -> String {
        /// Longer lines are cut: they are usually data.
        const SNIPPET_CHARS: usize = 160;
        let Some(source) = self.files.get(usize::from(pos.file.0)) else {
            return String::new();
        };
        if source.shown == Shown::Name {
            return String::new();
        }
        let Some(index) = (pos.line as usize).checked_sub(1) else {
            return String::new();
        };
        let line = source.text.split('\n').nth(index).unwrap_or("");
        line.trim_end_matches('\r').chars().take(SNIPPET_CHARS).collect()
    }
}

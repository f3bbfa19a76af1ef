//! Indentation that other YAML readers accept and the strict one does not: a closing bracket at the
//! column of its key, and the later lines of a quoted text further left than its key.
//!
//! Blanks at the start of such lines mean nothing, so the lines are moved right and read again.
//! Only lines that the parser itself complained about are touched.

use std::collections::BTreeMap;

use saphyr_parser::ScanError;

/// Further right than any line of a file within the depth limit begins.
const PAD_COLUMNS: u32 = 256;

/// How many lines are moved before the file counts as broken.
const MAX_REPAIRS: usize = 200;

/// Most bytes that are copied and parsed again because of repairs; bounds the time.
const MAX_REPEATED_BYTES: usize = 16 << 20;

/// Lines that were moved right.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    lines: BTreeMap<u32, u32>,
    repeated: usize,
}

impl Repairs {
    /// How far `line` was moved.
    pub(crate) fn shift(&self, line: u32) -> u32 {
        self.lines.get(&line).copied().unwrap_or(0)
    }

    /// Looks whether `error` is about indentation only and plans the move; `false` if it is not.
    pub(crate) fn plan(&mut self, text: &str, error: &ScanError) -> bool {
        self.repeated += text.len() + error.marker().index();
        if self.lines.len() >= MAX_REPAIRS || self.repeated > MAX_REPEATED_BYTES {
            return false;
        }
        let line = u32::try_from(error.marker().line()).unwrap_or(u32::MAX);
        let column = error.marker().col() - (self.shift(line) as usize).min(error.marker().col());
        match error.info() {
            "invalid indentation" | "invalid indentation in flow construct" => {
                let written = text.split('\n').nth(line as usize - 1).unwrap_or("");
                let leads = written.chars().take(column).all(|c| c == ' ');
                leads && self.lines.insert(line, PAD_COLUMNS).is_none()
            }
            "invalid indentation in quoted scalar" => {
                let lines = quoted_lines(text, line, column);
                let before = self.lines.len();
                self.lines.extend((line + 1..line + lines).map(|line| (line, PAD_COLUMNS)));
                self.lines.len() > before
            }
            _ => false,
        }
    }

    /// The text with the planned lines moved.
    pub(crate) fn apply(&self, text: &str) -> String {
        let room = self.lines.len() * PAD_COLUMNS as usize;
        let mut moved = String::with_capacity(text.len() + room);
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
            moved.extend(std::iter::repeat_n(' ', self.shift(number) as usize));
            moved.push_str(line);
        }
        moved
    }
}

/// How many lines the quoted text that begins at a place goes over.
fn quoted_lines(text: &str, line: u32, column: usize) -> u32 {
    let rest: String =
        text.split_inclusive('\n').skip(line as usize - 1).take(MAX_REPAIRS).collect();
    let mut chars = rest.chars().skip(column);
    let Some(quote) = chars.next() else {
        return 1;
    };
    let mut lines = 1;
    let mut escaped = false;
    let mut chars = chars.peekable();
    while let Some(c) = chars.next() {
        if c == '\n' {
            lines += 1;
        }
        if escaped {
            escaped = false;
        } else if c == '\\' && quote == '"' {
            escaped = true;
        } else if c == quote {
            let doubled = quote == '\'' && chars.peek() == Some(&quote);
            if !doubled {
                break;
            }
            chars.next();
        }
    }
    lines
}

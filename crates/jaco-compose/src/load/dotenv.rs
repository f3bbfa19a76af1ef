//! Env files: `KEY=value` lines with comments, quotes and variables.
//!
//! Pure: a text and a lookup in, assignments out. Values are never part of an error.

use std::collections::BTreeMap;

use crate::load::expression;
use crate::load::interpolate::Env;

/// How the values of an env file are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Quotes, escapes, comments and variables mean what they mean in a shell.
    Compose,
    /// Everything after `=` is the value.
    Raw,
}

/// A line that is not an assignment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct EnvFileError {
    /// Line, counted from 1.
    pub line: u32,
    /// What is wrong, without the value.
    pub reason: String,
}

/// Reads an env file; `outer` wins over the file where its values mention variables, and gives
/// the value of a line that has a name only.
///
/// # Errors
///
/// The first line that is not an assignment.
pub fn parse(
    text: &str,
    format: Format,
    outer: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, EnvFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { text, at: 0, line: 1, outer, values: Env::new() };
    match format {
        Format::Compose => reader.compose()?,
        Format::Raw => reader.raw()?,
    }
    Ok(reader.values)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    outer: &'t Env,
    values: Env,
}

impl<'t> Reader<'t> {
    fn raw(&mut self) -> Result<(), EnvFileError> {
        for (index, line) in self.text.lines().enumerate() {
            self.line = u32::try_from(index + 1).unwrap_or(u32::MAX);
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once('=') {
                Some((key, value)) => {
                    self.check_key(key)?;
                    self.values.insert(key.to_owned(), value.to_owned());
                }
                None => self.inherit(line.trim_end()),
            }
        }
        Ok(())
    }

    fn compose(&mut self) -> Result<(), EnvFileError> {
        loop {
            self.skip_blank();
            let Some(rest) = self.rest() else {
                return Ok(());
            };
            if rest.starts_with('#') {
                self.take_line();
                continue;
            }
            self.assignment()?;
        }
    }

    fn rest(&self) -> Option<&'t str> {
        self.text.get(self.at..).filter(|rest| !rest.is_empty())
    }

    fn advance(&mut self, bytes: usize) -> &'t str {
        let taken = &self.text[self.at..self.at + bytes];
        let lines = taken.bytes().filter(|byte| *byte == b'\n').count();
        self.line += u32::try_from(lines).unwrap_or(0);
        self.at += bytes;
        taken
    }

    fn skip_blank(&mut self) {
        let rest = &self.text[self.at..];
        let blank = rest.len() - rest.trim_start().len();
        self.advance(blank);
    }

    /// Takes the rest of the line, without its end.
    fn take_line(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.find('\n').unwrap_or(rest.len());
        self.advance(end).trim_end_matches('\r')
    }

    fn assignment(&mut self) -> Result<(), EnvFileError> {
        let rest = &self.text[self.at..];
        if let Some(after) = rest.strip_prefix("export")
            && after.starts_with([' ', '\t'])
        {
            self.advance("export".len());
            self.skip_spaces();
        }
        let rest = &self.text[self.at..];
        let end = rest.find(['=', ':', '\n']).unwrap_or(rest.len());
        let key = self.advance(end).trim_end();
        self.check_key(key)?;
        match self.text[self.at..].chars().next() {
            Some('=' | ':') => {
                self.advance(1);
                self.skip_spaces();
                let value = self.value()?;
                // Names that begin with a digit can never be variables of a shell.
                if !key.starts_with(|c: char| c.is_ascii_digit()) {
                    self.values.insert(key.to_owned(), value);
                }
            }
            Some(_) | None => self.inherit(key),
        }
        Ok(())
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        let spaces = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
        self.advance(spaces);
    }

    fn inherit(&mut self, key: &str) {
        if let Some(value) = self.outer.get(key) {
            self.values.insert(key.to_owned(), value.clone());
        }
    }

    fn check_key(&self, key: &str) -> Result<(), EnvFileError> {
        let fine = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '[' | ']');
        if key.is_empty() {
            return Err(self.error("the variable name before `=` is missing"));
        }
        match key.chars().find(|c| !fine(*c)) {
            None => Ok(()),
            Some(c) if c.is_whitespace() => {
                Err(self.error("a variable name cannot contain a space"))
            }
            Some(c) => Err(self.error(&format!("a variable name cannot contain `{c}`"))),
        }
    }

    fn error(&self, reason: &str) -> EnvFileError {
        EnvFileError { line: self.line, reason: reason.to_owned() }
    }

    fn value(&mut self) -> Result<String, EnvFileError> {
        match self.text[self.at..].chars().next() {
            Some(quote @ ('"' | '\'')) => self.quoted(quote),
            Some(_) | None => {
                let line = self.take_line();
                let value = match comment_start(line) {
                    Some(at) => &line[..at],
                    None => line,
                };
                self.expand(value.trim_end())
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, EnvFileError> {
        let started = self.line;
        let body = &self.text[self.at + 1..];
        let mut escaped = false;
        for (at, c) in body.char_indices() {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == quote {
                let inner = &body[..at];
                self.advance(at + 2);
                if quote == '\'' {
                    return Ok(inner.to_owned());
                }
                return self.expand(&unescape(inner));
            }
        }
        let reason = "the quote is never closed".to_owned();
        Err(EnvFileError { line: started, reason })
    }

    fn expand(&self, value: &str) -> Result<String, EnvFileError> {
        if !value.contains('$') {
            return Ok(value.to_owned());
        }
        let lookup =
            |name: &str| self.outer.get(name).or_else(|| self.values.get(name)).map(String::as_str);
        match expression::expand(value, &lookup) {
            Ok(expansion) => Ok(expansion.text),
            Err(_) => Err(self
                .error("the value contains a `$` that does not start a valid variable expression")),
        }
    }
}

/// A comment begins with ` #` behind an unquoted value.
fn comment_start(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    (0..bytes.len()).find(|at| {
        bytes[*at] == b'#' && (*at == 0 || bytes[*at - 1] == b' ' || bytes[*at - 1] == b'\t')
    })
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            // A dollar stays one: the next step would take it for a variable.
            Some('$') => out.push_str("$$"),
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        let outer = Env::from([("OUTER".to_owned(), "o".to_owned())]);
        match parse(text, Format::Compose, &outer) {
            Ok(values) => {
                values.iter().map(|(k, v)| format!("{k}={v:?}")).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    /// R-IN-2
    #[test]
    fn env_files_are_read_as_compose_reads_them() {
        let cases = [
            ("A=1\nB = two words \n", r#"A="1" B="two words""#),
            ("# c\n\nexport A=1 # end\n", r#"A="1""#),
            ("A=a#b", r##"A="a#b""##),
            ("A='$X #'", r#"A="$X #""#),
            ("A=\"x\\ny\" \nB=2", r#"A="x\ny" B="2""#),
            ("A=\"two\nlines\"", r#"A="two\nlines""#),
            ("A=1\nB=$A-${OUTER}", r#"A="1" B="1-o""#),
            ("OUTER\nMISSING\n", r#"OUTER="o""#),
            ("A=\r\nB=1\r\n", r#"A="" B="1""#),
            ("\u{feff}A=1", r#"A="1""#),
            ("A: 1", r#"A="1""#),
            ("A B=1", "line 1: a variable name cannot contain a space"),
            ("\nA=\"x", "line 2: the quote is never closed"),
            ("=1", "line 1: the variable name before `=` is missing"),
        ];
        for (text, expected) in cases {
            assert_eq!(show(text), expected, "{text:?}");
        }
    }

    #[test]
    fn raw_values_are_left_alone() {
        let values = parse("A=\"$X\" # y\n", Format::Raw, &Env::new()).unwrap();
        assert_eq!(values["A"], "\"$X\" # y");
    }
}

//! One source file as text without comments and string contents, and the parts of it that are tests.

use std::ops::Range;

/// A source file prepared for measuring.
#[derive(Debug)]
pub(super) struct Source {
    /// As long as the file, with the same lines: comments are blank, contents of strings are `s`.
    pub(super) code: String,
    /// Byte ranges of items under `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
    /// Names of `#[cfg(test)] mod NAME;`.
    pub(super) test_modules: Vec<String>,
}

impl Source {
    pub(super) fn parse(text: &str) -> Self {
        let code = mask(text);
        let (tests, test_modules) = test_items(&code);
        Self { code, tests, test_modules }
    }

    /// Whether the byte at `at` belongs to a test.
    pub(super) fn is_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }

    /// The code with everything under `#[cfg(test)]` blanked.
    pub(super) fn product(&self) -> String {
        let keep = |(at, c): (usize, char)| if c != '\n' && self.is_test(at) { ' ' } else { c };
        self.code.char_indices().map(keep).collect()
    }

    /// Lines that hold code: outside of tests, and in tests.
    pub(super) fn code_lines(&self) -> (usize, usize) {
        let (mut product, mut tests, mut at) = (0, 0, 0);
        for line in self.code.split_inclusive('\n') {
            if !line.trim().is_empty() {
                match self.is_test(at) {
                    true => tests += 1,
                    false => product += 1,
                }
            }
            at += line.len();
        }
        (product, tests)
    }

    /// All lines outside of tests.
    pub(super) fn lines(&self) -> usize {
        let mut at = 0;
        let outside = self.code.split_inclusive('\n').filter(|line| {
            at += line.len();
            !self.is_test(at - line.len())
        });
        outside.count()
    }
}

/// The end of the block that opens at `open`, just behind its closing brace.
pub(super) fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// The next `{` or `;` that is in no parentheses, brackets or array type.
pub(super) fn item_body(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    code.bytes().enumerate().skip(from).find_map(|(at, byte)| {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            _ => {}
        }
        (depth == 0 && matches!(byte, b'{' | b';')).then_some(at)
    })
}

fn test_items(code: &str) -> (Vec<Range<usize>>, Vec<String>) {
    if code.contains("#![cfg(test)]") {
        return (std::iter::once(0..code.len()).collect(), Vec::new());
    }
    let (mut ranges, mut modules) = (Vec::new(), Vec::new());
    for (start, mark) in code.match_indices("#[cfg(test)]") {
        let Some(body) = item_body(code, start + mark.len()) else { continue };
        let end = match code.as_bytes()[body] {
            b'{' => block_end(code, body),
            _ => {
                let item = code[start + mark.len()..body].trim();
                modules.extend(item.rsplit_once("mod ").map(|(_, name)| name.trim().to_owned()));
                body + 1
            }
        };
        // The whole line of the attribute belongs to the item.
        let line_start = code[..start].rfind('\n').map_or(0, |at| at + 1);
        ranges.push(line_start..end);
    }
    (ranges, modules)
}

/// Blanks comments and fills strings, so that braces and words in them are not seen.
fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (length, fill) = token(bytes, at);
        for &byte in &bytes[at..at + length] {
            let ascii = if byte.is_ascii() { byte } else { b'_' };
            out.push(if byte == b'\n' { byte } else { fill.unwrap_or(ascii) });
        }
        at += length;
    }
    String::from_utf8(out).expect("only ASCII was pushed")
}

/// Length of what begins at `at`, and what it is filled with.
fn token(bytes: &[u8], at: usize) -> (usize, Option<u8>) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return (rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()), Some(b' '));
    }
    if rest.starts_with(b"/*") {
        return (block_comment(rest), Some(b' '));
    }
    let in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if !in_word && let Some(length) = raw_string(rest) {
        return (length, Some(b's'));
    }
    match rest[0] {
        b'"' => (quoted(rest, b'"'), Some(b's')),
        b'\'' if is_char(rest) => (quoted(rest, b'\''), Some(b's')),
        _ => (1, None),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let prefix = [b"br".as_slice(), b"cr", b"r"].into_iter().find(|p| rest.starts_with(p))?.len();
    let hashes = rest[prefix..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let body = prefix + hashes + 1;
    let found = rest[body..].windows(end.len()).position(|window| window == end);
    Some(found.map_or(rest.len(), |at| body + at + end.len()))
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// A character, where a lifetime has no closing quote.
fn is_char(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(byte) if byte.is_ascii() => rest.get(2) == Some(&b'\''),
        Some(_) => rest.iter().take(6).skip(2).any(|&byte| byte == b'\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_masked_and_lines_kept() {
        let text = "let a = \"{ // \\\" \"; // {\nlet b = r#\"}\"#; let c: &'a str = '{';/* { */\n";
        let masked = mask(text);
        assert_eq!(masked.len(), text.len());
        assert!(!masked.contains(['{', '}']), "{masked}");
        assert!(masked.contains("&'a str") && masked.contains("let b"), "{masked}");
    }

    #[test]
    fn test_items_are_told_from_the_product() {
        let text = "fn a() {}\n#[cfg(test)]\nimpl X for [u8; 2] {\n}\n\n#[cfg(test)]\nmod big;\nfn b() {}\n\
                    #[cfg(test)]\nmod tests {\n    // why\n    fn c() {}\n}\n";
        let source = Source::parse(text);
        assert_eq!(source.code_lines(), (2, 9));
        assert_eq!(source.test_modules, ["big"]);
        assert!(!source.product().contains("fn c"));
    }
}

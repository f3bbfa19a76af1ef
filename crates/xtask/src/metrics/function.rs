//! Functions and public items of one file.

use super::source::{Source, block_end, item_body};

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Line where it begins, from 1.
    pub(super) line: usize,
    /// Lines from the signature to the closing brace.
    pub(super) length: usize,
}

/// All functions outside of tests that have a body.
pub(super) fn functions(source: &Source) -> Vec<Function> {
    let code = &source.code;
    let starts = code.match_indices("fn ").filter(|(at, _)| {
        !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_') && !source.is_test(*at)
    });
    starts.filter_map(|(at, _)| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let rest = code[at + 3..].trim_start();
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let body = item_body(code, at).filter(|&body| code.as_bytes()[body] == b'{')?;
    let lines = |range: &str| range.bytes().filter(|&byte| byte == b'\n').count();
    let length = lines(&code[at..block_end(code, body)]) + 1;
    (!name.is_empty()).then(|| Function { name, line: lines(&code[..at]) + 1, length })
}

/// Public items of a file outside of tests: documented ones, and all.
pub(super) fn documented(text: &str, source: &Source) -> (usize, usize) {
    let (mut documented, mut all, mut has_doc, mut at) = (0, 0, false, 0);
    for (line, raw) in source.code.split_inclusive('\n').zip(text.split_inclusive('\n')) {
        let (code, raw) = (line.trim(), raw.trim());
        if is_public_item(code) && !source.is_test(at) {
            all += 1;
            documented += usize::from(has_doc);
        }
        let is_attribute = code.starts_with("#[") || (has_doc && code.ends_with(")]"));
        has_doc = raw.starts_with("///") || raw.starts_with("#[doc") || (has_doc && is_attribute);
        at += line.len();
    }
    (documented, all)
}

fn is_public_item(line: &str) -> bool {
    const KINDS: [&str; 10] = [
        "fn ", "async ", "struct ", "enum ", "trait ", "const ", "type ", "static ", "unsafe ",
        "union ",
    ];
    line.strip_prefix("pub ").is_some_and(|rest| KINDS.iter().any(|kind| rest.starts_with(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_lengths_and_declarations_have_none() {
        let source =
            Source::parse("trait A {\n    fn a(&self);\n    fn b(&self) {\n        {}\n    }\n}\n");
        let expected = Function { name: "b".to_owned(), line: 3, length: 3 };
        assert_eq!(functions(&source), [expected]);
    }

    #[test]
    fn a_public_item_without_a_comment_is_counted() {
        let text = "/// A.\n#[derive(Debug)]\npub struct A;\npub fn b() {}\npub(crate) fn c() {}\n";
        assert_eq!(documented(text, &Source::parse(text)), (1, 2));
    }
}

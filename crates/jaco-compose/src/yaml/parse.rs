//! Text to tree: the documents of a YAML stream as nodes with positions.
//!
//! Reads no file and knows no compose key.

use saphyr_parser::Parser;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::{FileId, Pos};
use crate::yaml::builder::{Builder, Stop, clamp, position};
use crate::yaml::node::Node;
use crate::yaml::repair::Repairs;

/// Longest text that is parsed, in bytes. The longest compose file of 2,116 public ones has 2,132
/// lines; a megabyte holds about 5,000 services.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Checks that `bytes` are text of a bearable size, without a byte order mark.
pub(crate) fn decode<'t>(bytes: &'t [u8], file: FileId, report: &mut Report) -> Option<&'t str> {
    if bytes.len() > MAX_FILE_BYTES {
        let size = bytes.len();
        report
            .error(whole(file), Code::TooLarge, format!("the file has {size} bytes"))
            .expected(format!("at most {MAX_FILE_BYTES} bytes"));
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let pos = position_of(bytes, error.valid_up_to(), file);
            report
                .error(pos, Code::NotText, "the file is not valid UTF-8")
                .expected("a text file in UTF-8");
            return None;
        }
    };
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let pos = position_of(bytes, at, file);
        report.error(pos, Code::NotText, "the file contains a NUL byte").expected("a text file");
        return None;
    }
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads every document of `text`; empty ones are left out.
pub(crate) fn parse(text: &str, file: FileId, report: &mut Report) -> Option<Vec<Node>> {
    let mut repairs = Repairs::default();
    let mut moved = None;
    loop {
        let mut findings = Report::default();
        let text_now = moved.as_deref().unwrap_or(text);
        let mut builder = Builder::new(file, &mut findings, &repairs);
        let end = builder.run(&mut Parser::new_from_str(text_now));
        let documents = builder.documents;
        match end {
            Ok(()) => {
                report.absorb(findings);
                return Some(documents);
            }
            Err(Stop::Reported) => {
                report.absorb(findings);
                return None;
            }
            Err(Stop::Syntax(error)) => {
                if repairs.plan(text, &error) {
                    moved = Some(repairs.apply(text));
                    continue;
                }
                report.absorb(findings);
                let pos = position(file, &repairs, *error.marker());
                report.error(pos, Code::YamlSyntax, describe_syntax(error.info()));
                return None;
            }
        }
    }
}

fn whole(file: FileId) -> Pos {
    Pos { file, line: 0, column: 0 }
}

fn position_of(bytes: &[u8], at: usize, file: FileId) -> Pos {
    let before = &bytes[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    Pos { file, line: clamp(line), column: clamp(column) }
}

/// Adds an explanation to messages of the parser that need one.
fn describe_syntax(info: &str) -> String {
    if info.contains("tab") && !info.contains("table") {
        return format!("{info} (YAML must be indented with spaces)");
    }
    info.to_owned()
}

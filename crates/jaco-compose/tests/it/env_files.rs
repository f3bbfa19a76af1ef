//! Env files that were written by the rules of quoting read as what was written. R-IN-2, R-IN-3.

use std::collections::BTreeMap;

use jaco_compose::dotenv::{Format, parse};
use proptest::prelude::*;

/// How a value is written.
#[derive(Debug, Clone, Copy)]
enum Quoting {
    Bare,
    Single,
    Double,
}

/// One assignment and how it stands in the file.
#[derive(Debug, Clone)]
struct Line {
    key: String,
    value: String,
    quoting: Quoting,
    export: &'static str,
    separator: &'static str,
    end: &'static str,
}

/// Whether a value can be written without quotes.
fn is_bare(value: &str) -> bool {
    let has_comment = value.starts_with('#') || value.contains(" #") || value.contains("\t#");
    let has_quote = value.starts_with(['"', '\'']);
    value == value.trim() && !value.contains(['\n', '\r']) && !has_comment && !has_quote
}

/// Whether a value can stand in single quotes, which have no escapes.
fn is_single(value: &str) -> bool {
    !value.contains('\'') && !value.ends_with('\\')
}

impl Line {
    fn write(&self) -> String {
        let Self { key, value, export, separator, end, .. } = self;
        let value = match self.quoting {
            Quoting::Bare if is_bare(value) => value.replace('$', "$$"),
            Quoting::Single if is_single(value) => format!("'{value}'"),
            Quoting::Bare | Quoting::Single | Quoting::Double => {
                let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
                format!("\"{}\"", escaped.replace('\t', "\\t").replace('\r', "\\r"))
            }
        };
        format!("{export}{key}{separator}{value}{end}")
    }
}

fn line() -> impl Strategy<Value = Line> {
    let value = prop_oneof![
        2 => "[a-z$#'\"\\\\ \t=:{}]{0,8}",
        1 => "[a-z$ \n\r\\\\]{0,8}",
        1 => "\\PC{0,8}",
    ];
    let quoting = prop_oneof![Just(Quoting::Bare), Just(Quoting::Single), Just(Quoting::Double)];
    let export = prop::sample::select(vec!["", "export ", "  ", "\texport\t"]);
    let separator = prop::sample::select(vec!["=", " = ", ": ", "=\t"]);
    let end = prop::sample::select(vec!["\n", "\r\n", " # said\n", "\n\n# 'said\n", "\n \t\n"]);
    ("[A-Z_][A-Z0-9_.-]{0,5}", value, quoting, export, separator, end).prop_map(
        |(key, value, quoting, export, separator, end)| Line {
            key,
            value,
            quoting,
            export,
            separator,
            end,
        },
    )
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    prop::collection::vec(line(), 0..6)
}

fn assignments(lines: &[Line]) -> BTreeMap<String, String> {
    lines.iter().map(|line| (line.key.clone(), line.value.clone())).collect()
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(Line::write).collect()
}

proptest! {
    /// R-IN-2: any value survives each of the quotings that can hold it, beside comments, blank lines, `export`
    /// and line ends of both kinds; the last of equal names stays.
    #[test]
    fn written_values_are_read(lines in lines()) {
        let read = parse(&text(&lines), Format::Compose, &BTreeMap::new());
        prop_assert_eq!(read, Ok(assignments(&lines)), "{}", text(&lines));
    }

    /// R-IN-2: a file in two parts is the file, where the second sees the variables of the first.
    #[test]
    fn a_file_may_be_cut_between_lines(lines in lines(), at in 0..6usize) {
        let (first, second) = lines.split_at(at.min(lines.len()));
        let before = parse(&text(first), Format::Compose, &BTreeMap::new()).expect("it is well written");
        let after = parse(&text(second), Format::Compose, &before).expect("it is well written");
        let mut both = before;
        both.extend(after);
        prop_assert_eq!(both, assignments(&lines));
    }

    /// R-IN-2: a value that names a variable has that of the caller, else of the line before, else nothing.
    #[test]
    fn variables_have_the_nearest_value(
        own in prop::option::of("[a-z]{1,4}"),
        callers in prop::option::of("[a-z]{1,4}"),
        quote in prop::sample::select(vec!["", "\""]),
        form in prop::sample::select(vec!["$X", "${X}", "${X:-d}", "${X-d}"]),
    ) {
        let line = own.as_ref().map(|own| format!("X={own}\n")).unwrap_or_default();
        let outer: BTreeMap<_, _> = callers.iter().map(|value| ("X".to_owned(), value.clone())).collect();
        let read = parse(&format!("{line}Y={quote}{form}{quote}\n"), Format::Compose, &outer);
        let default = if form.contains('d') { "d" } else { "" };
        let expected = callers.or(own).unwrap_or_else(|| default.to_owned());
        prop_assert_eq!(&read.expect("it is well written")["Y"], &expected);
    }

    /// R-IN-3: an error names the line on which it is, behind values of several lines too, and no value.
    #[test]
    fn errors_name_their_line(lines in lines(), what in 0..4usize) {
        const BROKEN: [(&str, &str); 4] = [
            ("NO NAME=s3cret", "a variable name cannot contain a space"),
            ("=s3cret", "the variable name before `=` is missing"),
            ("A!=s3cret", "a variable name cannot contain `!`"),
            ("A='s3cret", "the quote is never closed"),
        ];
        let before = text(&lines);
        let (broken, reason) = BROKEN[what];
        let error = parse(&format!("{before}{broken}\n"), Format::Compose, &BTreeMap::new()).unwrap_err();
        let line = before.matches('\n').count() + 1;
        prop_assert_eq!(error.to_string(), format!("line {line}: {reason}"));
    }

    /// R-IN-2: in the raw format everything behind the first `=` is the value.
    #[test]
    fn raw_values_are_what_is_written(values in prop::collection::vec("[^\n\r]{0,8}", 0..5)) {
        let text: String = values.iter().enumerate().map(|(at, value)| format!("K{at}={value}\n")).collect();
        let expected = values.into_iter().enumerate().map(|(at, value)| (format!("K{at}"), value));
        prop_assert_eq!(parse(&text, Format::Raw, &BTreeMap::new()), Ok(expected.collect()));
    }

    /// R-IN-3: any text has an answer, in both formats.
    #[test]
    fn any_text_has_an_answer(text in "[A-B=:#'\"\\\\$ {}\n\r\t]{0,40}") {
        for format in [Format::Compose, Format::Raw] {
            let lines = u32::try_from(text.matches('\n').count() + 1).expect("it is short");
            match parse(&text, format, &BTreeMap::new()) {
                Ok(values) => prop_assert!(values.keys().all(|key| !key.is_empty())),
                Err(error) => prop_assert!((1..=lines).contains(&error.line)),
            }
        }
    }
}

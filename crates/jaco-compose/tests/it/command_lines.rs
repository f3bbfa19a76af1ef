//! Command lines that were quoted by the rules are the words that were meant. R-IN-2, R-IN-3.

use jaco_compose::Code;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::util::load_text;

/// How a word is written.
#[derive(Debug, Clone, Copy)]
enum Quoting {
    Bare,
    Single,
    Double,
    Backslash,
}

/// A word in one of the ways that can hold it.
fn write(word: &str, quoting: Quoting) -> String {
    let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match quoting {
        Quoting::Bare if plain => word.to_owned(),
        Quoting::Single if !word.contains('\'') => format!("'{word}'"),
        Quoting::Backslash if !word.is_empty() => {
            word.chars().flat_map(|letter| ['\\', letter]).collect()
        }
        Quoting::Bare | Quoting::Single | Quoting::Double | Quoting::Backslash => {
            format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
        }
    }
}

fn quoting() -> impl Strategy<Value = Quoting> {
    let all = [Quoting::Bare, Quoting::Single, Quoting::Double, Quoting::Backslash];
    prop::sample::select(all.to_vec())
}

/// The words of a command as the model holds them, and what was said about it.
fn words(line: &str) -> Result<(Json, Vec<String>), Code> {
    // A dollar is doubled: it is no variable.
    let text = json!({"services": {"web": {"image": "i", "command": line.replace('$', "$$")}}});
    let loaded = load_text(&text.to_string()).map_err(|problems| problems.list[0].code)?;
    let warnings = loaded.warnings.list.iter().map(|warning| warning.message.clone()).collect();
    Ok((loaded.project.model()["services"]["web"]["command"].clone(), warnings))
}

proptest! {
    /// Any word survives each of the quotings that can hold it, with any blanks between the words.
    #[test]
    fn quoted_words_are_read(
        parts in prop::collection::vec(("[a-z0-9 \t$'\"\\\\;&|<>(){}#*~=-]{0,6}", quoting(), "[ \t\n]{1,2}"), 1..5),
    ) {
        let line: String = parts.iter().map(|(word, quoting, blank)| write(word, *quoting) + blank).collect();
        let expected: Vec<&String> = parts.iter().map(|(word, ..)| word).collect();
        let (found, warnings) = words(&line).unwrap_or_else(|code| panic!("{code:?}: {line}"));
        prop_assert_eq!(found, json!(expected), "{}", line);
        prop_assert!(warnings.is_empty(), "{:?}", warnings);
    }

    /// A shell operator ends the line, and a warning says from where on; a number in front of `>` belongs to it.
    #[test]
    fn operators_end_a_line(
        before in prop::collection::vec("[a-z]{1,4}", 1..4),
        operator in prop::sample::select(vec![";", "&&", "||", "|", "<", ">", ">>", "2>", "&"]),
        after in "[a-z ]{0,6}",
    ) {
        let line = format!("{} {operator}{after}", before.join(" "));
        let (found, warnings) = words(&line).unwrap();
        prop_assert_eq!(found, json!(before));
        let rest = format!("{operator}{after}");
        let rest = rest.trim_start_matches('2');
        prop_assert_eq!(warnings, [format!("`services.web.command` is cut off at `{rest}`")]);
    }

    /// What is not closed is refused where it stands, whatever it is.
    #[test]
    fn open_quotes_are_refused(before in "[a-z ]{0,4}", open in prop::sample::select(vec!["'", "\"", "`", "$(", "("]), after in "[a-z ]{0,4}") {
        prop_assert_eq!(words(&format!("{before}{open}{after}")), Err(Code::InvalidValue));
        prop_assert_eq!(words(&format!("{before}{after}\\")), Err(Code::InvalidValue));
    }

    /// Any text has an answer.
    #[test]
    fn any_line_has_an_answer(line in "[a-b '\"\\\\$`();|>0-1]{0,20}") {
        if let Err(code) = words(&line) {
            prop_assert_eq!(code, Code::InvalidValue);
        }
    }
}

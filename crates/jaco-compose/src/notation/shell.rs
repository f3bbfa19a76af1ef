//! Splits a command line the way the Compose tools do, quirks included.
//!
//! Words are split at spaces; quotes and backslashes group. A shell operator ends the line, because
//! there is no shell: callers warn about the rest.

/// A command line taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// The words.
    pub(crate) words: Vec<String>,
    /// The rest from the first shell operator on.
    pub(crate) cut_off: Option<String>,
}

#[derive(Default)]
struct State {
    escaped: bool,
    double: bool,
    single: bool,
    back: bool,
    dollar: bool,
}

impl State {
    fn quoted(&self) -> bool {
        self.single || self.double || self.back || self.dollar
    }
}

/// Splits `line`; `None` if a quote or a parenthesis is not closed.
pub(crate) fn split(line: &str) -> Option<Words> {
    let mut state = State::default();
    let mut words = Vec::new();
    let mut word = String::new();
    let mut in_word = false;
    let mut cut_off = None;
    for (at, c) in line.char_indices() {
        if state.escaped {
            word.push(c);
            state.escaped = false;
            in_word = true;
            continue;
        }
        match c {
            '\\' if !state.single => {
                state.escaped = true;
                continue;
            }
            ' ' | '\t' | '\r' | '\n' => {
                if state.quoted() {
                    word.push(c);
                } else if in_word {
                    words.push(std::mem::take(&mut word));
                    in_word = false;
                }
                continue;
            }
            '`' if !state.single && !state.double && !state.dollar => state.back = !state.back,
            ')' if !state.single && !state.double && !state.back => state.dollar = !state.dollar,
            '(' if !state.single && !state.double && !state.back => {
                if state.dollar || !word.ends_with('$') {
                    return None;
                }
                state.dollar = true;
                word.push(c);
                continue;
            }
            '"' if !state.single && !state.dollar => {
                in_word |= state.double;
                state.double = !state.double;
                continue;
            }
            '\'' if !state.double && !state.dollar => {
                in_word |= state.single;
                state.single = !state.single;
                continue;
            }
            ';' | '&' | '|' | '<' | '>' if !state.quoted() => {
                let descriptor = c == '>' && word.starts_with(|c: char| c.is_ascii_digit());
                in_word &= !descriptor;
                cut_off = Some(line[at..].to_owned());
                break;
            }
            _ => {}
        }
        in_word = true;
        word.push(c);
    }
    if in_word {
        words.push(word);
    }
    (!state.escaped && !state.quoted()).then_some(Words { words, cut_off })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_as_compose_splits_them() {
        let cases: &[(&str, &[&str])] = &[
            ("a b  c", &["a", "b", "c"]),
            ("sh -c \"echo 'a b'\"", &["sh", "-c", "echo 'a b'"]),
            ("'' \"\"", &["", ""]),
            ("a\\ b", &["a b"]),
            ("'a\\b'", &["a\\b"]),
            ("echo $(x y)", &["echo", "$(x y)"]),
            ("a && b", &["a"]),
            ("a 2> b", &["a"]),
            ("--x='y z'", &["--x=y z"]),
        ];
        for (line, expected) in cases {
            assert_eq!(split(line).expect(line).words, *expected, "{line}");
        }
        for line in ["'a", "\"a", "a\\", "a (b)", "`a"] {
            assert_eq!(split(line), None, "{line}");
        }
        assert_eq!(split("a && b").unwrap().cut_off.as_deref(), Some("&& b"));
    }
}

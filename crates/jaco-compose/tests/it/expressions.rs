//! Variable expressions of any nesting, against an evaluator of the specification's table. R-IN-2, R-IN-3.

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::{Code, EnvFiles, Input, load};
use proptest::prelude::*;

use crate::util::{folder, problems_of};

/// Variables of each kind: with a value, with an empty one, with one that looks like an expression.
const SET: [(&str, &str); 3] = [("SET", "v"), ("EMPTY", ""), ("RAW", "$SET ${UNSET}")];
const NAMES: [&str; 4] = ["SET", "EMPTY", "RAW", "UNSET"];

/// A part of a text.
#[derive(Debug, Clone)]
enum Part {
    Text(String),
    /// `$$`
    Dollar,
    /// `$NAME`
    Bare(&'static str),
    /// `${NAME}`
    Braced(&'static str),
    /// `${NAME-word}` and the like.
    Operator(Operator, Empty, &'static str, Vec<Self>),
}

#[derive(Debug, Clone, Copy)]
enum Operator {
    Default,
    Alternate,
    Required,
}

/// Whether an empty value counts as one.
#[derive(Debug, Clone, Copy)]
enum Empty {
    IsUnset,
    IsSet,
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let name = || prop::sample::select(NAMES.to_vec());
    let leaf = prop_oneof![
        // What follows `$NAME` must not go on with the name.
        3 => "[ :./-][a-z0-9 :?+-]{0,4}".prop_map(Part::Text),
        1 => Just(Part::Dollar),
        2 => name().prop_map(Part::Bare),
        2 => name().prop_map(Part::Braced),
    ];
    let part = leaf.prop_recursive(3, 12, 3, move |inner| {
        let operator = prop_oneof![
            3 => Just(Operator::Default),
            3 => Just(Operator::Alternate),
            1 => Just(Operator::Required)
        ];
        let empty = prop_oneof![Just(Empty::IsUnset), Just(Empty::IsSet)];
        (operator, empty, name(), prop::collection::vec(inner, 0..3))
            .prop_map(|(operator, empty, name, word)| Part::Operator(operator, empty, name, word))
    });
    prop::collection::vec(part, 0..5)
}

fn write(parts: &[Part]) -> String {
    let one = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Dollar => "$$".to_owned(),
        Part::Bare(name) => format!("${name}"),
        Part::Braced(name) => format!("${{{name}}}"),
        Part::Operator(operator, empty, name, word) => {
            let colon = if matches!(empty, Empty::IsUnset) { ":" } else { "" };
            let sign = match operator {
                Operator::Default => '-',
                Operator::Alternate => '+',
                Operator::Required => '?',
            };
            format!("${{{name}{colon}{sign}{}}}", write(word))
        }
    };
    parts.iter().map(one).collect()
}

/// What a text means: its value and the unset variables it reads; or the required variable that is missing.
#[derive(Default)]
struct Meaning {
    unset: BTreeSet<&'static str>,
}

impl Meaning {
    fn of(&mut self, parts: &[Part]) -> Result<String, (&'static str, String)> {
        parts.iter().map(|part| self.of_part(part)).collect()
    }

    fn of_part(&mut self, part: &Part) -> Result<String, (&'static str, String)> {
        let value = |name: &str| {
            SET.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
        };
        match part {
            Part::Text(text) => Ok(text.clone()),
            Part::Dollar => Ok("$".to_owned()),
            Part::Bare(name) | Part::Braced(name) => Ok(value(name).unwrap_or_else(|| {
                self.unset.insert(name);
                String::new()
            })),
            Part::Operator(operator, empty, name, word) => {
                let counts = |value: &String| matches!(empty, Empty::IsSet) || !value.is_empty();
                match (operator, value(name).filter(counts)) {
                    (Operator::Default | Operator::Required, Some(value)) => Ok(value),
                    (Operator::Default, None) | (Operator::Alternate, Some(_)) => self.of(word),
                    (Operator::Alternate, None) => Ok(String::new()),
                    (Operator::Required, None) => Err((*name, self.of(word)?)),
                }
            }
        }
    }
}

fn input() -> Input {
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Input {
        env: SET.into_iter().map(pair).collect::<BTreeMap<_, _>>(),
        env_files: EnvFiles::Nothing,
        ..Input::file("/p/compose.yaml")
    }
}

proptest! {
    /// R-IN-2, R-IN-3: an expression has the value that the specification's table gives it: words are read only
    /// where they are used, values are never read again, unset variables are named once, and a missing required
    /// one is an error at the value with its message.
    #[test]
    fn expressions_have_their_value(parts in parts()) {
        let quoted = serde_json::to_string(&write(&parts)).expect("a string is JSON");
        let text = format!("services:\n  web:\n    image: i\n    environment:\n      V: {quoted}\n");
        let loaded = load(&input(), &folder(&[("/p/compose.yaml", &text)]));
        let mut meaning = Meaning::default();
        match (meaning.of(&parts), loaded) {
            (Ok(expected), Ok(loaded)) => {
                let model = loaded.project.model();
                let value = model["services"]["web"]["environment"]["V"].as_str();
                prop_assert_eq!(value, Some(expected.as_str()));
                let expected: Vec<_> = meaning.unset.iter().map(|name| format!("the variable `{name}` is not set")).collect();
                let mut named: Vec<_> = loaded.warnings.list.iter().map(|one| one.message.clone()).collect();
                named.sort();
                prop_assert_eq!(named, expected);
            }
            (Err((name, message)), Err(problems)) => {
                let reason = if message.is_empty() { String::new() } else { format!(": {message}") };
                let expected = format!("the required variable `{name}` has no value{reason}");
                let told: Vec<_> = problems.errors().map(|one| (one.code, one.line, one.column, one.message.as_str())).collect();
                prop_assert_eq!(told, [(Code::MissingVariable, 5, 10, expected.as_str())]);
            }
            (Ok(_), Err(problems)) => prop_assert!(false, "{}", problems_of(&problems)),
            (Err((name, _)), Ok(_)) => prop_assert!(false, "{name} is required"),
        }
    }

    /// R-IN-3: whatever stands behind a dollar is read or refused where it stands, and nothing else is said.
    #[test]
    fn any_text_behind_a_dollar_has_an_answer(tail in "[${}:?+A-Z_0-9 -]{0,24}") {
        let quoted = serde_json::to_string(&format!("${tail}")).expect("a string is JSON");
        let text = format!("services:\n  web:\n    image: i\n    environment:\n      V: {quoted}\n");
        if let Err(problems) = load(&input(), &folder(&[("/p/compose.yaml", &text)])) {
            for one in problems.errors() {
                prop_assert!(matches!(one.code, Code::InvalidInterpolation | Code::MissingVariable), "{}", one.message);
                prop_assert_eq!((one.line, one.column), (5, 10));
            }
        }
    }
}

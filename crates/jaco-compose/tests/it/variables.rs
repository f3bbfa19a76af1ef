//! Env files line by line, and the forms of variables in files. R-IN-2, R-IN-3.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use jaco_compose::dotenv::{Format, parse};
use jaco_compose::{EnvFiles, Input, load};

use crate::util::{folder, problems_of};

fn outer() -> BTreeMap<String, String> {
    BTreeMap::from([("OUTER".to_owned(), "o".to_owned()), ("EMPTY".to_owned(), String::new())])
}

fn show(text: &str, format: Format) -> String {
    match parse(text, format, &outer()) {
        Ok(values) => {
            let lines = values.iter().map(|(key, value)| format!("{key}={value:?}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.to_string(),
    }
}

/// Reads an env file with quotes and variables.
fn env_file(text: &str, expected: Expect) {
    expected.assert_eq(&show(text, Format::Compose));
}

/// Reads an env file literally.
fn raw(text: &str, expected: Expect) {
    expected.assert_eq(&show(text, Format::Raw));
}

/// Loads a service whose `user` is `value` and shows the value, or the problems.
fn variable(value: &str, expected: Expect) {
    let value = serde_json::to_string(value).expect("a string is JSON");
    let text = format!("services:\n  web:\n    image: i\n    user: {value}\n");
    let input = Input {
        env: BTreeMap::from([
            ("A".to_owned(), "a".to_owned()),
            ("EMPTY".to_owned(), String::new()),
            ("DOLLAR".to_owned(), "$A".to_owned()),
        ]),
        env_files: EnvFiles::Nothing,
        ..Input::file("/p/compose.yaml")
    };
    expected.assert_eq(&match load(&input, &folder(&[("/p/compose.yaml", &text)])) {
        Ok(loaded) => {
            let user = &loaded.project.model()["services"]["web"]["user"];
            format!("{}\n{}", user.as_str().unwrap_or_default(), problems_of(&loaded.warnings))
                .trim_end()
                .to_owned()
        }
        Err(problems) => problems_of(&problems),
    });
}

/// R-IN-2: assignments, comments, quotes and inherited names.
#[test]
fn env_file_lines() {
    env_file("A=1", expect![[r#"A="1""#]]);
    env_file("A = 1", expect![[r#"A="1""#]]);
    env_file("A: 1", expect![[r#"A="1""#]]);
    env_file("export A=1", expect![[r#"A="1""#]]);
    env_file("A=", expect![[r#"A="""#]]);
    env_file("A", expect![[""]]);
    env_file("OUTER", expect![[r#"OUTER="o""#]]);
    env_file("# comment\n\nA=1 # more", expect![[r#"A="1""#]]);
    env_file("A=1#2", expect![[r#"A="1#2""#]]);
    env_file("A='# no comment' # yes", expect![[r##"A="# no comment""##]]);
    env_file("A=\"x # y\"", expect![[r#"A="x # y""#]]);
    env_file("A=\"two\\nlines\"", expect![[r#"A="two\nlines""#]]);
    env_file("A='two\\nlines'", expect![[r#"A="two\\nlines""#]]);
    env_file(
        "A=\"first\nsecond\"\nB=2",
        expect![[r#"
        A="first\nsecond"
        B="2""#]],
    );
    env_file("A=\"say \\\"hi\\\"\"", expect![[r#"A="say \"hi\"""#]]);
    env_file("A=it's", expect![[r#"A="it's""#]]);
    env_file("A=  spaced  ", expect![[r#"A="spaced""#]]);
    env_file(
        "A=1\r\nB=2\r\n",
        expect![[r#"
        A="1"
        B="2""#]],
    );
    env_file("﻿A=1", expect![[r#"A="1""#]]);
    env_file("A=1\nA=2", expect![[r#"A="2""#]]);
    env_file("A.B-C[0]=1", expect![[r#"A.B-C[0]="1""#]]);
    env_file("1A=x\nB=y", expect![[r#"B="y""#]]);
    env_file("A=a=b", expect![[r#"A="a=b""#]]);
    env_file(
        "A='it'  \nB=2",
        expect![[r#"
        A="it"
        B="2""#]],
    );
}

/// R-IN-2: values refer to the caller's variables and to earlier lines.
#[test]
fn env_file_variables() {
    env_file("A=$OUTER", expect![[r#"A="o""#]]);
    env_file("A=${OUTER}x", expect![[r#"A="ox""#]]);
    env_file(
        "A=1\nB=$A$A",
        expect![[r#"
        A="1"
        B="11""#]],
    );
    env_file(
        "B=$A\nA=1",
        expect![[r#"
        A="1"
        B="""#]],
    );
    env_file("A='$OUTER'", expect![[r#"A="$OUTER""#]]);
    env_file("A=\"$OUTER\"", expect![[r#"A="o""#]]);
    env_file("A=${NONE:-d}", expect![[r#"A="d""#]]);
    env_file("A=${EMPTY:-d}", expect![[r#"A="d""#]]);
    env_file("A=${EMPTY-d}", expect![[r#"A="""#]]);
    env_file("A=$$", expect![[r#"A="$""#]]);
    env_file(
        "OUTER=mine\nB=$OUTER",
        expect![[r#"
        B="o"
        OUTER="mine""#]],
    );
    env_file("A=${OUTER:+set}", expect![[r#"A="set""#]]);
}

/// R-IN-3: the line and the reason, never the value.
#[test]
fn env_file_errors() {
    env_file("A B=1", expect!["line 1: a variable name cannot contain a space"]);
    env_file("=1", expect!["line 1: the variable name before `=` is missing"]);
    env_file("A=1\n\n=2", expect!["line 3: the variable name before `=` is missing"]);
    env_file("A=\"open", expect!["line 1: the quote is never closed"]);
    env_file("A='open\nB=1", expect!["line 1: the quote is never closed"]);
    env_file(
        "A=${",
        expect!["line 1: the value contains a `$` that does not start a valid variable expression"],
    );
    env_file(
        "A=${x y}",
        expect!["line 1: the value contains a `$` that does not start a valid variable expression"],
    );
    env_file("A=1\nB!=2", expect!["line 2: a variable name cannot contain `!`"]);
    env_file("A={}\n{}", expect!["line 2: a variable name cannot contain `{`"]);
    env_file(
        "A=${NONE:?needed}",
        expect!["line 1: the value contains a `$` that does not start a valid variable expression"],
    );
}

/// R-IN-2: a raw file keeps quotes, dollars and blanks.
#[test]
fn raw_env_file_lines() {
    raw("A='x'", expect![[r#"A="'x'""#]]);
    raw("A=\"$OUTER\"", expect![[r#"A="\"$OUTER\"""#]]);
    raw("A= 1 # x", expect![[r#"A=" 1 # x""#]]);
    raw("# c\nA=1", expect![[r#"A="1""#]]);
    raw("OUTER", expect![[r#"OUTER="o""#]]);
    raw("NONE", expect![[""]]);
    raw("  A=1", expect![[r#"A="1""#]]);
    raw(
        "A=1\r\nB=2",
        expect![[r#"
        A="1"
        B="2""#]],
    );
    raw("=1", expect!["line 1: the variable name before `=` is missing"]);
    raw("A B=1", expect!["line 1: a variable name cannot contain a space"]);
}

/// R-IN-2: each operator with a variable that is set, empty and unset.
#[test]
fn variable_forms() {
    variable("${A}", expect!["a"]);
    variable("${EMPTY}", expect![[""]]);
    variable(
        "${NONE}",
        expect![[r#"

        4:11 warning unset_variable: the variable `NONE` is not set
          help set it, or write `${NONE:-}` if it may be empty"#]],
    );
    variable("${A-d}", expect!["a"]);
    variable("${EMPTY-d}", expect![[""]]);
    variable("${NONE-d}", expect!["d"]);
    variable("${A:-d}", expect!["a"]);
    variable("${EMPTY:-d}", expect!["d"]);
    variable("${NONE:-d}", expect!["d"]);
    variable("${A?m}", expect!["a"]);
    variable("${EMPTY?m}", expect![[""]]);
    variable(
        "${NONE?m}",
        expect!["4:11 error missing_variable: the required variable `NONE` has no value: m"],
    );
    variable("${A:?m}", expect!["a"]);
    variable(
        "${EMPTY:?m}",
        expect!["4:11 error missing_variable: the required variable `EMPTY` has no value: m"],
    );
    variable(
        "${NONE:?m}",
        expect!["4:11 error missing_variable: the required variable `NONE` has no value: m"],
    );
    variable("${A+d}", expect!["d"]);
    variable("${EMPTY+d}", expect!["d"]);
    variable("${NONE+d}", expect![[""]]);
    variable("${A:+d}", expect!["d"]);
    variable("${EMPTY:+d}", expect![[""]]);
    variable("${NONE:+d}", expect![[""]]);
    variable("$A", expect!["a"]);
    variable("$A$A", expect!["aa"]);
    variable(
        "$NONE",
        expect![[r#"

        4:11 warning unset_variable: the variable `NONE` is not set
          help set it, or write `${NONE:-}` if it may be empty"#]],
    );
    variable("$$A", expect!["$A"]);
    variable("$$$A", expect!["$a"]);
    variable("$DOLLAR", expect!["$A"]);
    variable("${NONE:-${A}}", expect!["a"]);
    variable("${NONE:-${NONE:-x}}", expect!["x"]);
    variable("${NONE:-}", expect![[""]]);
    variable("${NONE-$A}", expect!["a"]);
    variable("${A:+${NONE:-y}}", expect!["y"]);
    variable("a$", expect!["a$"]);
    variable("$1", expect!["$1"]);
    variable("$(x)", expect!["$(x)"]);
    variable("${A}b${A}", expect!["aba"]);
}

/// R-IN-3: forms that are no variables, with their position.
#[test]
fn variable_errors() {
    variable(
        "${",
        expect![[r#"
        4:11 error invalid_interpolation: `${` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
    variable(
        "${}",
        expect![[r#"
        4:11 error invalid_interpolation: `${}` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
    variable(
        "${A",
        expect![[r#"
        4:11 error invalid_interpolation: `${A` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
    variable(
        "${A.b}",
        expect![[r#"
        4:11 error invalid_interpolation: `${A.b}` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
    variable(
        "${A b}",
        expect![[r#"
        4:11 error invalid_interpolation: `${A b}` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
    variable(
        "${A:}",
        expect![[r#"
        4:11 error invalid_interpolation: `${A:}` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
    variable(
        "${A:=x}",
        expect![[r#"
        4:11 error invalid_interpolation: `${A:=x}` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
    variable(
        "${1}",
        expect![[r#"
        4:11 error invalid_interpolation: `${1}` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
    variable(
        "${-x}",
        expect![[r#"
        4:11 error invalid_interpolation: `${-x}` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
    variable(
        "${NONE:?}",
        expect!["4:11 error missing_variable: the required variable `NONE` has no value"],
    );
    variable(
        "${NONE:?set ${A} first}",
        expect![
            "4:11 error missing_variable: the required variable `NONE` has no value: set a first"
        ],
    );
    variable(
        "${NONE?}",
        expect!["4:11 error missing_variable: the required variable `NONE` has no value"],
    );
    variable(
        "x ${A!} y",
        expect![[r#"
        4:11 error invalid_interpolation: `${A!} y` is not a valid variable expression
          expected `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …
          help write `$$` for a dollar sign"#]],
    );
}

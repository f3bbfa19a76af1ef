//! JSON values as YAML, for `-o yaml`. Pure.

use std::fmt::Write as _;

use serde_json::Value;

/// The value as a YAML document, which parses to the same value.
#[must_use]
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    if is_block(value) {
        block(value, 0, &mut text);
    } else {
        text.push_str(&scalar(value));
        text.push('\n');
    }
    text
}

fn block(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                write!(text, "{pad}{}:", plain_or_quoted(key))
                    .expect("writing to a string cannot fail");
                after_key(value, indent, text);
            }
        }
        Value::Array(list) => {
            for value in list {
                write!(text, "{pad}-").expect("writing to a string cannot fail");
                item(value, indent, text);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            writeln!(text, "{pad}{}", scalar(value)).expect("writing to a string cannot fail");
        }
    }
}

fn after_key(value: &Value, indent: usize, text: &mut String) {
    if is_block(value) {
        text.push('\n');
        block(value, indent + 2, text);
    } else {
        writeln!(text, " {}", scalar(value)).expect("writing to a string cannot fail");
    }
}

/// Writes a list item; the first line of a nested block follows the dash.
fn item(value: &Value, indent: usize, text: &mut String) {
    if is_block(value) {
        let mut inner = String::new();
        block(value, indent + 2, &mut inner);
        text.push(' ');
        text.push_str(inner.trim_start_matches(' '));
    } else {
        writeln!(text, " {}", scalar(value)).expect("writing to a string cannot fail");
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => plain_or_quoted(text),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Quotes text unless every YAML parser reads it as a string. JSON strings are valid YAML.
fn plain_or_quoted(text: &str) -> String {
    let bare = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./@".contains(c))
        && !RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word));
    if bare { text.to_owned() } else { Value::from(text).to_string() }
}

/// Words that some YAML version does not read as strings.
const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_formatted() {
        let value = json!({
            "a": [1, {"b": "x", "c": []}, ["y"]],
            "no": "yes",
            "port": "8080",
            "empty": {},
            "none": null,
            "text": "two words: \"quoted\"\n",
        });
        expect_test::expect![[r#"
            a:
              - 1
              - b: x
                c: []
              - - "y"
            empty: {}
            "no": "yes"
            none: null
            port: "8080"
            text: "two words: \"quoted\"\n"
        "#]]
        .assert_eq(&to_yaml(&value));
        assert_eq!(to_yaml(&json!([])), "[]\n");
    }
}

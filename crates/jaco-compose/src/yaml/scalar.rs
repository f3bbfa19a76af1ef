//! Plain YAML scalars as the Compose tools read them: YAML 1.2 truth values (`yes` stays a text),
//! but YAML 1.1 octals (`0444`) and underscores in numbers.
//!
//! Only the reading of one scalar; what a key accepts is decided elsewhere.

use std::fmt::Write as _;

use crate::yaml::node::Value;

/// Reads an unquoted scalar without a tag.
pub(crate) fn resolve_plain(text: &str) -> Value {
    match text.as_bytes().first() {
        None => Value::Null,
        Some(b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F') => resolve_word(text),
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => resolve_number(text),
        Some(_) => Value::Str(text.into()),
    }
}

fn resolve_word(text: &str) -> Value {
    match text {
        "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => Value::Str(text.into()),
    }
}

fn resolve_number(text: &str) -> Value {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Value::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    let plain;
    let digits = if text.contains('_') {
        plain = text.replace('_', "");
        plain.as_str()
    } else {
        text
    };
    if let Some(number) = parse_int(digits) {
        return Value::Int(number);
    }
    match parse_float(digits) {
        Some(number) => Value::Float(number),
        None => Value::Str(text.into()),
    }
}

/// Reads a whole number in any of the bases of YAML 1.1 and 1.2.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', b'0'..=b'7', ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // A second sign would be taken by the standard parser.
    if !digits.as_bytes().first()?.is_ascii_alphanumeric() {
        return None;
    }
    let number = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -number } else { number }).ok()
}

fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut digits = false;
    for byte in unsigned.bytes() {
        match byte {
            b'0'..=b'9' => digits = true,
            b'.' | b'e' | b'E' | b'-' | b'+' => {}
            _ => return None,
        }
    }
    if digits { text.parse().ok() } else { None }
}

/// Writes a number the way the Compose tools do when a key turns it into a text.
pub(crate) fn format_float(number: f64) -> String {
    /// Go's `%v`, which the Compose tools use, writes a million as `1e+06`.
    const MAX_PLAIN_EXPONENT: i32 = 5;
    if !number.is_finite() {
        let text = if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        };
        return text.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..=MAX_PLAIN_EXPONENT).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _infallible = write!(text, "{mantissa}e{sign}{:02}", exponent.abs());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        match resolve_plain(text) {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => format!("bool {value}"),
            Value::Int(value) => format!("int {value}"),
            Value::Float(value) => format!("float {value}"),
            Value::Str(value) => format!("str {value}"),
            Value::Seq(_) | Value::Map(_) => unreachable!("scalars only"),
        }
    }

    /// R-IN-3
    #[test]
    fn scalars_read_as_compose_reads_them() {
        let cases = [
            ("", "null"),
            ("~", "null"),
            ("no", "str no"),
            ("yes", "str yes"),
            ("on", "str on"),
            ("True", "bool true"),
            ("0444", "int 292"),
            ("0o444", "int 292"),
            ("0x1F", "int 31"),
            ("0b101", "int 5"),
            ("1_000", "int 1000"),
            ("-7", "int -7"),
            ("+7", "int 7"),
            ("--7", "str --7"),
            ("-", "str -"),
            ("08", "int 8"),
            ("1.50", "float 1.5"),
            ("1e3", "float 1000"),
            ("1.2.3", "str 1.2.3"),
            ("22:22", "str 22:22"),
            (".5", "float 0.5"),
            ("...", "str ..."),
            ("nfs", "str nfs"),
        ];
        for (text, expected) in cases {
            assert_eq!(show(text), expected, "{text:?}");
        }
    }

    #[test]
    fn numbers_become_texts_as_compose_writes_them() {
        assert_eq!(format_float(1.5), "1.5");
        assert_eq!(format_float(1_000_000.0), "1e+06");
        assert_eq!(format_float(0.00001), "1e-05");
        assert_eq!(format_float(1e21), "1e+21");
    }
}

//! Reads the units of the canonical text.

use serde::{Deserialize as _, Deserializer, de};

use crate::notation::units;

pub(crate) fn optional_nanos<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    read_text(input, "a duration", units::parse_duration_nanos)
}

pub(crate) fn optional_bytes<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    read_text(input, "a size in bytes", |text| text.parse().ok())
}

pub(crate) fn optional_mode<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    read_text(input, "a file mode", |text| u32::from_str_radix(text, 8).ok())
}

fn read_text<'de, D: Deserializer<'de>, T>(
    input: D,
    what: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    let Some(text) = Option::<String>::deserialize(input)? else {
        return Ok(None);
    };
    match read(&text) {
        Some(value) => Ok(Some(value)),
        None => Err(de::Error::custom(format_args!("{text:?} is not {what}"))),
    }
}

pub(crate) fn optional_millis<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(input)? else {
        return Ok(None);
    };
    // As digits: a small number is written with an exponent, which is no notation of ours.
    let digits = number.as_f64().map_or_else(|| number.to_string(), |cores| cores.to_string());
    match units::scale(&digits, 1_000) {
        Some(millis) => Ok(Some(millis)),
        None => Err(de::Error::custom(format_args!("{number} is not a number of cores"))),
    }
}

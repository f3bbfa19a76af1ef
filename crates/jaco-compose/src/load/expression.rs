//! Variable expressions: every `$` form of the specification in one text, nested to a bounded depth.
//!
//! Pure: a text and a lookup in, a text out. What a variable holds is not read again.

/// Maximum nesting of variable expressions.
pub(super) const MAX_NESTING: usize = 16;

/// Most bytes one text may grow to.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 20;

/// A text with its variables replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expansion {
    /// The text.
    pub(crate) text: String,
    /// Variables without a value and without a default.
    pub(crate) unset: Vec<String>,
}

/// Why a text cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpandError {
    /// Braces that hold no form.
    Invalid(String),
    /// A required variable is not set.
    Required { name: String, message: String },
    /// Too much.
    TooLarge,
}

/// Expands one text.
pub(crate) fn expand<'e>(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<&'e str>,
) -> Result<Expansion, ExpandError> {
    let mut expander = Expander { lookup, unset: Vec::new() };
    let text = expander.text(text, 0)?;
    Ok(Expansion { text, unset: expander.unset })
}

struct Expander<'l, 'e> {
    lookup: &'l dyn Fn(&str) -> Option<&'e str>,
    unset: Vec<String>,
}

impl Expander<'_, '_> {
    fn text(&mut self, text: &str, level: usize) -> Result<String, ExpandError> {
        if level > MAX_NESTING {
            return Err(ExpandError::TooLarge);
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let form = &rest[at..];
            let taken = self.form(form, level, &mut out)?;
            rest = &form[taken..];
            if out.len() > MAX_TEXT_BYTES {
                return Err(ExpandError::TooLarge);
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Expands the form at the start of `form` and returns its length.
    fn form(&mut self, form: &str, level: usize, out: &mut String) -> Result<usize, ExpandError> {
        let after = &form[1..];
        match after.as_bytes().first() {
            Some(b'$') => {
                out.push('$');
                Ok(2)
            }
            Some(b'{') => {
                let Some(end) = closing_brace(after) else {
                    return Err(invalid(form));
                };
                self.braced(&after[1..end], form, level, out)?;
                Ok(end + 2)
            }
            _ => {
                let name = leading_name(after);
                if name.is_empty() {
                    // As the official tool: `$(`, `$1` and a lone dollar are no variables.
                    out.push('$');
                    return Ok(1);
                }
                self.value_or_empty(name, out);
                Ok(1 + name.len())
            }
        }
    }

    fn braced(
        &mut self,
        inner: &str,
        form: &str,
        level: usize,
        out: &mut String,
    ) -> Result<(), ExpandError> {
        let name = leading_name(inner);
        let operator = &inner[name.len()..];
        if name.is_empty() {
            return Err(invalid(form));
        }
        if operator.is_empty() {
            self.value_or_empty(name, out);
            return Ok(());
        }
        let (non_empty, operator) = match operator.strip_prefix(':') {
            Some(operator) => (true, operator),
            None => (false, operator),
        };
        let value = (self.lookup)(name).filter(|value| !(non_empty && value.is_empty()));
        let Some(word) = operator.get(1..) else {
            return Err(invalid(form));
        };
        match (operator.as_bytes()[0], value) {
            (b'-' | b'?', Some(value)) => out.push_str(value),
            (b'-', None) | (b'+', Some(_)) => out.push_str(&self.text(word, level + 1)?),
            (b'+', None) => {}
            (b'?', None) => {
                let message = self.text(word, level + 1)?;
                return Err(ExpandError::Required { name: name.to_owned(), message });
            }
            _ => return Err(invalid(form)),
        }
        Ok(())
    }

    fn value_or_empty(&mut self, name: &str, out: &mut String) {
        match (self.lookup)(name) {
            Some(value) => out.push_str(value),
            None => self.unset.push(name.to_owned()),
        }
    }
}

fn invalid(form: &str) -> ExpandError {
    /// Enough to recognise the place.
    const SHOWN_CHARS: usize = 24;
    ExpandError::Invalid(form.chars().take(SHOWN_CHARS).collect())
}

/// The place of the brace that closes the one at the start; only `${` opens another.
fn closing_brace(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut open = 1_usize;
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'}' => {
                open -= 1;
                if open == 0 {
                    return Some(at);
                }
            }
            b'$' if bytes.get(at + 1) == Some(&b'{') => {
                open += 1;
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn leading_name(text: &str) -> &str {
    let mut bytes = text.bytes();
    if !bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_') {
        return "";
    }
    let more = bytes.take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    &text[..1 + more]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        let lookup = |name: &str| match name {
            "SET" => Some("value"),
            "EMPTY" => Some(""),
            "DOLLAR" => Some("a$b"),
            _ => None,
        };
        match expand(text, &lookup) {
            Ok(expansion) => expansion.text,
            Err(error) => format!("{error:?}"),
        }
    }

    /// R-IN-2
    #[test]
    fn every_form_of_the_specification() {
        let cases = [
            ("plain", "plain"),
            ("$SET/x", "value/x"),
            ("${SET}x", "valuex"),
            ("$$SET", "$SET"),
            ("$$$SET", "$value"),
            ("$DOLLAR", "a$b"),
            ("[$NOT]", "[]"),
            ("${NOT:-d}", "d"),
            ("${EMPTY:-d}", "d"),
            ("${EMPTY-d}", ""),
            ("${NOT-d}", "d"),
            ("${SET:+d}", "d"),
            ("${EMPTY:+d}", ""),
            ("${EMPTY+d}", "d"),
            ("${NOT+d}", ""),
            ("${SET:?no}", "value"),
            ("${EMPTY?no}", ""),
            ("${NOT:-${EMPTY:-${SET}}}", "value"),
            ("${NOT:-a:-b}", "a:-b"),
            ("${NOT:-{\"a\":1}}", "{\"a\":1}"),
            ("${NOT:?say ${SET}}", "Required { name: \"NOT\", message: \"say value\" }"),
            ("${EMPTY:?}", "Required { name: \"EMPTY\", message: \"\" }"),
            ("cost: $5, $(cmd)", "cost: $5, $(cmd)"),
            ("${SET", "Invalid(\"${SET\")"),
            ("${a.b}", "Invalid(\"${a.b}\")"),
            ("${}", "Invalid(\"${}\")"),
            ("$", "$"),
        ];
        for (text, expected) in cases {
            assert_eq!(show(text), expected, "{text}");
        }
    }

    /// R-IN-3
    #[test]
    fn deep_nesting_is_an_error_not_a_crash() {
        let text = "${N:-".repeat(20_000) + &"}".repeat(20_000);
        assert_eq!(show(&text), "TooLarge");
    }
}

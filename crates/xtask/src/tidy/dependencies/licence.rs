//! Expressions of licences, as manifests have them: identifiers of SPDX with `AND`, `OR`, `WITH` and parentheses. Old
//! manifests write `/` for `OR`.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

/// Whether `allowed` has enough for the terms of `text`; `None` if `text` is not an expression. An identifier with an
/// exception (`WITH`) is compared as a whole.
pub(super) fn is_met(text: &str, allowed: &BTreeSet<String>) -> Option<bool> {
    let spaced = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<String> = spaced.split_whitespace().map(str::to_owned).collect();
    let mut expression = Expression { words: words.into_iter().peekable(), allowed };
    let met = expression.any()?;
    expression.words.next().is_none().then_some(met)
}

/// What is left to read of an expression.
struct Expression<'a> {
    words: Peekable<IntoIter<String>>,
    allowed: &'a BTreeSet<String>,
}

impl Expression<'_> {
    /// Terms with `OR` between them, which binds weakest.
    fn any(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut met = self.term()?;
        while self.take("AND") {
            met &= self.term()?;
        }
        Some(met)
    }

    fn term(&mut self) -> Option<bool> {
        if self.take("(") {
            let met = self.any()?;
            return self.take(")").then_some(met);
        }
        let mut name = self.identifier()?;
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.identifier()?);
        }
        Some(self.allowed.contains(&name))
    }

    fn identifier(&mut self) -> Option<String> {
        let is_name = |word: &String| !["OR", "AND", "WITH", "(", ")"].contains(&word.as_str());
        self.words.next_if(is_name)
    }

    fn take(&mut self, word: &str) -> bool {
        self.words.next_if(|next| next == word).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(text: &str) -> Option<bool> {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        is_met(text, &allowed.into())
    }

    #[test]
    fn one_of_several_is_enough_and_each_of_all_is_needed() {
        for text in [
            "MIT",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "GPL-3.0 / MIT",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "GPL-3.0 AND BSL-1.0 OR MIT",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert_eq!(met(text), Some(true), "{text}");
        }
        for text in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR BSL-1.0)",
            "Apache-2.0",
            "MIT WITH LLVM-exception",
        ] {
            assert_eq!(met(text), Some(false), "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_not_taken_for_one() {
        for text in ["", "MIT ISC", "MIT OR", "(MIT", "MIT)", "WITH MIT", "MIT AND OR ISC"] {
            assert_eq!(met(text), None, "{text}");
        }
    }
}

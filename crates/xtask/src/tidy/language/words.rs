//! A text as words with their lines.

/// A word of a text; an empty `text` separates what does not belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// In lower case.
    pub(super) text: String,
    /// The identifier that it is a part of, as it is written.
    pub(super) whole: String,
    pub(super) line: usize,
}

/// The words of a text. Identifiers are taken apart; comment signs at the begin of a line are skipped.
pub(super) fn of(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim_start().trim_start_matches(['/', '!', '#', '>', '*']);
        let mut whole = String::new();
        for c in content.chars().chain([' ']) {
            if c.is_alphanumeric() || c == '_' || (c == '\'' && !whole.is_empty()) {
                whole.push(c);
                continue;
            }
            add(&mut words, &whole, line);
            whole.clear();
            if !c.is_whitespace() && c != '-' {
                words.push(Word { text: String::new(), whole: String::new(), line });
            }
        }
    }
    words
}

fn add(words: &mut Vec<Word>, whole: &str, line: usize) {
    let whole = whole.trim_end_matches('\'');
    let mut part = String::new();
    let mut push = |part: &mut String| {
        if !part.is_empty() {
            let text = std::mem::take(part).to_lowercase();
            words.push(Word { text, whole: whole.to_owned(), line });
        }
    };
    let mut was_lower = false;
    for c in whole.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            push(&mut part);
        }
        if c != '_' {
            part.push(c);
        }
        was_lower = c.is_lowercase();
    }
    push(&mut part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_taken_apart_and_punctuation_separates() {
        let texts: Vec<String> = of("/// InCompany a_b. HTTP\n// person's\n")
            .into_iter()
            .map(|word| word.text)
            .collect();
        assert_eq!(texts, ["in", "company", "a", "b", "", "http", "person's"]);
    }
}

//! The refused words and phrases, and the search for them.

use std::collections::BTreeMap;

use super::words::Word;

/// All refused phrases by their first word, and refused identifiers.
#[derive(Debug, Default)]
pub(super) struct Patterns<'a> {
    phrases: BTreeMap<&'a str, Vec<Phrase<'a>>>,
    /// Phrases whose first word may have any ending.
    open: Vec<Phrase<'a>>,
    identifiers: BTreeMap<&'a str, &'a str>,
}

#[derive(Clone, Debug)]
struct Phrase<'a> {
    words: Vec<&'a str>,
    instead: &'a str,
}

/// A refused phrase in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hit<'a> {
    pub(super) line: usize,
    pub(super) found: String,
    pub(super) instead: &'a str,
}

impl<'a> Patterns<'a> {
    /// Reads lines `pattern => term`.
    pub(super) fn parse(list: &'a str) -> Self {
        let mut patterns = Self::default();
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let Some((pattern, instead)) = line.split_once(" => ") else { continue };
            if let Some(name) = pattern.strip_prefix('`') {
                patterns.identifiers.insert(name.trim_end_matches('`'), instead);
                continue;
            }
            let words: Vec<&str> = pattern.split([' ', '_', '-']).collect();
            let phrase = Phrase { words, instead };
            match phrase.words.first() {
                Some(first) if !first.ends_with('*') => {
                    patterns.phrases.entry(first).or_default().push(phrase);
                }
                _ => patterns.open.push(phrase),
            }
        }
        patterns
    }

    /// Every refused phrase among `words`, and every refused identifier if they are of a source file. Of phrases that
    /// overlap, the first and longest.
    pub(super) fn find(&self, words: &[Word], is_source: bool) -> Vec<Hit<'a>> {
        let (mut hits, mut at) = (Vec::new(), 0);
        while at < words.len() {
            let Word { text, whole, line } = &words[at];
            let identifier = self.identifiers.get(whole.as_str()).filter(|_| is_source);
            let (found, length, instead) = match (self.longest(&words[at..]), identifier) {
                (Some(phrase), _) => {
                    let length = phrase.words.len();
                    let found = words[at..at + length].iter().map(|word| word.text.as_str());
                    (found.collect::<Vec<_>>().join(" "), length, phrase.instead)
                }
                (None, Some(instead)) if !text.is_empty() => {
                    let length = words[at..].iter().take_while(|word| word.whole == *whole).count();
                    (whole.clone(), length, *instead)
                }
                _ => {
                    at += 1;
                    continue;
                }
            };
            hits.push(Hit { line: *line, found, instead });
            at += length;
        }
        hits
    }

    fn longest(&self, words: &[Word]) -> Option<&Phrase<'a>> {
        let closed = self.phrases.get(words.first()?.text.as_str()).into_iter().flatten();
        let candidates = closed.chain(&self.open).filter(|phrase| phrase.begins(words));
        candidates.max_by_key(|phrase| phrase.words.len())
    }
}

impl Phrase<'_> {
    fn begins(&self, words: &[Word]) -> bool {
        let matches = |(pattern, word): (&&str, &Word)| match pattern.strip_suffix('*') {
            Some(stem) => word.text.starts_with(stem),
            None => word.text == *pattern,
        };
        self.words.len() <= words.len() && self.words.iter().zip(words).all(matches)
    }
}

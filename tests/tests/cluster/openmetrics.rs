//! Reads the text format of OpenMetrics as strictly as its specification is, so that whatever a scraper would refuse is
//! found here.

use std::collections::{BTreeMap, BTreeSet};

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// A whole document.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    /// The type of each family.
    pub(crate) families: BTreeMap<String, String>,
    pub(crate) samples: Vec<Sample>,
}

impl Document {
    /// Reads it.
    ///
    /// # Panics
    /// At the first line that the format does not allow.
    pub(crate) fn read(text: &str) -> Self {
        let lines = text.strip_suffix("# EOF\n").expect("a document ends with # EOF");
        let mut document = Self::default();
        let mut family: Option<(String, String)> = None;
        let mut seen = BTreeSet::new();
        for line in lines.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let (keyword, rest) = comment.split_once(' ').expect("a keyword and a name");
                let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
                match keyword {
                    "HELP" | "UNIT" | "TYPE" => {}
                    other => panic!("{other} is no keyword: {line}"),
                }
                if family.as_ref().is_none_or(|(known, _)| known != name) {
                    assert!(!document.families.contains_key(name), "{name} is interleaved: {line}");
                    family = Some((name.to_owned(), "unknown".to_owned()));
                }
                if keyword == "UNIT" {
                    assert!(
                        name.ends_with(&format!("_{value}")),
                        "{name} does not end with {value}"
                    );
                }
                if keyword == "TYPE" {
                    family = Some((name.to_owned(), value.to_owned()));
                }
                let (name, kind) = family.clone().expect("set above");
                document.families.insert(name, kind);
                continue;
            }
            let sample = sample(line);
            let (name, kind) = family.as_ref().expect("a sample belongs to a family");
            let suffix = sample.name.strip_prefix(name.as_str());
            let suffix = suffix.unwrap_or_else(|| panic!("{line} is not of {name}"));
            let is_allowed = match kind.as_str() {
                "gauge" | "unknown" => suffix.is_empty(),
                "counter" => suffix == "_total",
                "info" => suffix == "_info",
                "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                other => panic!("{other} is no type of ours"),
            };
            assert!(is_allowed, "{line} has a name that a {kind} has not");
            assert!(kind == "gauge" || sample.value >= 0.0, "{line} is negative");
            let series = (sample.name.clone(), sample.labels.clone());
            assert!(seen.insert(series), "{line} is there twice");
            document.samples.push(sample);
        }
        document.check_histograms();
        document
    }

    /// The samples of this name.
    pub(crate) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| sample.name == name)
    }

    /// The value of the only series of this name, or of the one with this label.
    pub(crate) fn value(&self, name: &str, label: Option<(&str, &str)>) -> Option<f64> {
        let is_meant = |sample: &&Sample| {
            label.is_none_or(|(key, value)| sample.labels.get(key).is_some_and(|is| is == value))
        };
        let mut found = self.of(name).filter(is_meant);
        let value = found.next().map(|sample| sample.value);
        assert!(found.next().is_none(), "there are several series of {name}");
        value
    }

    /// Buckets grow, and the last has all.
    fn check_histograms(&self) {
        let mut buckets: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
        for sample in &self.samples {
            let Some(name) = sample.name.strip_suffix("_bucket") else { continue };
            let mut labels = sample.labels.clone();
            let bound = labels.remove("le").expect("a bucket has a bound");
            let bound =
                if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a number") };
            let key = (name.to_owned(), format!("{labels:?}"));
            buckets.entry(key).or_default().push((bound, sample.value));
        }
        for ((name, labels), buckets) in buckets {
            let is_sorted = buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
            assert!(is_sorted, "buckets of {name} {labels} do not grow: {buckets:?}");
            let count = format!("{name}_count");
            let mut counts = self.of(&count);
            let count = counts.find(|sample| format!("{:?}", sample.labels) == labels);
            let (bound, all) = *buckets.last().expect("there is one");
            let count = count.map(|sample| sample.value);
            assert!(
                bound.is_infinite() && count == Some(all),
                "{name} {labels}: {count:?} of {all}"
            );
        }
    }
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line} has no value"));
    let (name, mut rest) = line.split_at(end);
    let is_name = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.chars().all(|one| one == '_' || one.is_ascii_alphanumeric())
    };
    assert!(is_name(name), "{line} has no name");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        assert!(!rest.starts_with('}'), "{line} has empty braces");
        loop {
            let (key, after) = rest.split_once("=\"").expect("a label has a value");
            assert!(is_name(key), "{line}: {key} is no name of a label");
            let (value, after) = quoted(after);
            assert!(labels.insert(key.to_owned(), value).is_none(), "{line} has {key} twice");
            match after.split_at(1) {
                (",", after) => rest = after,
                ("}", after) => {
                    rest = after;
                    break;
                }
                (other, _) => panic!("{other} follows a label: {line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line} has no value"));
    let value = value.parse().unwrap_or_else(|_| panic!("{value} is no number: {line}"));
    Sample { name: name.to_owned(), labels, value }
}

/// The text up to the closing quote, and what follows.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, one)) = chars.next() {
        match one {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next().map(|(_, escaped)| escaped) {
                Some('n') => value.push('\n'),
                Some(escaped @ ('"' | '\\')) => value.push(escaped),
                other => panic!("{other:?} is not to be escaped: {text}"),
            },
            other => value.push(other),
        }
    }
    panic!("a label is not closed: {text}")
}

/// It finds what is wrong.
#[test]
fn documents_that_are_not_allowed_are_refused() {
    let good = "# TYPE a gauge\na{x=\"1\\\"\"} 2.5\n# TYPE b counter\nb_total 1\n# EOF\n";
    let document = Document::read(good);
    assert_eq!(document.value("a", Some(("x", "1\""))), Some(2.5));
    for bad in [
        "# TYPE a gauge\na 1\n",
        "# TYPE a gauge\na 1\na 2\n# EOF\n",
        "# TYPE a gauge\na{} 1\n# EOF\n",
        "# TYPE a counter\na 1\n# EOF\n",
        "# TYPE a gauge\nb 1\n# EOF\n",
        "# TYPE a gauge\na x\n# EOF\n",
        "# TYPE a gauge\na 1\n# TYPE b gauge\n# TYPE a gauge\n# EOF\n",
        "# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_count 1\na_sum 1\n# EOF\n",
        "# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_count 2\na_sum 1\n# EOF\n",
    ] {
        assert!(std::panic::catch_unwind(|| Document::read(bad)).is_err(), "{bad}");
    }
}

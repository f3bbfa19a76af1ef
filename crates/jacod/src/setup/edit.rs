//! Settings in the text of a configuration file, whose comments and other settings stay.

use std::collections::BTreeMap;

/// The text with a setting of the top level, where the file has it or names it in a comment, else at its end.
pub(super) fn set(text: &str, key: &str, value: &str) -> String {
    let written = format!("{key}: {}", quoted(value));
    replace(text, key, &written)
}

/// As [`set`], with a mapping of texts as the value.
pub(super) fn set_mapping(text: &str, key: &str, values: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> =
        values.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value))).collect();
    let written = format!("{key}: {{{}}}", pairs.join(", "));
    replace(text, key, &written)
}

/// In double quotes, so that no text is taken for a number or a truth value. JSON's are YAML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn replace(text: &str, key: &str, written: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let own = lines.iter().position(|line| names(line, key));
    let commented = || lines.iter().position(|line| names_in_comment(line, key));
    let Some(at) = own.or_else(commented) else {
        let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return format!("{text}{separator}{written}\n");
    };
    let after = &lines[at + 1..];
    let nested = if own.is_some() { nested_lines(after) } else { 0 };
    let kept = lines[..at].iter().copied();
    let whole = kept.chain([written]).chain(after[nested..].iter().copied());
    whole.map(|line| format!("{line}\n")).collect()
}

fn names(line: &str, key: &str) -> bool {
    line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'))
}

/// A setting that is written as an example: `# key: value`.
fn names_in_comment(line: &str, key: &str) -> bool {
    line.strip_prefix("# ").is_some_and(|line| names(line, key))
}

/// How many lines belong to the value of the line before: those that are indented, with the empty ones between them.
fn nested_lines(lines: &[&str]) -> usize {
    let is_nested = |line: &&str| line.starts_with([' ', '\t']) && !line.trim().is_empty();
    let value = lines.iter().take_while(|line| is_nested(line) || line.trim().is_empty());
    let value: Vec<_> = value.collect();
    value.iter().rposition(|line| is_nested(line)).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const SAMPLE: &str = include_str!("../../../../deploy/jacod.yaml");

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// R-OPS-1: in the file that packages install, the answers stand where the file explains them.
    #[test]
    fn examples_in_comments_are_replaced() {
        let text = set(SAMPLE, "node_name", "n7");
        let text = set(&text, "advertise", "10.0.0.7:7000");
        let text = set_mapping(&text, "labels", &labels(&[("zone", "a")]));
        let config = Config::parse(&text).unwrap();
        assert_eq!(config.node_name.as_deref(), Some("n7"));
        assert_eq!(config.advertise.as_deref(), Some("10.0.0.7:7000"));
        assert_eq!(config.labels, labels(&[("zone", "a")]));
        let changed = |text: &str| -> Vec<String> {
            let before: Vec<&str> = SAMPLE.lines().collect();
            text.lines().filter(|line| !before.contains(line)).map(str::to_owned).collect()
        };
        let new =
            ["node_name: \"n7\"", "advertise: \"10.0.0.7:7000\"", "labels: {\"zone\": \"a\"}"];
        assert_eq!(changed(&text), new);
        assert_eq!(text.lines().count(), SAMPLE.lines().count());
    }

    /// R-OPS-1
    #[test]
    fn what_is_set_is_replaced_with_all_of_its_lines() {
        let text = "labels:\n  a: b\n\n  c: d\n\n# about raft\nraft: {snapshot_entries: 200}\n";
        let text = set_mapping(text, "labels", &labels(&[("e", "f")]));
        assert_eq!(text, "labels: {\"e\": \"f\"}\n\n# about raft\nraft: {snapshot_entries: 200}\n");
        assert_eq!(
            set("node_name: a\nlog_level: info", "node_name", "b"),
            "node_name: \"b\"\nlog_level: info\n"
        );
        assert_eq!(
            set("log_level: info", "advertise", "n:1"),
            "log_level: info\nadvertise: \"n:1\"\n"
        );
        assert_eq!(set("", "advertise", "n:1"), "advertise: \"n:1\"\n");
    }

    /// R-OPS-1: whatever the value, it is read back as it was, and what else is set stays.
    #[test]
    fn values_are_read_back() {
        for value in
            ["true", "1e3", "null", "[fd00::1]:7000", "a: b # c", "'", "\"", "\\", "{}", "-"]
        {
            let text = set(&set(SAMPLE, "node_name", value), "advertise", value);
            let config = Config::parse(&text).unwrap();
            assert_eq!(config.node_name.as_deref(), Some(value));
            assert_eq!(config.advertise.as_deref(), Some(value));
            assert_eq!(config.raft.snapshot_entries, Config::default().raft.snapshot_entries);
            let text = set_mapping(&text, "labels", &labels(&[("zone", value)]));
            assert_eq!(Config::parse(&text).unwrap().labels, labels(&[("zone", value)]));
        }
    }
}

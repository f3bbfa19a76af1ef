//! How a layer went, and the table of all of them.

use std::fmt::{self, Write};
use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

use super::layer::Layer;

/// Tests by their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
}

impl Counts {
    /// Reads the line with which a test program ends. An ignored test is a failed one: it was written and proves nothing.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |name: &str| {
            counts
                .split("; ")
                .find_map(|part| part.strip_suffix(name))
                .and_then(|number| number.trim().parse::<usize>().ok())
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")? + count("ignored").unwrap_or(0),
        })
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Self::add)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// How a layer, or a part of one, went.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    counts: Counts,
    /// What a reader must know beyond the counts.
    pub(super) trouble: Option<String>,
    pub(super) took: Duration,
}

impl Outcome {
    pub(super) fn of(counts: Counts) -> Self {
        Self { counts, ..Self::default() }
    }

    /// A layer that could not run counts as one failure, as it proves nothing.
    pub(super) fn cannot_run(why: String) -> Self {
        let mut outcome = Self::default();
        outcome.fail(format!("CANNOT RUN: {why}"));
        outcome
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// One more failure than the tests counted themselves.
    pub(super) fn fail(&mut self, why: String) {
        self.counts.failed += 1;
        self.say(why);
    }

    /// Names where the counted failures are.
    pub(super) fn blame(&mut self, name: &str) {
        self.say(format!("failures in {name}"));
    }

    pub(super) fn add(&mut self, part: Self) {
        self.counts = self.counts + part.counts;
        if let Some(trouble) = part.trouble {
            self.say(trouble);
        }
    }

    fn say(&mut self, what: String) {
        self.trouble = Some(match self.trouble.take() {
            Some(before) => format!("{before}; {what}"),
            None => what,
        });
    }

    fn verdict(&self) -> &'static str {
        if self.counts.failed == 0 { "passed" } else { "FAILED" }
    }
}

/// One line per layer; those that were not asked for are not in it.
pub(super) fn table(outcomes: &[(Layer, Outcome)]) -> String {
    let mut text =
        format!("\n{:<10} {:<8} {:>7} {:>7} {:>9}\n", "layer", "", "passed", "failed", "seconds");
    for (layer, outcome) in outcomes {
        let Counts { passed, failed } = outcome.counts;
        let (verdict, seconds) = (outcome.verdict(), outcome.took.as_secs_f64());
        let trouble = outcome.trouble.as_deref().and_then(|text| text.lines().next());
        let trouble = trouble.map(|text| format!("  {text}")).unwrap_or_default();
        writeln!(text, "{layer:<10} {verdict:<8} {passed:>7} {failed:>7} {seconds:>9.1}{trouble}")
            .expect("a string takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn result_lines_are_read() {
        let check = |line: &str, expected: Option<(usize, usize)>| {
            let expected = expected.map(|(passed, failed)| Counts { passed, failed });
            assert_eq!(Counts::parse(line), expected, "{line}");
        };
        let tail = "0 measured; 0 filtered out; finished in 0.30s";
        check(&format!("test result: ok. 15 passed; 0 failed; 0 ignored; {tail}"), Some((15, 0)));
        check(&format!("test result: FAILED. 3 passed; 2 failed; 0 ignored; {tail}"), Some((3, 2)));
        check(&format!("test result: ok. 3 passed; 0 failed; 1 ignored; {tail}"), Some((3, 1)));
        check("test result: strange", None);
        check("test it::works ... ok", None);
    }

    #[test]
    fn the_table_says_what_could_not_run() {
        let mut good = Outcome::of(Counts { passed: 12, failed: 0 });
        good.took = Duration::from_millis(1500);
        let bad = Outcome::cannot_run("no engine".to_owned());
        expect![[r#"

            layer                passed  failed   seconds
            pure       passed        12       0       1.5
            docker     FAILED         0       1       0.0  CANNOT RUN: no engine
        "#]]
        .assert_eq(&table(&[(Layer::Pure, good), (Layer::Docker, bad)]));
    }

    #[test]
    fn parts_add_up() {
        let mut whole = Outcome::of(Counts { passed: 1, failed: 0 });
        whole.add(Outcome::of(Counts { passed: 2, failed: 0 }));
        whole.fail("a crash".to_owned());
        whole.add(Outcome::cannot_run("b".to_owned()));
        assert_eq!(whole.counts(), Counts { passed: 3, failed: 2 });
        assert_eq!(whole.trouble.as_deref(), Some("a crash; CANNOT RUN: b"));
    }
}

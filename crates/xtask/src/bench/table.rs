//! Figures as a table: the median of each side, its spread, and their ratio against what was promised.

use std::fmt::Write;

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Less,
    More,
}

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) ours: Vec<f64>,
    /// Who else, and what they measured in the same run.
    pub(super) theirs: Option<(String, Vec<f64>)>,
    pub(super) promise: Promise,
}

/// What the figure has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Promise {
    /// Ours divided by theirs.
    Ratio(Better, f64),
    /// Ours alone.
    Value(Better, f64),
    /// Nothing was promised: for information.
    None,
}

/// What the columns hold.
pub(super) const HEAD: [&str; 6] = ["figure", "ours", "theirs", "ratio", "wanted", ""];

/// Prints the rows, one line each.
pub(super) fn print(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut line = |cells: [&str; 6]| {
        let [name, ours, theirs, ratio, promise, verdict] = cells;
        writeln!(text, "{name:<37} {ours:>28} {theirs:>36} {ratio:>7} {promise:>8}  {verdict}")
            .expect("a string takes all");
    };
    line(HEAD);
    for row in rows {
        let cells = row.cells();
        line(cells.each_ref().map(String::as_str));
    }
    text
}

impl Row {
    /// The row as text, in the order of [`HEAD`].
    pub(super) fn cells(&self) -> [String; 6] {
        let nothing = || "–".to_owned();
        let theirs = self.theirs.as_ref();
        let theirs = theirs
            .map(|(who, figures)| format!("{who} {}", summary(figures, &self.unit)))
            .unwrap_or_else(nothing);
        let ratio = self.ratio().map_or_else(nothing, |ratio| format!("{ratio:.2}"));
        let ours = summary(&self.ours, &self.unit);
        let promise = match self.promise {
            Promise::Ratio(Better::Less, limit) | Promise::Value(Better::Less, limit) => {
                format!("≤ {limit}")
            }
            Promise::Ratio(Better::More, limit) | Promise::Value(Better::More, limit) => {
                format!("≥ {limit}")
            }
            Promise::None => nothing(),
        };
        [self.name.clone(), ours, theirs, ratio, promise, self.verdict().to_owned()]
    }

    fn ratio(&self) -> Option<f64> {
        let (_, theirs) = self.theirs.as_ref()?;
        Some(median(&self.ours)? / median(theirs)?)
    }

    /// A figure that could not be compared is a miss: a missing figure must not look like success.
    pub(super) fn verdict(&self) -> &'static str {
        let (figure, better, limit) = match self.promise {
            Promise::Ratio(better, limit) => (self.ratio(), better, limit),
            Promise::Value(better, limit) => (median(&self.ours), better, limit),
            Promise::None => return "",
        };
        let kept = figure.is_some_and(|figure| match better {
            Better::Less => figure <= limit,
            Better::More => figure >= limit,
        });
        if kept { "kept" } else { "MISSED" }
    }
}

/// `median unit (least…most)`.
fn summary(figures: &[f64], unit: &str) -> String {
    let Some(middle) = median(figures) else {
        return "no figure".to_owned();
    };
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    format!("{}{unit} ({}…{})", short(middle), short(least), short(most))
}

/// Three digits that count, at least.
fn short(figure: f64) -> String {
    match figure.abs() {
        0.0 => "0".to_owned(),
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_table_reads_well() {
        let row =
            |name: &str, ours: &[f64], theirs: Option<(&str, &[f64])>, unit: &str, promise| Row {
                name: name.to_owned(),
                unit: unit.to_owned(),
                ours: ours.to_vec(),
                theirs: theirs.map(|(who, figures)| (who.to_owned(), figures.to_vec())),
                promise,
            };
        let rows = [
            row(
                "writes, 64 clients",
                &[13_100.0, 13_200.0, 12_800.0],
                Some(("etcd", &[9_900.0, 9_950.0])),
                "/s",
                Promise::Ratio(Better::More, 1.0),
            ),
            row("idle memory", &[41.5], None, "MiB", Promise::Value(Better::Less, 40.0)),
            row("never measured", &[], None, "s", Promise::Value(Better::Less, 1.0)),
            row("commits", &[0.0], None, "", Promise::None),
        ];
        expect![[r#"
            figure                                                        ours                               theirs   ratio   wanted  
            writes, 64 clients                          13100 /s (12800…13200)             etcd 9925 /s (9900…9950)    1.32      ≥ 1  kept
            idle memory                                   41.5 MiB (41.5…41.5)                                    –       –     ≤ 40  MISSED
            never measured                                           no figure                                    –       –      ≤ 1  MISSED
            commits                                                    0 (0…0)                                    –       –        –  
        "#]].assert_eq(&print(&rows));
    }
}

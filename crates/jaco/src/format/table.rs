//! Text tables. Pure.

/// A table whose columns are as wide as their widest cell.
#[derive(Debug, Clone, Default)]
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these column headers.
    #[must_use]
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. An empty cell is printed as `-`, so that `awk` finds the columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { cell };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// Whether the table has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text: one line per row, without trailing spaces.
    #[must_use]
    pub fn render(&self) -> String {
        let head: Vec<String> = self.head.iter().map(|&name| name.to_owned()).collect();
        let lines = || std::iter::once(&head).chain(&self.rows);
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| lines().filter_map(|row| row.get(column)).map(|c| width(c)).max())
            .map(Option::unwrap_or_default)
            .collect();
        let mut text = String::new();
        for row in lines() {
            let mut line = String::new();
            for (cell, width_of_column) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width_of_column + 2 - width(cell)));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The width in characters. Wide scripts are rare in names of machines and containers.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["NAME", "STATE"]);
        table.row(["a-long-name".to_owned(), "up".to_owned()]);
        table.row(["é".to_owned(), String::new()]);
        expect_test::expect![[r"
            NAME         STATE
            a-long-name  up
            é            -
        "]]
        .assert_eq(&table.render());
    }
}

//! Lines on a terminal: cut to its size, and states in colours. Pure.

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// What is as it should be.
const GREEN: [&str; 5] = ["active", "completed", "ready", "running", "yes"];
/// What is in progress, or was asked for.
const YELLOW: [&str; 9] = [
    "cordoned",
    "draining",
    "joining",
    "pending",
    "pulling",
    "rolled_back",
    "starting",
    "stopping",
    "updating",
];
/// What an operator should look at.
const RED: [&str; 7] =
    ["degraded", "disk_full", "down", "engine_down", "failed", "paused", "unknown"];

/// The lines that fit, each cut to the width. A line that does not fit at the bottom is counted: a terminal
/// that scrolls would show the end of a table without its head.
pub(super) fn fitted(lines: &[String], size: Size) -> Vec<String> {
    // The cursor stands below the last line.
    let rows = size.rows.saturating_sub(1).max(1);
    let cut = |line: &String| line.chars().take(size.columns.saturating_sub(1)).collect();
    if lines.len() <= rows {
        return lines.iter().map(cut).collect();
    }
    let shown = rows - 1;
    let left_out = format!("… {} more lines", lines.len() - shown);
    lines[..shown].iter().chain([&left_out]).map(cut).collect()
}

/// A line of a table with its states in colours. A state is a whole cell: cells are two spaces apart.
pub(super) fn with_colours(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let cell = rest.find("  ").map_or(rest, |end| &rest[..end]);
        let spaces = rest[cell.len()..].len() - rest[cell.len()..].trim_start_matches(' ').len();
        match colour(cell) {
            Some(code) => text.push_str(&format!("\x1b[{code}m{cell}\x1b[0m")),
            None => text.push_str(cell),
        }
        text.push_str(&rest[cell.len()..cell.len() + spaces]);
        rest = &rest[cell.len() + spaces..];
    }
    text
}

fn colour(cell: &str) -> Option<u8> {
    let is_in = |words: &[&str]| words.contains(&cell);
    match cell {
        _ if is_in(&GREEN) => Some(32),
        _ if is_in(&YELLOW) => Some(33),
        _ if is_in(&RED) => Some(31),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(number: usize) -> Vec<String> {
        (0..number).map(|n| format!("line {n}")).collect()
    }

    /// R-CLI-4: on a small terminal the head of the output is seen, and how much is left out.
    #[test]
    fn lines_fit_the_terminal() {
        let size = Size { columns: 80, rows: 24 };
        assert_eq!(fitted(&lines(23), size), lines(23));
        let cut = fitted(&lines(30), size);
        assert_eq!((cut.len(), cut[0].as_str()), (23, "line 0"));
        assert_eq!((cut[21].as_str(), cut[22].as_str()), ("line 21", "… 8 more lines"));
        assert_eq!(fitted(&lines(2), Size { columns: 4, rows: 1 }), ["…".to_owned() + " 2"]);
        assert_eq!(fitted(&["abcdef".to_owned()], Size { columns: 4, rows: 9 }), ["abc"]);
    }

    /// Only whole cells are states, and colours change no text.
    #[test]
    fn states_are_coloured() {
        let line = "shop-web-0  running  n1    failed";
        let coloured = with_colours(line);
        assert_eq!(coloured, "shop-web-0  \x1b[32mrunning\x1b[0m  n1    \x1b[31mfailed\x1b[0m");
        for plain in ["running-late  x", "it failed  now", "", "  indented", "trailing  "] {
            assert_eq!(with_colours(plain), plain);
        }
    }
}

//! Shrinks a history that breaks a law to few lines that break the same law.

use crate::sabotage::Sabotage;
use crate::script::{CommandError, Session};

/// Leaves out lines as long as the same law is broken: halves first, then ever smaller parts, single lines last
/// (delta debugging; A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002). What is
/// left breaks the law, and no single line can be left out of it. A script that breaks no law stays as it is.
#[must_use]
pub fn shrink(script: &[String], sabotage: Option<Sabotage>) -> Vec<String> {
    let mut lines = script.to_vec();
    let Some(law) = broken_law(&lines, sabotage) else { return lines };
    let mut part = lines.len().div_ceil(2);
    loop {
        let before = lines.len();
        let mut at = 0;
        while at < lines.len() {
            let end = lines.len().min(at + part);
            let fewer = [&lines[..at], &lines[end..]].concat();
            match broken_law(&fewer, sabotage) == Some(law) {
                true => lines = fewer,
                false => at = end,
            }
        }
        match part {
            1 if lines.len() == before => return lines,
            1 => {}
            _ => part = part.div_ceil(2),
        }
    }
}

/// The law that a script breaks first.
fn broken_law(lines: &[String], sabotage: Option<Sabotage>) -> Option<&'static str> {
    let mut session = Session::new(0, sabotage);
    match lines.iter().try_for_each(|line| session.line(line)) {
        Err(CommandError::Broken(violation)) => Some(violation.broken.id()),
        Ok(()) | Err(CommandError::Unclear(_) | CommandError::Unexpected(_)) => None,
    }
}

//! The known name that is most similar to a mistyped one, if one is similar enough.

/// Longer names are not compared, to bound the cost.
const MAX_CHARS: usize = 64;

/// Only so many names are compared, to bound the cost.
const MAX_NAMES: usize = 500;

/// Returns the closest of `known` if it is at most a third of the letters away. One that shares a word
/// of several, as `post_start` and `pre_start` do, is closer than one that does not.
#[must_use]
pub fn nearest<'n>(wrong: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let wrong_chars: Vec<char> = wrong.chars().take(MAX_CHARS + 1).collect();
    if wrong_chars.is_empty() || wrong_chars.len() > MAX_CHARS {
        return None;
    }
    let allowed = (wrong_chars.len() / 3).max(1);
    known
        .take(MAX_NAMES)
        .filter(|name| name.len() <= MAX_CHARS)
        .map(|name| (distance(&wrong_chars, name), name))
        .filter(|(distance, name)| *distance <= allowed && *distance < name.chars().count())
        .map(|(distance, name)| (!shares_word(wrong, name), distance, name))
        .min()
        .map(|(_, _, name)| name)
}

fn shares_word(wrong: &str, name: &str) -> bool {
    wrong.contains('_') && wrong.split('_').any(|word| name.split('_').any(|own| own == word))
}

/// Edits between two words where a swap of neighbours counts once.
fn distance(wrong: &[char], name: &str) -> usize {
    let name: Vec<char> = name.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=name.len()).collect();
    for (i, &a) in wrong.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in name.iter().enumerate() {
            let same = usize::from(!a.eq_ignore_ascii_case(&b));
            let mut cost = (last[j] + same).min(last[j + 1] + 1).min(row[j] + 1);
            let swapped = i > 0 && j > 0 && a == name[j - 1] && wrong[i - 1] == b;
            if swapped {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_what_was_meant_and_nothing_far_fetched() {
        let known = ["image", "restart", "ports", "expose", "volumes"];
        let near = |wrong| nearest(wrong, known.into_iter());
        assert_eq!(near("imgae"), Some("image"));
        assert_eq!(near("volume"), Some("volumes"));
        assert_eq!(near("Ports"), Some("ports"));
        assert_eq!(near("banana"), None);
        assert_eq!(near(""), None);
    }
}

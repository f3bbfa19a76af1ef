//! Strongly connected components of a small graph.

use std::collections::{BTreeMap, BTreeSet};

/// Names, each with the names that it uses.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// Groups of two and more that reach each other, sorted.
pub(super) fn components(graph: &Graph) -> BTreeSet<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|name| (name, reachable(graph, name))).collect();
    let group = |name: &String| -> Vec<String> {
        let back = |other: &&&String| reach.get(**other).is_some_and(|from| from.contains(name));
        reach[name].iter().filter(back).map(|other| (*other).clone()).collect()
    };
    graph.keys().map(group).filter(|group| group.len() > 1).collect()
}

fn reachable<'a>(graph: &'a Graph, from: &'a String) -> BTreeSet<&'a String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        for next in graph.get(name).into_iter().flatten() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitive_circles_are_one_group() {
        let arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e")];
        let mut graph = Graph::new();
        for (from, to) in arrows {
            graph.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        let expected: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(components(&graph), BTreeSet::from([expected]));
    }
}

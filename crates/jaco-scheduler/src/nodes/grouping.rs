//! Which domain each node belongs to: the combination of its values of some spread criteria.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_types::Node;
use jaco_types::spec::SpreadCriterion;

use super::index::NodeIx;
use crate::attribute::value_of;

/// Every node's domain under some criteria, and the tree that the domains form.
#[derive(Debug)]
pub(crate) struct Grouping {
    /// The domain of each node, by its place in the table.
    of_node: Vec<usize>,
    /// The values of each domain, in the order of the criteria. Sorted, so that the domains below a
    /// branch of the tree are neighbours.
    paths: Vec<Vec<DomainValue>>,
}

/// The value of one criterion: its place among the values that any node has, in their order. A node
/// without a value gets replicas only when no other takes them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DomainValue {
    /// The number first: it orders values as their text does, and is compared faster.
    Of {
        number: usize,
        text: Arc<str>,
    },
    None,
}

/// The values of a criterion that nodes have, numbered in their order.
type Numbers<'n> = BTreeMap<Cow<'n, str>, (Arc<str>, usize)>;

impl Grouping {
    /// Groups all nodes, which come in the order of the table.
    pub(crate) fn new(nodes: &[&Node], criteria: &[&SpreadCriterion]) -> Self {
        let numbers: Vec<_> = criteria.iter().map(|c| numbers(nodes, c)).collect();
        let path_of = |node: &&Node| -> Vec<DomainValue> {
            let levels = criteria.iter().zip(&numbers);
            levels.map(|(criterion, numbers)| value(node, criterion, numbers)).collect()
        };
        let of_nodes: Vec<_> = nodes.iter().map(path_of).collect();
        let paths: BTreeSet<_> = of_nodes.iter().cloned().collect();
        let paths: Vec<_> = paths.into_iter().collect();
        let place = |path| paths.binary_search(path).expect("every path is among the paths");
        Self { of_node: of_nodes.iter().map(place).collect(), paths }
    }

    pub(crate) fn domain_of(&self, node: NodeIx) -> usize {
        self.of_node[node.0]
    }

    /// The value of a domain at a level of the tree.
    pub(crate) fn value(&self, domain: usize, level: usize) -> &DomainValue {
        &self.paths[domain][level]
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }
}

fn numbers<'n>(nodes: &[&'n Node], criterion: &SpreadCriterion) -> Numbers<'n> {
    let values = nodes.iter().filter_map(|node| value_of(node, &criterion.attribute));
    let values: BTreeSet<Cow<'_, str>> = values.collect();
    let numbered = values.into_iter().enumerate();
    let entry = |(number, text): (usize, Cow<'n, str>)| {
        let shared = Arc::from(&*text);
        (text, (shared, number))
    };
    numbered.map(entry).collect()
}

fn value(node: &Node, criterion: &SpreadCriterion, numbers: &Numbers<'_>) -> DomainValue {
    let known = value_of(node, &criterion.attribute).and_then(|text| numbers.get(&*text));
    known.map_or(DomainValue::None, |(text, number)| DomainValue::Of {
        number: *number,
        text: Arc::clone(text),
    })
}

impl DomainValue {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Of { text, .. } => Some(text),
            Self::None => None,
        }
    }

    pub(crate) fn number(&self) -> Option<usize> {
        match self {
            Self::Of { number, .. } => Some(*number),
            Self::None => None,
        }
    }
}

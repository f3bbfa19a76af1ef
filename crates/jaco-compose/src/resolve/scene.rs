//! What the facts of a service are read from.

use crate::facts::Constraints;
use crate::overlay::types::{JacoYaml, ServiceOverlay};
use crate::resolve::options::{Contents, Override};
use crate::resolve::ports::Publishing;
use crate::yaml::node::{Map, Node};

/// What the facts of a service are made from.
pub(crate) struct Scene<'s> {
    pub(crate) deployment: &'s str,
    pub(crate) name: &'s str,
    pub(crate) service: &'s Map,
    pub(crate) overlay: &'s JacoYaml,
    pub(crate) constraints: &'s Constraints,
    pub(crate) own: Option<&'s ServiceOverlay>,
    pub(crate) given: Option<&'s Override>,
    pub(crate) contents: &'s Contents,
    pub(crate) publishing: Publishing,
}

pub(crate) fn text<'m>(map: &'m Map, key: &str) -> Option<&'m str> {
    map.get(key).and_then(Node::as_str)
}

/// Walks `a.b.c` from a node.
pub(crate) fn below<'n>(node: Option<&'n Node>, path: &[&str]) -> Option<&'n Node> {
    path.iter().try_fold(node?, |node, key| node.get(key))
}

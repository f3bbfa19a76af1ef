//! What a check of a tree carries along, and its two most common messages.

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::diagnostics::report::{Finding, Report};
use crate::diagnostics::source::Pos;
use crate::yaml::node::Node;

/// What a walk needs beside the tree.
pub(crate) struct Checker<'c> {
    /// Takes what is wrong.
    pub(crate) report: &'c mut Report,
    /// Ports that ranges were expanded to so far.
    pub(crate) ports: &'c mut usize,
    /// What the file is, for messages about its top level.
    pub(crate) what: &'c str,
    /// The folder that relative paths of this file start from.
    pub(crate) dir: &'c str,
    /// The home folder for `~`, if the caller gave one.
    pub(crate) home: Option<&'c str>,
}

impl Checker<'_> {
    /// Reports a value of the wrong type.
    pub(crate) fn wrong_type(
        &mut self,
        node: &Node,
        path: Path<'_>,
        expected: &str,
    ) -> &mut Finding {
        let message = if path.is_root() {
            format!("{} is {}", self.what, node.kind())
        } else {
            format!("`{path}` is {}", node.kind())
        };
        self.report.error(node.pos, Code::WrongType, message).expected(expected)
    }

    /// Reports a value of the right type that means nothing.
    pub(crate) fn invalid(
        &mut self,
        pos: Pos,
        path: Path<'_>,
        shown: &str,
        expected: &str,
    ) -> &mut Finding {
        let message = format!("`{path}` cannot be `{shown}`");
        self.report.error(pos, Code::InvalidValue, message).expected(expected)
    }
}

//! The path of a value in a tree: `services.web.ports[0]`.

use std::fmt;

/// Where in the tree a value is, for messages; built without allocating.
#[derive(Clone, Copy)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Self>,
    name: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    pub(crate) fn root(name: &'p str) -> Self {
        Self { parent: None, name: Step::Key(name) }
    }

    pub(crate) fn key(&'p self, name: &'p str) -> Self {
        Self { parent: Some(self), name: Step::Key(name) }
    }

    /// Whether this is the file itself, which has no name.
    pub(crate) fn is_root(&self) -> bool {
        self.parent.is_none() && matches!(self.name, Step::Key(""))
    }

    pub(crate) fn index(&'p self, index: usize) -> Self {
        Self { parent: Some(self), name: Step::Index(index) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.name {
            Step::Key(name) if self.parent.is_some_and(|parent| !parent.is_root()) => {
                write!(f, ".{name}")
            }
            Step::Key(name) => f.write_str(name),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

//! Shapes that several tables use.

use crate::support::shape::Shape;

pub(crate) static STR: Shape = Shape::Str;

pub(crate) static PAIRS: Shape = Shape::Label;

pub(crate) const LABELS: Shape = Shape::Pairs(&Shape::Label);

//! Why a listener is not open.

/// Why a listener is not open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Its address is that of another node: there is nothing to listen on here until this node has it.
    Elsewhere,
    /// This, with what to do.
    Failed(String),
}

//! What tools that attack servers find in an edge.

mod scanned;
mod slow;

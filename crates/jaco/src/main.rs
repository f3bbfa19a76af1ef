//! Entry point of `jaco`.

fn main() {}

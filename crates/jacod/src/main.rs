//! Entry point of `jacod`.

fn main() {}

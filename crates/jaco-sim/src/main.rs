//! `jaco-sim FILE`: runs a script and prints its transcript.

#![allow(clippy::print_stdout, reason = "the transcript is the result")]

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("usage: jaco-sim FILE")?;
    let script = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    print!("{}", jaco_sim::script::run(&script)?);
    Ok(())
}

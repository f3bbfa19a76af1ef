//! `jaco whatif`

use jaco_proto::v1::{HypotheticalNode, HypotheticalScale, WhatifRequest};
use jaco_sentences::whatif as supposed;

use crate::deploy::whatif::whatif;
use crate::session::{CommandResult, Session};

/// Show what would change in a hypothetical cluster
///
/// The leader runs the planner on a copy of the state with the changes given: which replicas would move
/// where, which would be pending, and whether any one node or zone could then be lost. All options apply
/// together. Nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco whatif --lose n3
  jaco whatif --lose n3 --lose n4 -o json
  jaco whatif --drain n2
  jaco whatif --add 'n9 zone=c cpu=8 ram=32G' --scale web=12
  jaco whatif --add 'n9 cpu=32 ram=128G gpus=4' --scale train=4
  jaco whatif --scale shop/web=0")]
#[group(required = true, multiple = true)]
pub(crate) struct Args {
    /// Lose this node
    #[arg(long, value_name = "NODE")]
    lose: Vec<String>,
    /// Drain this node
    #[arg(long, value_name = "NODE")]
    drain: Vec<String>,
    /// Add this node: its name and resources; cpu in cores, ram with M, G or T, os, arch, gpus as a number
    /// or DRIVER:NUMBER (default driver nvidia), and labels. Without cpu or ram its capacity is unlimited
    #[arg(long, value_name = "'NODE KEY=VALUE…'", value_parser = supposed::node)]
    add: Vec<HypotheticalNode>,
    /// Scale this service; the deployment may be omitted if the name is unambiguous
    #[arg(long, value_name = "[DEPLOYMENT/]SERVICE=N", value_parser = supposed::scale)]
    scale: Vec<HypotheticalScale>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let Args { lose, drain, add, scale } = args;
    let plan = whatif(session, WhatifRequest { lose, add, scale, drain }).await?;
    session.done(&plan)
}

//! `jaco node facts`

use jaco_proto::v1::{NodeFactsInfo, NodeFactsRequest};
use jaco_types::ErrorCode;

use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, machine};

pub(super) async fn run(
    session: &mut Session,
    node: Option<String>,
    generate: bool,
) -> CommandResult {
    let request = NodeFactsRequest { hostname: node.unwrap_or_default() };
    let nodes = session.client()?.node_facts(request).await?.nodes;
    if generate {
        return session.done(&capacity_blocks(&nodes)?);
    }
    session.done(&List { items: &nodes, json: machine::json, text: machine::table })
}

/// The blocks of several nodes are documents of one YAML stream.
fn capacity_blocks(nodes: &[NodeFactsInfo]) -> Result<Summary, CliError> {
    let unknown = nodes.iter().find(|node| node.cores == 0 || node.memory_bytes == 0);
    if let Some(unknown) = unknown {
        let name = &unknown.hostname;
        return Err(CliError::Refused {
            code: ErrorCode::Unavailable,
            message: format!("{name} has not reported its hardware"),
            help: Some(format!(
                "it does so when its daemon runs this version and its engine answers: see jaco node \
                 get {name}"
            )),
        });
    }
    let blocks: Vec<_> = nodes.iter().map(machine::capacity_block).collect();
    let json = nodes.iter().map(machine::capacity_json).collect();
    Ok(Summary { json, text: blocks.join("---\n") })
}

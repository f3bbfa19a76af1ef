//! What a node gives to a support bundle: the end of its daemon's log, and its metrics.

use std::time::Duration;

use jaco_proto::v1;
use jaco_types::{Author, ErrorCode, Identity, Rejection};
use tonic::Request;

use crate::member::Member;
use crate::openmetrics;
use crate::service::cluster::find_node;
use crate::service::others::LATE;
use crate::status::from_status;

/// Deadline of another node.
const PATIENCE: Duration = Duration::from_secs(5);

/// The answer of the node that is named, or of this one.
///
/// # Errors
/// If there is no such node, or it does not answer.
pub(super) async fn files(
    member: &Member,
    by: &Author,
    request: &v1::SupportFilesRequest,
) -> Result<v1::SupportFilesResponse, Rejection> {
    let asked = match (request.node.as_str(), &by.by) {
        // Whoever asks as a member asks this one.
        ("", _) | (_, Identity::Node { .. }) => member.id,
        (name, _) => member.store.read(|state| find_node(state, name))?,
    };
    if asked == member.id {
        return Ok(v1::SupportFilesResponse {
            node: member.hostname.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            log: member.log.text(),
            metrics: String::from_utf8_lossy(&openmetrics::document(member).await).into_owned(),
        });
    }
    let address = member.store.read(|state| Some(state.nodes.get(&asked)?.address.clone()));
    let unreachable = |why: String| {
        let message = format!("node {} cannot be reached: {why}", request.node);
        Rejection::new(ErrorCode::Unavailable, message)
    };
    let address = address.ok_or_else(|| unreachable("it is no member any more".to_owned()))?;
    let mut node = member.peers.query(asked, &address);
    let mut request = Request::new(v1::SupportFilesRequest { node: String::new() });
    request.set_timeout(PATIENCE);
    match tokio::time::timeout(PATIENCE, node.support_files(request)).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(unreachable(from_status(&status).message)),
        Err(_) => Err(unreachable(LATE.to_owned())),
    }
}

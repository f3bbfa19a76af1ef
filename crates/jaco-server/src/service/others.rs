//! A question to all other members at the same time.

use std::time::Duration;

use jaco_types::NodeId;
use tonic::{Request, Response, Status};

use crate::member::Member;
use crate::status::from_status;

/// The reason for a node that did not answer.
pub(super) const LATE: &str = "no response before the deadline";

/// Asks each other member, and returns for each host name what it answers within the deadline, or why it does not. `ask` sends
/// the request to the node of this id at this address.
pub(super) async fn ask_others<Q: Clone, A, F>(
    member: &Member,
    question: &Q,
    deadline: Duration,
    ask: impl Fn(NodeId, String, Request<Q>) -> F,
) -> Vec<(String, Result<A, String>)>
where
    F: Future<Output = Result<Response<A>, Status>>,
{
    let others: Vec<(NodeId, String, String)> = member.store.read(|state| {
        let others = state.nodes.values().filter(|node| node.id != member.id);
        others.map(|node| (node.id, node.hostname.to_string(), node.address.clone())).collect()
    });
    let asked = others.into_iter().map(|(node, hostname, address)| {
        let mut question = Request::new(question.clone());
        question.set_timeout(deadline);
        let answer = tokio::time::timeout(deadline, ask(node, address, question));
        async {
            let answer = match answer.await {
                Ok(Ok(answer)) => Ok(answer.into_inner()),
                Ok(Err(status)) => Err(from_status(&status).message),
                Err(_) => Err(LATE.to_owned()),
            };
            (hostname, answer)
        }
    });
    futures::future::join_all(asked).await
}

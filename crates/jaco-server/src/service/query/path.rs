//! Whether a replica reaches a service or replica: asks the routers on the way, and leaves the judgement to
//! [`crate::view::path`].

use std::collections::BTreeMap;

use futures::future::join_all;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_store::Store;
use jaco_types::{NodeId, Rejection};

use crate::member::Member;
use crate::service::peer::edge;
use crate::service::peer::probe::probe_all;
use crate::status::invalid;
use crate::view::path::{
    Course, Destination, Walk, asked, askers, destination, walk, walk_from_outside,
};
use crate::view::ways::with_routers;

/// How long packets are sent where they are not answered, in milliseconds.
const WINDOW_MS: u32 = 1500;

/// Nodes whose replicas ask, where a service is on many.
const ASKERS_MAX: usize = 8;

/// Walks from one replica of each node that the service is on.
///
/// # Errors
/// When one of the ends does not exist, or an address from outside is none.
pub(super) async fn explain(
    member: &Member,
    request: &v1::ExplainPathRequest,
) -> Result<v1::ExplainPathResponse, Rejection> {
    if !request.url.is_empty() {
        return from_outside(member, &request.url).await;
    }
    let port = u16::try_from(request.port)
        .map_err(|_| invalid(format!("{} is no TCP port: use 1 to 65535", request.port)))?;
    let state = member.store.snapshot();
    let to = destination(&state, &request.to, port)?;
    let mut askers = askers(&state, &request.from)?;
    askers.truncate(ASKERS_MAX);
    let asked = askers.iter().map(|asker| asker.id.replica.to_string()).collect();
    let walk_from = async |asker| match Course::begin(&state, asker, &to) {
        Ok(course) => (asker, ask(member, &state, course, &to).await),
        Err(broken) => (asker, broken),
    };
    let walks = join_all(askers.iter().map(walk_from)).await;
    let shown = walks.iter().find(|(_, walked)| !walked.holds()).or_else(|| walks.first());
    let (from, from_node, steps) = match shown {
        Some((asker, walked)) => {
            let node = crate::view::hostname(&state, asker.node);
            (asker.id.replica.to_string(), node, walked.steps())
        }
        None => (request.from.clone(), String::new(), Walk::nobody(&request.from).steps()),
    };
    let (to, port) = (to.to_string(), request.port);
    Ok(v1::ExplainPathResponse { from, from_node, to, port, steps, asked })
}

/// Walks from outside through the edges of all nodes.
async fn from_outside(member: &Member, url: &str) -> Result<v1::ExplainPathResponse, Rejection> {
    let asked = asked(url)?;
    let state = member.store.snapshot();
    let question = v1::ProbeEdgeRequest {
        min_index: state.index.0,
        host: asked.host.clone(),
        path: asked.path.clone(),
    };
    let reports = edge::probe_all(member, &with_routers(&state), &question).await;
    let walked = walk_from_outside(&state, &asked, member.clock.now(), &reports);
    let (from, to) = ("outside".to_owned(), url.to_owned());
    Ok(v1::ExplainPathResponse { from, to, steps: walked.steps(), ..Default::default() })
}

/// Asks the routers of both ends at the same time.
async fn ask(member: &Member, state: &ClusterState, course: Course<'_>, to: &Destination) -> Walk {
    let question = v1::ProbeRouterRequest {
        min_index: state.index.0,
        window_ms: WINDOW_MS,
        ..v1::ProbeRouterRequest::default()
    };
    let mut questions: BTreeMap<NodeId, v1::ProbeRouterRequest> =
        course.nodes().map(|node| (node, question.clone())).collect();
    let targets = course.targets().map(|address| address.to_string());
    let of_asker = v1::ProbeRouterRequest {
        asker: course.source.to_string(),
        name: course.name.clone(),
        port: u32::from(to.port),
        targets: if to.port == 0 { Vec::new() } else { targets.collect() },
        ..question
    };
    questions.insert(course.asker.node, of_asker);
    let reports = probe_all(member, questions).await;
    walk(state, &course, to, &reports)
}

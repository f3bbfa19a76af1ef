//! What would happen: the answers of the planner, and the pages before actions. Changes nothing.

use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use jaco_ui::action::Action;
use jaco_ui::link::{ACTIONS, WHATIF};
use jaco_ui::{ActionPage, Once, Outcome, Part, Supposed, WhatifPage};
use tonic::codegen::http::StatusCode;
use tonic::codegen::http::request::Parts;

use super::change::{drained, revised, serving};
use super::origin::parameter;
use super::read::{Render, cluster, in_words, part, problem, status, with_cluster};
use crate::forward::fresh_request_id;
use crate::gateway::{self, Rpcs, refused};
use crate::status::invalid;

/// Reads what a page of what would be needs; none if it is a page of what is.
pub(super) async fn read(rpcs: &Rpcs, head: &Parts) -> Option<Render> {
    let path = head.uri.path().trim_end_matches('/');
    if path == WHATIF {
        return Some(whatif(rpcs, head).await);
    }
    let name = path.strip_prefix(ACTIONS)?;
    Some(action(rpcs, head, name).await)
}

/// What would be if nodes were lost, drained or added, or services scaled.
async fn whatif(rpcs: &Rpcs, head: &Parts) -> Render {
    let supposed = Supposed {
        lose: parameters(head, "lose", " "),
        drain: parameters(head, "drain", " "),
        scale: parameters(head, "scale", " "),
        add: parameters(head, "add", ";"),
    };
    let answer = async {
        match supposed.request() {
            Err(message) => Some((None, Err(in_words(&invalid(message))))),
            Ok(None) => None,
            Ok(Some(request)) => Some((Some(request.clone()), preview(rpcs, request).await)),
        }
    };
    let (cluster, status, answer) = tokio::join!(cluster(rpcs), status(rpcs, ""), answer);
    with_cluster("What if", cluster, move |cluster, frame| {
        let page = WhatifPage { cluster, supposed, status, answer };
        (StatusCode::OK, page.html(frame))
    })
}

/// The page before an action.
async fn action(rpcs: &Rpcs, head: &Parts, name: &str) -> Render {
    let action = match Action::read(name, &|field| parameter(head, field)) {
        Ok(action) => action,
        Err(message) => {
            let refused = invalid(message);
            return Box::new(move |frame| problem("No action".to_owned(), &refused, None, frame));
        }
    };
    let plan = async {
        let request = planned(&action)?;
        Some(tokio::join!(preview(rpcs, request), status(rpcs, "")))
    };
    let (cluster, based_on, plan) = tokio::join!(cluster(rpcs), based_on(rpcs, &action), plan);
    with_cluster(action.title(), cluster, move |cluster, frame| {
        let once = |based_on| Once { request_id: fresh_request_id(), based_on };
        let (code, refused, once) = match based_on {
            Ok(based_on) => (StatusCode::OK, None, based_on.map(once)),
            Err(why) => (gateway::status(&why), Some((in_words(&why), Outcome::Nothing)), None),
        };
        let page = ActionPage { cluster, action: &action, plan, refused, once };
        (code, page.html(frame))
    })
}

/// The question that says what an action would move; none for one that moves nothing, or starts where it is.
fn planned(action: &Action) -> Option<v1::WhatifRequest> {
    let asked = match action {
        Action::Scale { deployment, service, replicas } => {
            let (deployment, service) = (deployment.clone(), service.clone());
            let scale = v1::HypotheticalScale { deployment, service, replicas: (*replicas)? };
            v1::WhatifRequest { scale: vec![scale], ..Default::default() }
        }
        Action::Drain { node, .. } | Action::Remove { node } => drained(node),
        Action::RemoveLost { node } => {
            v1::WhatifRequest { lose: vec![node.clone()], ..Default::default() }
        }
        Action::Restart { .. }
        | Action::Run { .. }
        | Action::Disable(_)
        | Action::Enable(_)
        | Action::Rollback { .. }
        | Action::Delete { .. }
        | Action::Cordon { .. }
        | Action::Uncordon { .. } => return None,
    };
    Some(asked)
}

async fn preview(rpcs: &Rpcs, request: v1::WhatifRequest) -> Part<v1::Preview> {
    let answer = part(rpcs.planner().whatif(request)).await?;
    answer.preview.ok_or_else(|| {
        in_words(&Rejection::new(ErrorCode::Internal, "the leader answered without a plan"))
    })
}

/// What the form of an action is made from; none while something is left to be filled in.
///
/// # Errors
/// Why the action would be refused, as far as this is known before.
async fn based_on(rpcs: &Rpcs, action: &Action) -> Result<Option<u64>, Rejection> {
    match action {
        Action::Scale { deployment, replicas: None, .. } => {
            serving(rpcs, deployment, 0).await?;
            Ok(None)
        }
        Action::Scale { deployment, .. } | Action::Restart { deployment, .. } => {
            let serving = serving(rpcs, deployment, 0).await?;
            let revision = serving.instead_of;
            revised(serving, action)?;
            Ok(Some(revision))
        }
        Action::Remove { node } | Action::RemoveLost { node } => {
            let status = rpcs.cluster().status(v1::ClusterStatusRequest {}).await;
            let nodes = status.map_err(refused)?.into_inner().nodes;
            let found = nodes.into_iter().find(|known| known.hostname == *node);
            let missing =
                || Rejection::new(ErrorCode::NodeNotFound, format!("there is no node {node}"));
            Ok(Some(found.ok_or_else(missing)?.id))
        }
        Action::Run { .. }
        | Action::Disable(_)
        | Action::Enable(_)
        | Action::Rollback { .. }
        | Action::Delete { .. }
        | Action::Cordon { .. }
        | Action::Uncordon { .. }
        | Action::Drain { .. } => Ok(Some(0)),
    }
}

/// All values that a parameter of the query has, in one text.
fn parameters(head: &Parts, name: &str, between: &str) -> String {
    let query = head.uri.query().unwrap_or_default();
    let values = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
    let values: Vec<String> = values.map(|(_, value)| value.trim().to_owned()).collect();
    values.join(between)
}

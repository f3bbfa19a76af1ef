//! Which page is at which path.

use jaco_types::{ErrorCode, Rejection};
use jaco_ui::Frame;
use tonic::codegen::http::StatusCode;
use tonic::codegen::http::request::Parts;

use super::origin::parameter;
use super::read::{self, Render, problem};
use super::{closer, earlier, suppose};
use crate::gateway::Rpcs;

/// What is at a path.
#[derive(Debug, PartialEq, Eq)]
enum View<'p> {
    Overview,
    Deployment(&'p str),
    Node(&'p str),
    Why,
    Audit,
    Difference(&'p str),
    Logs,
    Network,
    Nothing,
}

fn at(path: &str) -> View<'_> {
    let segments: Vec<&str> = path.trim_end_matches('/').split('/').skip(2).collect();
    match segments[..] {
        [] => View::Overview,
        ["deployments", name] => View::Deployment(name),
        ["deployments", name, "diff"] => View::Difference(name),
        ["nodes", name] => View::Node(name),
        ["why"] => View::Why,
        ["audit"] => View::Audit,
        ["logs"] => View::Logs,
        ["network"] => View::Network,
        _ => View::Nothing,
    }
}

/// Reads what a page needs.
pub(super) async fn read(rpcs: &Rpcs, head: &Parts) -> Render {
    if let Some(of_what_would_be) = suppose::read(rpcs, head).await {
        return of_what_would_be;
    }
    let index = match earlier::index(head) {
        Ok(index) => index,
        Err(rejection) => {
            let heading = "Not found".to_owned();
            return Box::new(move |frame: &Frame| problem(heading, &rejection, None, frame));
        }
    };
    let find = || parameter(head, "find").unwrap_or_default();
    match (at(head.uri.path()), index) {
        (View::Overview, Some(index)) => earlier::overview(rpcs, find(), index).await,
        (View::Deployment(name), Some(index)) => earlier::deployment(rpcs, name, index).await,
        (View::Node(name), Some(index)) => earlier::node(rpcs, name, index).await,
        (view, _) => read_now(rpcs, head, view).await,
    }
}

async fn read_now(rpcs: &Rpcs, head: &Parts, view: View<'_>) -> Render {
    match view {
        View::Overview => read::overview(rpcs, parameter(head, "find").unwrap_or_default()).await,
        View::Deployment(name) => read::deployment(rpcs, name).await,
        View::Node(name) => read::node(rpcs, name).await,
        View::Why => read::why(rpcs, head).await,
        View::Audit => read::audit(rpcs, head).await,
        View::Difference(name) => closer::difference(rpcs, head, name).await,
        View::Logs => closer::logs(rpcs, head).await,
        View::Network => closer::network(rpcs).await,
        View::Nothing => {
            let message = "there is nothing at this path of the page: the overview leads to all that there is";
            let heading = "Not found".to_owned();
            let refused = Rejection::new(ErrorCode::InvalidRequest, message);
            Box::new(move |frame: &Frame| {
                let (_, html) = problem(heading, &refused, None, frame);
                (StatusCode::NOT_FOUND, html)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_views() {
        for (path, expected) in [
            ("/ui", View::Overview),
            ("/ui/", View::Overview),
            ("/ui/deployments/shop", View::Deployment("shop")),
            ("/ui/nodes/n1", View::Node("n1")),
            ("/ui/why", View::Why),
            ("/ui/audit/", View::Audit),
            ("/ui/logs", View::Logs),
            ("/ui/network", View::Network),
            ("/ui/deployments/shop/diff", View::Difference("shop")),
            ("/ui/deployments", View::Nothing),
            ("/ui/deployments/shop/x", View::Nothing),
            ("/ui/x", View::Nothing),
        ] {
            assert_eq!(at(path), expected, "{path}");
        }
    }
}

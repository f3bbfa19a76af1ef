//! Tells browsers when to fetch a page again: server-sent events, fed by the watch of the status.
//!
//! An event says that something has changed, not what: the page has that, made anew for who reads it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::codec::Streaming;
use tonic::codegen::http::Response;
use tonic::codegen::http::request::Parts;

use super::answer;
use super::origin::parameter;
use crate::gateway::{Rpcs, refused};

/// Browsers that listen at a time.
pub(super) const LISTENERS_MAX: usize = 64;

/// The least time between two events: a page costs more than an event. The first one of several changes is told at once.
const PAUSE: Duration = Duration::from_millis(250);

/// How often a comment is sent while nothing changes, so that both ends notice when the other one is gone.
pub(super) const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// The place of one that listens, for as long as it is held.
///
/// # Errors
/// `overloaded` if too many listen.
pub(super) fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Rejection> {
    Arc::clone(places).try_acquire_owned().map_err(|_| {
        let message = format!("{LISTENERS_MAX} browsers listen to this node already");
        Rejection::new(ErrorCode::Overloaded, message)
    })
}

/// Events for a browser, from now on: one at once, and one for each change of what a status shows.
///
/// # Errors
/// Those of the watch.
pub(super) async fn listen(
    rpcs: &Rpcs,
    head: &Parts,
    place: OwnedSemaphorePermit,
) -> Result<Response<Body>, Rejection> {
    let deployment = parameter(head, "deployment").unwrap_or_default();
    let request = v1::StatusRequest { deployment, in_parts: true, ..v1::StatusRequest::default() };
    let parts = rpcs.query().watch(request).await.map_err(refused)?.into_inner();
    let listener = Listener { parts, has_told: false, _place: place };
    let events = futures::stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(event)), listener))
    });
    Ok(answer::stream(Body::new(StreamBody::new(events))))
}

struct Listener {
    parts: Streaming<v1::StatusResponse>,
    has_told: bool,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    /// The next event; none once the watch has ended.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_told {
            tokio::time::sleep(PAUSE).await;
        }
        self.has_told = false;
        loop {
            let part = tokio::time::timeout(COMMENT_INTERVAL, self.parts.message()).await;
            match part {
                Err(_) => return Some(Bytes::from_static(b": nothing new\n\n")),
                Ok(Ok(Some(part))) if !part.more => {
                    self.has_told = true;
                    return Some(format!("event: changed\ndata: {}\n\n", part.raft_index).into());
                }
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None) | Err(_)) => return None,
            }
        }
    }
}

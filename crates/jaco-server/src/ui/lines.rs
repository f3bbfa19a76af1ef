//! Log lines for an open page, as they come: server-sent events with the lines in the words of the page.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http_body::Frame;
use http_body_util::StreamBody;
use jaco_proto::v1;
use jaco_types::Rejection;
use jaco_ui::{Named, line_text};
use tokio::sync::OwnedSemaphorePermit;
use tonic::body::Body;
use tonic::codec::Streaming;
use tonic::codegen::http::Response;
use tonic::codegen::http::request::Parts;

use super::answer;
use super::closer::{logs_request, number};
use super::events::COMMENT_INTERVAL;
use crate::gateway::{Rpcs, refused};

/// The least time between two events. Lines that come meanwhile go together.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of lines after which an event has no further one. A line has at most some tens of KiB.
const BYTES_MAX: usize = 1 << 16;

/// The lines that a request selects, from the moment on that it names, and all that follow.
///
/// # Errors
/// Those of the logs.
pub(super) async fn follow(
    rpcs: &Rpcs,
    head: &Parts,
    place: OwnedSemaphorePermit,
) -> Result<Response<Body>, Rejection> {
    let since = number(head, "since", i64::MAX as u64)?.and_then(|since| i64::try_from(since).ok());
    let request = logs_request(rpcs, head).await?;
    let names = Named::of(&request.replica);
    let request = v1::LogsRequest {
        follow: true,
        since_ms: since.unwrap_or_default(),
        // As many as the page would have had, if it had none.
        last: request.last.filter(|_| since.is_none()),
        tail: 0,
        ..request
    };
    let lines = rpcs.query().logs(request).await.map_err(refused)?.into_inner();
    let follower = Follower { lines, names, has_told: false, _place: place };
    let events = futures::stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(event)), follower))
    });
    Ok(answer::stream(Body::new(StreamBody::new(events))))
}

struct Follower {
    lines: Streaming<v1::LogLine>,
    names: Named,
    has_told: bool,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    /// The next event; none once there will be no more lines.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_told {
            tokio::time::sleep(PAUSE).await;
        }
        self.has_told = false;
        let Ok(first) = tokio::time::timeout(COMMENT_INTERVAL, self.lines.message()).await else {
            return Some(Bytes::from_static(b": nothing new\n\n"));
        };
        let mut event = String::from("event: lines\n");
        self.add(&mut event, &first.ok()??);
        while event.len() < BYTES_MAX {
            // What ends the lines is seen by the next event.
            let Some(Ok(Some(line))) = self.lines.message().now_or_never() else { break };
            self.add(&mut event, &line);
        }
        event.push('\n');
        self.has_told = true;
        Some(event.into())
    }

    fn add(&self, event: &mut String, line: &v1::LogLine) {
        for part in line_text(line, self.names).split('\n') {
            event.push_str("data: ");
            event.push_str(part);
            event.push('\n');
        }
    }
}

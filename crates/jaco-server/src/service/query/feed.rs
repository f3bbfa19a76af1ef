//! Status answers. All who ask for the same at a time share one rendering, encoded once. A reader gets it once it asks
//! for more: nothing is queued for a slow one, who misses what lies between.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use jaco_proto::v1;
use jaco_store::Store;
use jaco_types::{ErrorCode, Rejection};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

use super::{earlier, overview};
use crate::answers::{Answer, Reading, Withdrawn};
use crate::feeds::{Feed, Rendering, Subject, give_back};
use crate::freshness::Freshness;
use crate::member::Member;
use crate::status::to_status;

/// How often a feed looks whether its answers are still current.
const FRESHNESS_INTERVAL: Duration = Duration::from_secs(1);

/// How often a feed looks at the progress of pulls: nodes tell it once a second.
const PULLS_INTERVAL: Duration = Duration::from_secs(1);

/// The status as of a moment after the call, in parts. All who ask for the same at a time share it.
///
/// # Errors
/// As [`watch`].
pub(super) async fn read(
    member: &Arc<Member>,
    request: v1::StatusRequest,
) -> Result<impl Stream<Item = Result<Bytes, Status>> + use<>, Rejection> {
    let form = Form::of(&request);
    let (mut newest, wanted) = join(member, request)?;
    let found = newest.wait_for(|it| it.number >= wanted).await;
    let found =
        found.map_err(|_| Rejection::new(ErrorCode::Internal, "the status was not rendered"))?;
    Ok(form.messages(Arc::clone(&found.answer)))
}

/// The status as it was at the index of the request, in parts.
///
/// # Errors
/// Those of [`earlier::read`].
pub(super) async fn read_earlier(
    member: &Arc<Member>,
    request: v1::StatusRequest,
) -> Result<impl Stream<Item = Result<Bytes, Status>> + use<>, Rejection> {
    let form = Form::of(&request);
    member.feeds.answers.room().await;
    let parts = earlier::read(member, request).await?;
    Ok(form.messages(member.feeds.answers.keep(parts)))
}

/// The status in parts, at once and whenever it has changed or is no longer current, for as long as the stream is read.
///
/// # Errors
/// `overloaded` if too many different requests are watched.
pub(super) fn watch(
    member: &Arc<Member>,
    request: v1::StatusRequest,
) -> Result<impl Stream<Item = Result<Bytes, Status>> + use<>, Rejection> {
    let form = Form::of(&request);
    let (newest, wanted) = join(member, request)?;
    let answers = futures::stream::unfold((newest, 0), move |(mut newest, seen)| async move {
        let is_news = |it: &Rendering| it.number >= wanted && it.version > seen;
        let found = newest.wait_for(is_news).await.ok()?.clone();
        Some((found.answer, (newest, found.version)))
    });
    Ok(answers.flat_map(move |answer| form.messages(answer)))
}

/// How a caller takes an answer.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A message for each part.
    Parts,
    /// One message: all that callers of earlier versions understand.
    Whole,
}

impl Form {
    fn of(request: &v1::StatusRequest) -> Self {
        if request.in_parts { Self::Parts } else { Self::Whole }
    }

    /// The messages of an answer. They end with an error if the reader took them so slowly that others needed the memory.
    fn messages(self, answer: Arc<Answer>) -> impl Stream<Item = Result<Bytes, Status>> + use<> {
        let mut parts = Reading::of(answer);
        let messages: Box<dyn Iterator<Item = _> + Send> = match self {
            Self::Parts => Box::new(parts),
            Self::Whole => {
                let whole = parts.next().map(|first| parts.try_fold(first?, joined));
                Box::new(whole.into_iter())
            }
        };
        futures::stream::iter(messages.map(|message| message.map_err(withdrawn)))
    }
}

/// Encoded messages one after another are one message with the fields of all.
fn joined(all: Bytes, part: Result<Bytes, Withdrawn>) -> Result<Bytes, Withdrawn> {
    Ok([all, part?].concat().into())
}

fn withdrawn(_: Withdrawn) -> Status {
    let message = "the status was read so slowly that its memory was needed for others; ask for one deployment, or over a \
                   faster connection";
    to_status(&Rejection::new(ErrorCode::Overloaded, message))
}

fn join(
    member: &Arc<Member>,
    request: v1::StatusRequest,
) -> Result<(watch::Receiver<Rendering>, u64), Rejection> {
    let scope = request.scope();
    let subject = Subject { deployment: request.deployment, service: request.service, scope };
    member.feeds.join(subject, |subject, feed| {
        tokio::spawn(render(Arc::clone(member), subject, feed));
    })
}

/// Renders until nobody watches.
async fn render(member: Arc<Member>, subject: Subject, feed: Arc<Feed>) {
    let _open = Open { member: &member, subject: &subject, feed: &feed };
    let request = v1::StatusRequest {
        deployment: subject.deployment.clone(),
        service: subject.service.clone(),
        scope: subject.scope.into(),
        ..v1::StatusRequest::default()
    };
    let mut index = member.store.watch_index();
    let mut last = None;
    loop {
        let mut turn = member.feeds.turn().await;
        member.feeds.answers.room().await;
        let started = Instant::now();
        let number = feed.begin();
        index.borrow_and_update();
        let rendered = overview::render(&member, &request).await;
        let rest = turn.count(started, Instant::now());
        give_back(turn, rest);
        let (was_current, has_pulls) = (rendered.is_current(), rendered.has_pulls);
        let sight = Some(rendered.sight());
        let is_new = last != sight;
        last = sight;
        let answer = member.feeds.answers.keep(rendered.parts());
        feed.newest.send_modify(|newest| {
            let version = newest.version + u64::from(is_new);
            *newest = Rendering { number, version, answer };
        });
        tokio::select! {
            changed = index.changed() => if changed.is_err() { return },
            () = feed.joined.notified() => {}
            () = freshness_change(&member, was_current) => {}
            // The progress of pulls is no change of the state.
            () = tokio::time::sleep(PULLS_INTERVAL), if has_pulls => {}
            () = feed.newest.closed() => {
                if member.feeds.end_unwatched(&subject, &feed) { return }
            },
        }
    }
}

/// Ends the feed when its task ends, however that comes, so that its watchers do not wait for ever.
struct Open<'f> {
    member: &'f Member,
    subject: &'f Subject,
    feed: &'f Arc<Feed>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.member.feeds.end(self.subject, self.feed);
    }
}

/// Waits until the answers of this node are current, or no longer are.
async fn freshness_change(member: &Member, was_current: bool) {
    while (member.freshness() == Freshness::Current) == was_current {
        tokio::time::sleep(FRESHNESS_INTERVAL).await;
    }
}

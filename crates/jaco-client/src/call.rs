//! One call: tries nodes until one answers, retries what a retry can help, and ends at a deadline.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::client::Client;
use crate::error::ClientError;
use crate::retry::{Backoff, Connected, Patience, is_transient};

/// How long calls are repeated before the caller is told: who waits wants to know for what.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// A call that can be repeated: `send` sends the same request over whichever connection it is given.
pub(crate) struct Call<'c, F> {
    pub(crate) client: &'c Client,
    pub(crate) patience: Patience,
    pub(crate) send: F,
}

impl<F> Call<'_, F> {
    /// Repeats the request until there is a response, a final refusal, or no time left. Returns the
    /// endpoint that answered as well.
    pub(crate) async fn run<Q, A, R>(&self, request: Q) -> Result<(String, A), ClientError>
    where
        Q: Clone,
        A: 'static,
        F: Fn(Channel, Request<Q>) -> R,
        R: Future<Output = Result<Response<A>, Status>>,
    {
        let begun = Instant::now();
        let mut backoff = Backoff::new();
        let mut before = None;
        loop {
            let error = match self.attempt(&request).await {
                Ok(answer) => return Ok(answer),
                // The deadline cut off a repetition: the answer before says more.
                Err(error @ ClientError::TimedOut { .. }) if self.is_over() => {
                    return Err(before.unwrap_or(error));
                }
                Err(error) => error,
            };
            let pause = backoff.pause();
            let in_time = begun.elapsed() + pause < self.patience.retries
                && self.client.remaining(Duration::MAX) > pause;
            if !in_time || !is_transient(&error, self.client.connected()) {
                return Err(error);
            }
            if begun.elapsed() + pause >= TOLD_AFTER {
                self.client.tell_wait(&error);
            }
            before = Some(error);
            tokio::time::sleep(pause).await;
        }
    }

    /// Whether the deadline of the client has passed.
    fn is_over(&self) -> bool {
        self.client.remaining(Duration::MAX).is_zero()
    }

    /// Sends the request once, to the first node that can be connected to.
    async fn attempt<Q, A, R>(&self, request: &Q) -> Result<(String, A), ClientError>
    where
        Q: Clone,
        A: 'static,
        F: Fn(Channel, Request<Q>) -> R,
        R: Future<Output = Result<Response<A>, Status>>,
    {
        let limit = self.client.remaining(self.patience.attempt);
        let connected = tokio::time::timeout(limit, self.client.any_channel()).await;
        let (index, channel) = connected.map_err(|_| {
            let endpoint = self.client.node(0).endpoint.to_string();
            ClientError::TimedOut { endpoint, limit }
        })??;
        let node = self.client.node(index);
        let limit = self.client.remaining(self.patience.attempt);
        let sent = (self.send)(channel, self.client.authorized(request.clone()));
        let endpoint = node.endpoint.to_string();
        let error = match tokio::time::timeout(limit, sent).await {
            Ok(Ok(response)) => {
                self.client.note_age(response.metadata());
                self.client.note_authorities(response.metadata());
                let answer = response.into_inner();
                self.client.note_members(&answer);
                return Ok((endpoint, answer));
            }
            Ok(Err(status)) => {
                self.client.note_age(status.metadata());
                ClientError::from_status(&endpoint, &status)
            }
            Err(_) => ClientError::TimedOut { endpoint, limit },
        };
        if matches!(error, ClientError::Lost { .. } | ClientError::TimedOut { .. }) {
            node.disconnect().await;
        }
        if is_transient(&error, Connected::Before) {
            self.client.skip(index);
        }
        Err(error)
    }
}

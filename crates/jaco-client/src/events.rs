//! Audit events in their order, across lost connections and changes of leader.

use jaco_proto::v1;

use crate::client::Client;
use crate::error::ClientError;
use crate::retry::{Backoff, Met, is_passing};
use crate::stream::Answers;

/// Audit events as they happen. Every node has the same ones at the same places, so a reader that loses
/// its node goes on at any other, after the last event it has: nothing is missed, nothing comes twice.
#[derive(Debug)]
pub struct Events {
    client: Client,
    request: v1::AuditRequest,
    answers: Option<Answers<v1::AuditEvent>>,
    backoff: Backoff,
}

impl Events {
    pub(crate) fn new(client: Client, request: v1::AuditRequest) -> Self {
        Self { client, request, answers: None, backoff: Backoff::new() }
    }

    /// The next event; `None` after the last one, unless new ones are waited for. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// The cluster's refusal, or why no node answered for longer than a call may take. Nothing comes
    /// after it.
    pub async fn next(&mut self) -> Result<Option<v1::AuditEvent>, ClientError> {
        loop {
            let answers = match &mut self.answers {
                Some(answers) => answers,
                none => none.insert(self.client.audit_once(self.request.clone()).await?),
            };
            match answers.next().await {
                Ok(Some(event)) => {
                    self.resume_after(&event);
                    return Ok(Some(event));
                }
                Ok(None) if !self.request.follow => return Ok(None),
                // A daemon that stops ends its answers.
                Ok(None) => {}
                Err(error) if self.request.follow && is_passing(&error, Met::Before) => {}
                Err(error) => return Err(error),
            }
            self.answers = None;
            tokio::time::sleep(self.backoff.pause()).await;
        }
    }

    fn resume_after(&mut self, event: &v1::AuditEvent) {
        (self.request.after_index, self.request.after_number) = (event.index, event.number);
        self.request.last = 0;
        self.backoff = Backoff::new();
    }
}

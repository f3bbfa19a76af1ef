//! A stream of audit events that survives lost connections and changes of leader.

use jaco_proto::v1;

use crate::client::Client;
use crate::error::ClientError;
use crate::retry::{Backoff, Connected, is_transient};
use crate::stream::Answers;

/// Audit events in order. Every node has the same events under the same indices, so a reader whose node
/// fails resumes at another one after the last event it has: none is missed, none is repeated.
#[derive(Debug)]
pub struct Events {
    client: Client,
    request: v1::AuditRequest,
    answers: Option<Answers<v1::AuditEvent>>,
    backoff: Backoff,
}

impl Client {
    /// Audit events, oldest first, across lost connections. Sends nothing before the first
    /// [`Events::next`].
    #[must_use]
    pub fn events(&self, request: v1::AuditRequest) -> Events {
        Events { client: self.clone(), request, answers: None, backoff: Backoff::new() }
    }
}

impl Events {
    /// The next event; `None` after the last one, or never with `follow`. Cancel safe.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered within the deadline of a call. The stream has
    /// ended then.
    pub async fn next(&mut self) -> Result<Option<v1::AuditEvent>, ClientError> {
        loop {
            let answers = match &mut self.answers {
                Some(answers) => answers,
                none => none.insert(self.client.audit(self.request.clone()).await?),
            };
            match answers.next().await {
                Ok(Some(event)) => {
                    self.resume_after(&event);
                    return Ok(Some(event));
                }
                Ok(None) if !self.request.follow => return Ok(None),
                // The daemon shut down: continue at another node.
                Ok(None) => {}
                Err(error) if self.request.follow && is_transient(&error, Connected::Before) => {}
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

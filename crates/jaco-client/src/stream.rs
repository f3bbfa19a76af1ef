//! A stream of responses.

use tonic::Streaming;

use crate::error::ClientError;

/// A stream of responses to one request.
#[derive(Debug)]
pub struct Answers<T> {
    pub(crate) endpoint: String,
    pub(crate) inner: Streaming<T>,
}

impl<T> Answers<T> {
    /// The next response, or `None` after the last one. Cancel safe.
    ///
    /// # Errors
    /// The refusal of the daemon, or the loss of the connection. The stream has ended then.
    pub async fn next(&mut self) -> Result<Option<T>, ClientError> {
        let answer = self.inner.message().await;
        answer.map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }
}

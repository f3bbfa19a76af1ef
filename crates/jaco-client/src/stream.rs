//! Answers that keep coming.

use tonic::Streaming;

use crate::error::ClientError;

/// Answers to one question, until the daemon has no more or the connection is lost.
#[derive(Debug)]
pub struct Answers<T> {
    pub(crate) endpoint: String,
    pub(crate) inner: Streaming<T>,
}

impl<T> Answers<T> {
    /// The next answer, or `None` after the last one. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The daemon's refusal, or the loss of the connection. Nothing comes after it.
    pub async fn next(&mut self) -> Result<Option<T>, ClientError> {
        let answer = self.inner.message().await;
        answer.map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }
}

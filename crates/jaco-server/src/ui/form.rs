//! The fields of a form that a browser has sent, bounded in size and in time.

use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use jaco_types::{ErrorCode, Rejection};
use tonic::body::Body;

use crate::status::invalid;

/// Bytes of a form. Those of actions have names and numbers.
const BYTES_MAX: usize = 4 << 10;

/// How long a form may take to arrive.
const PATIENCE: Duration = Duration::from_secs(5);

/// A form.
#[derive(Debug)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// The form that a body is.
    ///
    /// # Errors
    /// `invalid_request` if it is too large, `timed_out` if it does not arrive.
    pub(super) async fn read(body: Body) -> Result<Self, Rejection> {
        let read = tokio::time::timeout(PATIENCE, Limited::new(body, BYTES_MAX).collect()).await;
        let late = || Rejection::new(ErrorCode::TimedOut, "the form took too long to arrive");
        let bytes = read
            .map_err(|_| late())?
            .map_err(|_| invalid(format!("the form has at most {BYTES_MAX} bytes")))?
            .to_bytes();
        Ok(Self(form_urlencoded::parse(&bytes).into_owned().collect()))
    }

    /// A field; none if it is not there or empty.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

//! Gives up requests whose callers have said that they do not wait any longer. Most of them also say so by ending the
//! stream, but not one that has lost its network.

use std::convert::Infallible;
use std::task::{self, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

/// How long the caller waits for the head of the answer.
const HEADER: &str = "grpc-timeout";

/// The most digits that the protocol allows.
const DIGITS_MAX: usize = 8;

/// Puts [`Deadline`] in front of the services.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeadlineLayer;

/// Answers in the place of services that take too long.
#[derive(Debug, Clone)]
pub(super) struct Deadline<S>(S);

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, services: S) -> Deadline<S> {
        Deadline(services)
    }
}

impl<S> Service<Request<Body>> for Deadline<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, ctx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(ctx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let header = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
        let patience = header.and_then(patience);
        let answer = self.0.call(request);
        let Some(patience) = patience else { return Either::Left(answer) };
        let in_time = tokio::time::timeout(patience, answer).map(|answer| {
            let late = || Status::cancelled("the caller waits no longer");
            answer.unwrap_or_else(|_| Ok(late().into_http()))
        });
        Either::Right(in_time.boxed())
    }
}

/// The value of the header; none where it is not what the protocol says.
fn patience(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let is_number = (1..=DIGITS_MAX).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_read_as_the_protocol_says() {
        let seconds = |value| patience(value).map(|patience| patience.as_secs_f64());
        assert_eq!(seconds("2H"), Some(7200.0));
        assert_eq!(seconds("3M"), Some(180.0));
        assert_eq!(seconds("42S"), Some(42.0));
        assert_eq!(seconds("1500m"), Some(1.5));
        assert_eq!(seconds("250000u"), Some(0.25));
        assert_eq!(seconds("99999999n"), Some(0.099_999_999));
        for wrong in ["", "S", "5", "+5S", "-5S", "5 S", "5X", "123456789S", "5é", "é"] {
            assert_eq!(patience(wrong), None, "{wrong:?}");
        }
    }

    /// A request ends at the deadline of its caller, and without one it does not.
    #[tokio::test]
    async fn requests_end_with_the_patience_of_their_callers() {
        let never = tower::service_fn(|_: Request<Body>| std::future::pending());
        let mut service = DeadlineLayer.layer(never);
        let request = |header: Option<&str>| {
            let mut request = Request::new(Body::empty());
            if let Some(value) = header {
                request.headers_mut().insert(HEADER, value.parse().unwrap());
            }
            request
        };
        let late = service.call(request(Some("50m"))).await.unwrap();
        let status = Status::from_header_map(late.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::Cancelled);
        assert!(service.call(request(None)).now_or_never().is_none());
    }
}

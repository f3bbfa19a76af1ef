//! The body of a request that is refused.

use std::time::Duration;

use bytes::Buf;
use http_body::Body;
use http_body_util::BodyExt;

/// How much of it is read.
const BYTES_MAX: usize = 16 << 10;

/// How long it may take to arrive.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads the body of a request and drops it, unless it is large or slow.
///
/// Over HTTP/2 an answer before the end of a request resets the request. Clients must keep the answer then (RFC 9113,
/// section 8.1), but some that are still sending report the reset instead: curl 7.88 ends with code 92.
pub(crate) async fn discard(mut body: impl Body + Unpin) {
    let read = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Buf::remaining);
            if bytes > BYTES_MAX {
                return;
            }
        }
    };
    // The answer is the same for a body that does not end.
    let _slow = tokio::time::timeout(PATIENCE, read).await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    fn part(length: usize) -> Result<Frame<Bytes>, Infallible> {
        Ok(Frame::data(Bytes::from(vec![b'x'; length])))
    }

    /// R-IN-3: a body costs bounded time and memory, whether it does not end or does not come.
    #[tokio::test(start_paused = true)]
    async fn bodies_that_do_not_end_are_left() {
        let mut parts = 0;
        let endless = stream::repeat_with(|| {
            parts += 1;
            part(1024)
        });
        discard(StreamBody::new(endless)).await;
        assert_eq!(parts, 17);

        let begun = tokio::time::Instant::now();
        discard(StreamBody::new(stream::iter([part(1)]).chain(stream::pending()))).await;
        assert_eq!(begun.elapsed(), PATIENCE);
    }
}

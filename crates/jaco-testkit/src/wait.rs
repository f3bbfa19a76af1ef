//! Waiting for a state, never for a time: a condition is looked at until it holds or the deadline
//! has passed, and then the last view of it is shown.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// How often [`stays`] looks: each look may cost a process.
const WATCH_PAUSE: Duration = Duration::from_millis(250);

/// Waits for `look` to say `Ok`, so long that what has not come by then hangs: of several tests at once on a slow disk, an
/// engine takes over half a minute for six containers. A promised time is for [`eventually_within`].
///
/// # Panics
/// When the deadline has passed; the message is the last `Err`.
pub async fn eventually<T, E: Debug, F: Future<Output = Result<T, E>>>(
    what: &str,
    look: impl FnMut() -> F,
) -> T {
    eventually_within(Duration::from_secs(120), what, look).await
}

/// Fails as soon as `look` returns anything but `expected` during `window`. For promises that nothing
/// happens: there is no state to wait for, so the caller bounds the time and gives the reason.
///
/// # Panics
/// With the first other value, or an error of `look`.
pub async fn stays<T: Debug + PartialEq, F: Future<Output = Result<T, String>>>(
    window: Duration,
    what: &str,
    expected: &T,
    mut look: impl FnMut() -> F,
) {
    let start = Instant::now();
    while start.elapsed() < window {
        let found = look().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(found, *expected, "{what}, after {:?}", start.elapsed());
        tokio::time::sleep(WATCH_PAUSE).await;
    }
}

/// As [`eventually`], with this deadline.
///
/// # Panics
/// As [`eventually`].
pub async fn eventually_within<T, E: Debug, F: Future<Output = Result<T, E>>>(
    deadline: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let start = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(last) if start.elapsed() >= deadline => {
                panic!("{what}: not within {deadline:?}; last seen: {last:?}");
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

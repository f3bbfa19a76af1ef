//! What a failed request says.

use std::error::Error;
use std::fmt::Write;

/// What has caused an error, from the outside in: the library's own text says only that something failed. They name a host at
/// most.
///
/// # Panics
/// Never: a text grows.
#[must_use]
pub fn causes(error: &dyn Error) -> String {
    let (mut text, mut cause) = (String::new(), error.source());
    while let Some(error) = cause {
        let separator = if text.is_empty() { "" } else { ": " };
        write!(text, "{separator}{error}").expect("a text grows");
        cause = error.source();
    }
    if text.is_empty() { error.to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Self>>);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    /// R-CLI-6: an error is told by what caused it, and by itself if nothing did.
    #[test]
    fn what_caused_an_error_is_told() {
        let refused = || Failed("connection refused", None);
        assert_eq!(causes(&refused()), "connection refused");
        let connect = Failed("tcp connect error", Some(Box::new(refused())));
        assert_eq!(causes(&connect), "connection refused");
        let client = Failed("client error", Some(Box::new(connect)));
        assert_eq!(causes(&client), "tcp connect error: connection refused");
    }
}

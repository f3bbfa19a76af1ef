//! What a request is for: an answer at once, or something that takes its time.

use crate::http::Request;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One short answer.
    Answer,
    Events,
    /// An upgraded connection without framing.
    Echo,
    Websocket,
    Download,
    Upload,
}

impl Kind {
    pub(super) fn of(request: &Request) -> Self {
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/events") => Self::Events,
            ("GET", "/socket") => Self::Echo,
            ("GET", "/websocket") => Self::Websocket,
            ("GET", "/download") => Self::Download,
            ("POST", "/upload") => Self::Upload,
            _ => Self::Answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    #[test]
    fn methods_and_paths_have_kinds() {
        let kind = |line: &str| {
            let text = format!("{line} HTTP/1.1\r\n\r\n");
            Kind::of(&http::read(&mut text.as_bytes()).expect("valid").expect("there"))
        };
        assert_eq!(kind("GET /events?count=2"), Kind::Events);
        assert_eq!(kind("GET /socket"), Kind::Echo);
        assert_eq!(kind("POST /socket"), Kind::Answer);
        assert_eq!(kind("POST /upload"), Kind::Upload);
        assert_eq!(kind("GET /"), Kind::Answer);
    }
}

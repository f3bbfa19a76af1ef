//! The bytes of a mail: text of bounded length, under an id that only the event decides, so that repeats can be dropped.

use std::time::{Duration, SystemTime};

use lettre::message::Message;
use lettre::message::header::{ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0};

use super::endpoint::MailEndpoint;
use crate::failure::SendError;

/// The most characters of a subject.
const SUBJECT_CHARS_MAX: usize = 160;

/// The most characters of another header: an id with the longest host of an address.
const HEADER_CHARS_MAX: usize = 500;

/// The most characters of a text.
const TEXT_CHARS_MAX: usize = 16_000;

/// A mail. Its receiver gets no more than a bounded part of it, and no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// One line.
    pub subject: String,
    /// Lines that end with `\n`.
    pub text: String,
    /// Its date: seconds since 1970.
    pub at_secs: u64,
}

/// The mail as it is sent.
pub(super) fn letter(to: &MailEndpoint, id: &str, mail: &Mail) -> Result<Vec<u8>, SendError> {
    let header = |name, value: &str| {
        HeaderValue::new(HeaderName::new_from_ascii_str(name), line(value, HEADER_CHARS_MAX))
    };
    let message_id = format!("<{}@{}>", id.replace('/', "."), to.from().host());
    let mut builder = Message::builder()
        .from(to.from().mailbox())
        .subject(line(&mail.subject, SUBJECT_CHARS_MAX))
        .date(SystemTime::UNIX_EPOCH + Duration::from_secs(mail.at_secs))
        .raw_header(header("Message-ID", &message_id))
        .raw_header(header("Auto-Submitted", "auto-generated"))
        .raw_header(header("X-Jaco-Event-Id", id))
        .header(MIME_VERSION_1_0)
        .header(ContentType::TEXT_PLAIN);
    for one in to.to() {
        builder = builder.to(one.mailbox());
    }
    let letter = builder.body(lines(&mail.text));
    let letter = letter.map_err(|error| SendError::Broken(error.to_string()))?;
    Ok(letter.formatted())
}

/// One line, of so many characters at most: what would end it is a space.
fn line(text: &str, chars_max: usize) -> String {
    let breaks = |one: char| one.is_control() || matches!(one, '\u{2028}' | '\u{2029}');
    let clean = |one| if breaks(one) { ' ' } else { one };
    text.chars().take(chars_max).map(clean).collect()
}

/// Lines without other control characters.
fn lines(text: &str) -> String {
    let clean = |one: char| if one.is_control() && one != '\n' { ' ' } else { one };
    text.chars().take(TEXT_CHARS_MAX).map(clean).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn to() -> MailEndpoint {
        let to = ["ann@example.com", "bob@example.com"].map(ToOwned::to_owned);
        MailEndpoint::new("smtps://a.example", "", "jaco@example.com", &to).unwrap()
    }

    fn written(id: &str, subject: &str, text: &str) -> String {
        let (subject, text) = (subject.to_owned(), text.to_owned());
        let mail = Mail { subject, text, at_secs: 1_700_000_000 };
        String::from_utf8(letter(&to(), id, &mail).unwrap()).unwrap()
    }

    /// The headers, with what they are folded into on one line.
    fn headers(letter: &str) -> Vec<String> {
        let head = letter.split_once("\r\n\r\n").expect("a head").0;
        head.replace("\r\n ", " ").split("\r\n").map(ToOwned::to_owned).collect()
    }

    /// R-OPS-1
    #[test]
    fn a_mail_has_what_receivers_sort_by() {
        let letter = written("abc/120/1", "[critical] sun: node_status", "node n1 is down\n.\n");
        let mut found = headers(&letter);
        found.sort();
        let expected = [
            "Auto-Submitted: auto-generated",
            "Content-Transfer-Encoding: 7bit",
            "Content-Type: text/plain; charset=utf-8",
            "Date: Tue, 14 Nov 2023 22:13:20 +0000",
            "From: jaco@example.com",
            "MIME-Version: 1.0",
            "Message-ID: <abc.120.1@example.com>",
            "Subject: [critical] sun: node_status",
            "To: ann@example.com, bob@example.com",
            "X-Jaco-Event-Id: abc/120/1",
        ];
        assert_eq!(found, expected);
        assert!(letter.ends_with("\r\n\r\nnode n1 is down\r\n.\r\n"), "{letter:?}");
    }

    /// R-OPS-1: a mail is as long as a mail may be, whatever an event says.
    #[test]
    fn a_mail_is_bounded() {
        let letter = written("a/1/0", &"s\u{1f980}".repeat(5000), &"t".repeat(1 << 20));
        assert!(letter.len() < 64 << 10, "{}", letter.len());
        assert!(letter.lines().all(|line| line.len() <= 998));
    }

    proptest! {
        /// R-OPS-1: nothing that an event says is a header, or ends the text: there are as many headers as ever, each line is
        /// ASCII, ends as lines do, and is short enough for every server.
        #[test]
        fn nothing_becomes_a_header(
            subject in "(.|\r|\n|\0|\u{2028}){0,40}(\r\nBcc: eve@example.com)?(.|\r|\n){0,300}",
            text in "(.|\r|\n){0,200}(\r\n\\.\r\nMAIL FROM:<eve@example.com>)?(.|\n){0,200}",
        ) {
            let letter = written("a/1/0", &subject, &text);
            let names: Vec<String> = headers(&letter)
                .iter()
                .map(|header| header.split_once(':').map_or("", |(name, _)| name).to_owned())
                .collect();
            let expected = headers(&written("a/1/0", "s", "t"));
            prop_assert_eq!(names.len(), expected.len(), "{:?}", names);
            prop_assert!(!names.iter().any(|name| name == "Bcc"));
            prop_assert!(letter.is_ascii());
            prop_assert!(!letter.replace("\r\n", "").contains(['\r', '\n']));
            prop_assert!(letter.split("\r\n").all(|line| line.len() <= 998));
        }
    }
}

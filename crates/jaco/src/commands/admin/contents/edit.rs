//! `jaco secret edit`

use jaco_client::fresh_request_id;
use jaco_proto::v1::ReadContentRequest;
use jaco_types::NamedKind;
use serde_json::json;

use super::private;
use super::set::{Stored, Terms, store};
use super::source::check;
use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::Summary;

pub(super) async fn edit(session: &mut Session, name: String, terms: Terms) -> CommandResult {
    let kind = NamedKind::Secret;
    let request = ReadContentRequest {
        kind: kind.as_str().to_owned(),
        name: name.clone(),
        request_id: fresh_request_id(),
    };
    let present = session.client()?.read_content(request).await?;
    let (text, version) = (present.content, present.version);
    if !is_text(&text) {
        return Err(CliError::usage(
            format!("the secret {name} is not text, so it cannot be edited"),
            format!("store a new value from a file: jaco secret set {name} FILE"),
        ));
    }
    let edited = private::edited(session, &name, &text).await?;
    let edited = without_added_line_break(&text, edited);
    if edited == *text {
        let json =
            json!({ "kind": "secret", "name": name, "version": version, "outcome": "unchanged" });
        let text = format!("secret {name} version {version} unchanged\n");
        return session.done(&Summary { json, text });
    }
    let content = check(kind, "the edited file", edited)?;
    store(session, Stored { kind, name, content, based_on: version, terms }).await
}

/// Whether an editor shows it as it is.
fn is_text(content: &[u8]) -> bool {
    let is_shown = |c: char| !c.is_control() || ['\n', '\t', '\r'].contains(&c);
    std::str::from_utf8(content).is_ok_and(|text| text.chars().all(is_shown))
}

/// Many editors end the last line of a file, where a secret often has no line break.
fn without_added_line_break(before: &[u8], mut edited: Vec<u8>) -> Vec<u8> {
    if !before.ends_with(b"\n") && edited.ends_with(b"\n") {
        edited.pop();
    }
    edited
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-5: what cannot be shown is no text, whatever its bytes.
    #[test]
    fn binary_values_are_recognised() {
        for text in ["hunter2", "a: 1\n\tb: ü\r\n", ""] {
            assert!(is_text(text.as_bytes()), "{text:?}");
        }
        for binary in [&b"\0"[..], b"a\x1b[0m", b"\xff\xfe", b"\x7fELF"] {
            assert!(!is_text(binary), "{binary:?}");
        }
    }

    /// R-IN-5: a line break that the editor adds is no change; one that the value had stays.
    #[test]
    fn an_added_line_break_is_no_change() {
        let after = |before: &str, edited: &str| {
            let edited = without_added_line_break(before.as_bytes(), edited.as_bytes().to_vec());
            String::from_utf8(edited).unwrap()
        };
        assert_eq!(after("a", "a\n"), "a");
        assert_eq!(after("a", "b\n\n"), "b\n");
        assert_eq!(after("a\n", "b\n"), "b\n");
        assert_eq!(after("a\n", "b"), "b");
    }
}

//! What an authority says when it refuses something: its problem document (RFC 7807), and what to do about it.

use http::StatusCode;
use jaco_types::Millis;
use serde::Deserialize;

/// What the types of problems of ACME begin with.
const PREFIX: &str = "urn:ietf:params:acme:error:";

/// The most characters of a document that are kept.
const DETAIL_CHARS_MAX: usize = 300;

/// Why an authority refused something.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct Problem {
    /// Its type, without what all types of ACME begin with: `rateLimited`.
    pub kind: String,
    /// What the authority says about it.
    pub detail: String,
    /// How long the authority wants to hear nothing more of it.
    pub retry_after: Option<Millis>,
}

#[derive(Deserialize)]
struct Document {
    r#type: Option<String>,
    detail: Option<String>,
}

impl Problem {
    /// The problem of a response that is none of a success.
    pub(crate) fn of_response(
        status: StatusCode,
        body: &[u8],
        retry_after: Option<Millis>,
    ) -> Self {
        let document = serde_json::from_slice::<Document>(body).ok();
        let kind = document.as_ref().and_then(|document| document.r#type.as_deref());
        let detail = document.as_ref().and_then(|document| document.detail.as_deref());
        let kind = kind.map_or_else(|| format!("HTTP {status}"), short);
        let detail = plain(detail.unwrap_or("it did not say why"));
        Self { kind, detail, retry_after }
    }

    /// The problem that is part of an order, an authorization or a challenge.
    pub(crate) fn of_object(problem: &instant_acme::Problem) -> Self {
        let kind = problem.r#type.as_deref().map_or_else(|| "unknown".to_owned(), short);
        let mut detail = plain(problem.detail.as_deref().unwrap_or("it did not say why"));
        if let Some(first) = problem.subproblems.first() {
            detail = plain(&format!("{detail}: {first}"));
        }
        Self { kind, detail, retry_after: None }
    }

    /// What to do about it, if more than to wait.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        Some(match self.kind.as_str() {
            "connection" => {
                "let the authority in at ports 80 and 443 of all addresses that the domain's A and AAAA records name"
            }
            "dns" => "set the A or AAAA record of the domain to nodes of this cluster",
            "unauthorized" | "incorrectResponse" | "tls" => {
                "something else answers there: let the domain's A and AAAA records name nodes of this cluster only"
            }
            "caa" => "allow the authority in the CAA record of the domain, or remove that record",
            "rejectedIdentifier" | "unsupportedIdentifier" => {
                "it does not issue for this name: store a certificate with `jaco certificate set` and name it in the \
                 route"
            }
            "externalAccountRequired" => {
                "it takes known customers only, which is not supported: set another `edge.acme.directory`"
            }
            "invalidContact" | "unsupportedContact" => "correct `edge.acme.contact` in jacod.yaml",
            "userActionRequired" => "visit the page that it names",
            _ => return None,
        })
    }
}

fn short(kind: &str) -> String {
    plain(kind.strip_prefix(PREFIX).unwrap_or(kind))
}

/// One line, and not a long one: it comes from a stranger.
fn plain(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(clean).take(DETAIL_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_said_in_its_own_words() {
        let body = br#"{"type":"urn:ietf:params:acme:error:caa","detail":"CAA record\nprevents it","status":403}"#;
        let problem = Problem::of_response(StatusCode::FORBIDDEN, body, None);
        assert_eq!(problem.to_string(), "caa: CAA record prevents it");
        assert!(problem.advice().unwrap().contains("CAA"));
    }

    #[test]
    fn a_page_of_a_proxy_is_named_by_its_status() {
        let problem = Problem::of_response(StatusCode::BAD_GATEWAY, b"<html>", None);
        assert_eq!(problem.to_string(), "HTTP 502 Bad Gateway: it did not say why");
        assert_eq!(problem.advice(), None);
    }
}

//! The body of a notification: what the audit log says of the event, and nothing that it does not say. The same event has
//! the same id at each attempt, whoever sends it. A mail is dated by its event, so that repeats are the same.

use jaco_json::audit;
use jaco_json::time::rfc3339;
use jaco_notify::{Content, Mail, Message};
use jaco_proto::v1;
use jaco_state::ClusterMeta;
use jaco_state::audit::{AuditEvent, AuditKey, Severity};
use jaco_state::notify::NotifyForm;
use jaco_types::{NotifyTargetName, Timestamp};
use serde_json::{Map, Value, json};

use crate::view;

/// The longest line of text for a chat: services cut longer ones, or refuse them.
const TEXT_CHARS_MAX: usize = 3000;

/// From which cluster to whom.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The cluster.
    pub meta: &'a ClusterMeta,
    /// The target.
    pub target: &'a NotifyTargetName,
    /// What it takes.
    pub form: NotifyForm,
}

/// The notification of an event. `pruned` is how many events this target was never told of.
#[must_use]
pub fn event_letter(
    subject: Subject<'_>,
    key: AuditKey,
    event: &AuditEvent,
    pruned: u64,
) -> Message {
    let Subject { meta, target, form } = subject;
    let shown = view::audit_event(key, event);
    let id = format!("{}/{}", meta.id, audit::place(shown.index, shown.number));
    let text = sentence(&shown);
    let severity = event.severity();
    let content = match form {
        NotifyForm::Webhook => {
            let mut body = Map::new();
            let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
            put("id", id.as_str().into());
            put("time", rfc3339(shown.at_ms).into());
            put("cluster", json!({ "id": meta.id.as_str(), "name": meta.name }));
            put("target", target.as_str().into());
            put("kind", shown.kind.as_str().into());
            put("severity", severity.as_str().into());
            for place in ["deployment", "service", "replica", "node"] {
                if let Some(value) = event.payload.get(place).filter(|value| !value.is_empty()) {
                    put(place, value.as_str().into());
                }
            }
            if pruned > 0 {
                put("pruned", pruned.into());
            }
            put("text", text.into());
            put("event", audit::json(&shown));
            json_content(&Value::Object(body))
        }
        NotifyForm::Slack => json_content(&chat(meta, severity, &text)),
        NotifyForm::Email => {
            let mut text = format!("{text}\n\n");
            let mut put = |name: &str, value: &str| text += &format!("{name:<10}{value}\n");
            put("time", &rfc3339(shown.at_ms).unwrap_or_default());
            put("severity", severity.as_str());
            put("cluster", &format!("{} ({})", cluster_name(meta), meta.id));
            put("by", &shown.by);
            put("event", &audit::place(shown.index, shown.number));
            if pruned > 0 {
                put("pruned", &format!("{pruned} events were never sent to this target"));
            }
            mail(subject, severity, &sentence(&shown), text, event.at)
        }
    };
    Message { id, content }
}

/// A notification that says that it is a test. `id` is one that no event has.
#[must_use]
pub fn test_letter(subject: Subject<'_>, id: &str, now: Timestamp) -> Message {
    let Subject { meta, target, form } = subject;
    let id = format!("{}/test/{id}", meta.id);
    let text = format!("test of the notification target {target}");
    let content = match form {
        NotifyForm::Webhook => json_content(&json!({
            "id": id,
            "time": rfc3339(view::millis(now)),
            "cluster": { "id": meta.id.as_str(), "name": meta.name },
            "target": target.as_str(),
            "kind": "test",
            "severity": Severity::Info.as_str(),
            "text": text,
        })),
        NotifyForm::Slack => json_content(&chat(meta, Severity::Info, &text)),
        NotifyForm::Email => mail(subject, Severity::Info, &text, format!("{text}\n\n"), now),
    };
    Message { id, content }
}

fn json_content(body: &Value) -> Content {
    Content::Json(body.to_string().into())
}

/// A mail whose subject is as the line of a chat.
fn mail(
    Subject { meta, target, .. }: Subject<'_>,
    severity: Severity,
    line: &str,
    mut text: String,
    at: Timestamp,
) -> Content {
    text += &format!("\n-- \nSent to the notification target {target}.\n");
    let subject = format!("[{}] {}: {line}", severity.as_str(), cluster_name(meta));
    Content::Mail(Mail { subject, text, at_secs: at.0 / 1000 })
}

/// What people call the cluster, or the beginning of its id.
fn cluster_name(meta: &ClusterMeta) -> &str {
    match meta.name.as_str() {
        "" => &meta.id.as_str()[..8],
        name => name,
    }
}

/// The event as a line of the audit log, without its time: `node_status from=ready node=n1 reason=… to=down`.
pub(crate) fn sentence(event: &v1::AuditEvent) -> String {
    format!("{} {}", event.kind, audit::facts(event)).trim_end().to_owned()
}

/// What services compatible with Slack take. Text of the cluster is no markup of theirs.
fn chat(meta: &ClusterMeta, severity: Severity, text: &str) -> Value {
    let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({ "text": format!("[{}] {}: {text}", severity.as_str(), cluster_name(meta)) })
}

#[cfg(test)]
mod tests {
    use jaco_state::audit::AuditKind;
    use jaco_types::{ClusterId, Identity, StateIndex};

    use super::*;

    fn meta() -> ClusterMeta {
        ClusterMeta {
            id: ClusterId::new("00112233445566778899aabbccddeeff").unwrap(),
            name: "sun".to_owned(),
            ca_certificate: String::new(),
            sealed_ca_key: Vec::new(),
            created_at: Timestamp(1),
        }
    }

    fn event() -> AuditEvent {
        let facts =
            [("node", "n1"), ("from", "ready"), ("to", "down"), ("reason", "no <b> & beat")];
        AuditEvent {
            kind: AuditKind::NodeStatus,
            at: Timestamp(1_700_000_000_000),
            by: Identity::Scheduler,
            origin: None,
            request: None,
            payload: facts.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            previous: None,
        }
    }

    fn body(form: NotifyForm, pruned: u64) -> (String, Value) {
        let (meta, target) = (meta(), NotifyTargetName::new("ops").unwrap());
        let subject = Subject { meta: &meta, target: &target, form };
        let key = AuditKey { index: StateIndex(120), number: 1 };
        let message = event_letter(subject, key, &event(), pruned);
        let told = json_of(&message);
        (message.id, told)
    }

    fn json_of(message: &Message) -> Value {
        let Content::Json(body) = &message.content else { panic!("{message:?}") };
        serde_json::from_slice(body).unwrap()
    }

    /// R-OPS-1: a webhook is told the event as the audit log has it, under an id that only the event decides.
    #[test]
    fn a_webhook_is_told_the_event() {
        let (id, told) = body(NotifyForm::Webhook, 0);
        assert_eq!(id, "00112233445566778899aabbccddeeff/120/1");
        let text = r#"node_status from=ready node=n1 reason="no <b> & beat" to=down"#;
        let expected = json!({
            "id": id,
            "time": "2023-11-14T22:13:20Z",
            "cluster": { "id": "00112233445566778899aabbccddeeff", "name": "sun" },
            "target": "ops",
            "kind": "node_status",
            "severity": "critical",
            "node": "n1",
            "text": text,
            "event": {
                "index": 120, "number": 1, "kind": "node_status", "at": "2023-11-14T22:13:20Z",
                "by": "scheduler",
                "payload": { "node": "n1", "from": "ready", "to": "down", "reason": "no <b> & beat" },
            },
        });
        assert_eq!(told, expected);
        assert_eq!(body(NotifyForm::Webhook, 7).1["pruned"], 7);
    }

    /// R-OPS-1: a chat gets one line, in which nothing is markup.
    #[test]
    fn a_chat_is_told_a_line() {
        let (_, told) = body(NotifyForm::Slack, 0);
        let line = r#"[critical] sun: node_status from=ready node=n1 reason="no &lt;b&gt; &amp; beat" to=down"#;
        assert_eq!(told, json!({ "text": line }));
    }

    /// R-OPS-1: a mail says the event in its subject, and when, where and by whom in its text.
    #[test]
    fn a_mail_is_told_the_event() {
        let (meta, target) = (meta(), NotifyTargetName::new("ops").unwrap());
        let subject = Subject { meta: &meta, target: &target, form: NotifyForm::Email };
        let key = AuditKey { index: StateIndex(120), number: 1 };
        let message = event_letter(subject, key, &event(), 7);
        assert_eq!(message.id, "00112233445566778899aabbccddeeff/120/1");
        let line = r#"node_status from=ready node=n1 reason="no <b> & beat" to=down"#;
        let text = format!(
            "{line}\n\ntime      2023-11-14T22:13:20Z\nseverity  critical\n\
             cluster   sun (00112233445566778899aabbccddeeff)\nby        scheduler\nevent     120/1\n\
             pruned    7 events were never sent to this target\n\n\
             -- \nSent to the notification target ops.\n"
        );
        let subject = format!("[critical] sun: {line}");
        assert_eq!(message.content, Content::Mail(Mail { subject, text, at_secs: 1_700_000_000 }));
    }

    #[test]
    fn a_test_says_that_it_is_one() {
        let (meta, target) = (meta(), NotifyTargetName::new("ops").unwrap());
        let subject = Subject { meta: &meta, target: &target, form: NotifyForm::Webhook };
        let message = test_letter(subject, "0a", Timestamp(1_700_000_000_000));
        let told = json_of(&message);
        assert_eq!((&told["kind"], &told["id"]), (&"test".into(), &message.id.into()));
        assert_eq!(told["text"], "test of the notification target ops");
    }
}

//! Stores a content, and says which services still have an earlier version.

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ContentInfo, ContentUse, ContentUsers, StoreContentRequest};
use jaco_types::NamedKind;
use serde_json::{Value, json};

use super::expiry::Expiry;
use super::roll::{self, Rolling};
use super::source::Source;
use crate::format::quantity::count;
use crate::format::time;
use crate::session::{CommandResult, Session};
use crate::view::json::without_null;
use crate::view::{Summary, content};

/// How many services a message names.
const NAMED_MAX: usize = 5;

/// A content to be stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) kind: NamedKind,
    pub(super) name: String,
    pub(super) content: Vec<u8>,
    /// The version that it was made from; 0 for any.
    pub(super) based_on: u64,
    /// What else is said of it.
    pub(super) terms: Terms,
}

/// What is said of a secret when it is stored.
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// Which deployments may use it, if that changes.
    pub(super) users: Option<ContentUsers>,
    pub(super) expiry: Option<Expiry>,
    /// How the services that use it get it; `None` if they are left alone.
    pub(super) rolling: Option<Rolling>,
}

pub(super) async fn set(
    session: &mut Session,
    kind: NamedKind,
    name: String,
    source: &Source,
    terms: Terms,
) -> CommandResult {
    let content = source.read(kind)?;
    store(session, Stored { kind, name, content, based_on: 0, terms }).await
}

/// Stores a content, rolls its users if that is asked for, and prints what came of it.
pub(super) async fn store(session: &mut Session, stored: Stored) -> CommandResult {
    let Stored { kind, name, content, based_on, terms } = stored;
    let expiry = terms.expiry.map(|expiry| expiry.message(time::now_ms())).transpose()?;
    let request = StoreContentRequest {
        kind: kind.as_str().to_owned(),
        name: name.clone(),
        content: content.into(),
        request_id: fresh_request_id(),
        users: terms.users,
        based_on,
        expiry,
    };
    let answer = session.client()?.store_content(request).await?;
    let (kind, version) = (kind.as_str(), answer.version);
    let mut json = json!({ "kind": kind, "name": name, "version": version });
    let mut text = format!("{kind} {name} stored as version {version}\n");
    let Some(info) = &answer.stored else { return session.done(&Summary { json, text }) };
    add_facts(&mut json, info);
    match terms.rolling {
        Some(rolling) => {
            // A rollout that fails has stored it all the same.
            session.ui.note(text.trim_end());
            let rolled = roll::each(session, &name, &info.used_by, rolling).await?;
            json["rolled"] = rolled.iter().map(roll::json).collect();
            text += &rolled.iter().map(roll::text).collect::<String>();
        }
        None => {
            if let Some(hint) = hint(kind, info) {
                session.ui.note(&hint);
            }
        }
    }
    session.done(&Summary { json, text })
}

/// Adds what is worth saying, where there is anything.
fn add_facts(json: &mut Value, info: &ContentInfo) {
    let behind: Vec<&ContentUse> = content::behind(info).collect();
    let facts = without_null(json!({
        "expires_at": time::rfc3339(info.expires_at_ms),
        "behind": (!behind.is_empty())
            .then(|| behind.iter().map(|one| content::use_json(one)).collect::<Value>()),
    }));
    if let (Value::Object(json), Value::Object(facts)) = (json, facts) {
        json.extend(facts);
    }
}

/// Which services have an earlier version, and what gives them this one.
fn hint(kind: &str, info: &ContentInfo) -> Option<String> {
    let behind: Vec<&ContentUse> = content::behind(info).collect();
    if behind.is_empty() {
        return None;
    }
    let service = |one: &&ContentUse| format!("{}/{}", one.deployment, one.service);
    let mut named = behind.iter().take(NAMED_MAX).map(service).collect::<Vec<_>>().join(", ");
    if behind.len() > NAMED_MAX {
        named += &format!(" and {} more", behind.len() - NAMED_MAX);
    }
    let (services, name) = (count(behind.len(), "service"), &info.name);
    let advice = match kind {
        "secret" => format!(
            "jaco secret roll {name} gives them this one, and so does their next jaco apply"
        ),
        _ => "their next jaco apply gives them this one".to_owned(),
    };
    Some(format!("{services} still on an earlier version: {named}; {advice}"))
}

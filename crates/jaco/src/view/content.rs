//! Stored configs and secrets, without their contents.

use jaco_proto::v1::{ContentInfo, ContentUse, ContentUseVersion, ContentUsers};
use serde_json::{Value, json};

use super::json::without_null;
use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// A config or secret as JSON.
pub(crate) fn json(content: &ContentInfo) -> Value {
    without_null(json!({
        "name": content.name,
        "version": content.version,
        "bytes": content.bytes,
        "stored_at": time::rfc3339(content.stored_at_ms),
        "expires_at": time::rfc3339(content.expires_at_ms),
        "used_by": content.used_by,
        "uses": (!content.uses.is_empty())
            .then(|| content.uses.iter().map(use_json).collect::<Value>()),
        "for": content.users.as_ref().map(users_json),
    }))
}

/// A service that uses a content, with the versions that its replicas have; of one whose number is not known, without it.
pub(crate) fn use_json(one: &ContentUse) -> Value {
    let version = |held: &ContentUseVersion| {
        let number = (held.version > 0).then_some(held.version);
        without_null(json!({ "version": number, "replicas": held.replicas }))
    };
    json!({
        "deployment": one.deployment,
        "service": one.service,
        "versions": one.versions.iter().map(version).collect::<Value>(),
    })
}

/// The services with a replica that has another version than the newest.
pub(crate) fn behind(content: &ContentInfo) -> impl Iterator<Item = &ContentUse> {
    let is_newest = |held: &ContentUseVersion| held.version == content.version;
    content.uses.iter().filter(move |one| !one.versions.iter().all(is_newest))
}

/// The deployments that use a content; of those with a service that is behind, how many of its replicas have the newest
/// version: `shop (web: 1 of 2 on v4)`.
fn used_by(content: &ContentInfo) -> String {
    let named = content.used_by.iter().map(|deployment| {
        let of_it = behind(content).filter(|one| one.deployment == *deployment);
        let services = of_it.map(|one| {
            let all: u32 = one.versions.iter().map(|held| held.replicas).sum();
            let newest = one.versions.iter().filter(|held| held.version == content.version);
            let newest: u32 = newest.map(|held| held.replicas).sum();
            format!("{}: {newest} of {all} on v{}", one.service, content.version)
        });
        match services.collect::<Vec<_>>().join(", ").as_str() {
            "" => deployment.clone(),
            services => format!("{deployment} ({services})"),
        }
    });
    named.collect::<Vec<_>>().join(", ")
}

/// Which deployments may use a secret: `all`, or their names.
pub(crate) fn users_json(users: &ContentUsers) -> Value {
    match users.all {
        true => json!("all"),
        false => json!(users.deployments),
    }
}

/// As [`users_json`], for people.
pub(crate) fn users_text(users: &ContentUsers) -> String {
    if users.all {
        return "all".to_owned();
    }
    if users.deployments.is_empty() { "none".to_owned() } else { users.deployments.join(", ") }
}

/// Configs or secrets as a table.
pub(crate) fn table(contents: &[ContentInfo], frame: &Frame) -> String {
    let mut head = vec!["NAME", "VERSION", "BYTES", "STORED"];
    let expires = contents.iter().any(|content| content.expires_at_ms > 0);
    head.extend(expires.then_some("EXPIRES"));
    head.push("USED BY");
    // Configs are for all.
    let has_users = contents.iter().any(|content| content.users.is_some());
    head.extend(has_users.then_some("FOR"));
    let mut table = Table::new(&head);
    for content in contents {
        let mut row = vec![
            content.name.clone(),
            content.version.to_string(),
            content.bytes.to_string(),
            time::ago(content.stored_at_ms, frame.now_ms),
        ];
        row.extend(expires.then(|| time::left(content.expires_at_ms, frame.now_ms)));
        row.push(used_by(content));
        row.extend(content.users.as_ref().map(users_text));
        table.row(row);
    }
    table.render()
}

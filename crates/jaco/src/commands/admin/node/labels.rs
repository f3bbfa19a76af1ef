//! `jaco node label`

use std::collections::{BTreeMap, HashMap};

use jaco_client::fresh_request_id;
use jaco_proto::v1::{SetLabelsRequest, SetLabelsResponse};
use serde_json::json;

use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::Summary;

pub(super) async fn run(session: &mut Session, node: String, labels: &[String]) -> CommandResult {
    let (set, unset) = parse(labels)?;
    let request_id = fresh_request_id();
    let request = SetLabelsRequest { hostname: node.clone(), set, unset, request_id };
    let SetLabelsResponse { labels, effects } = session.client()?.set_labels(request).await?;
    for effect in &effects {
        session.ui.note(effect);
    }
    let labels: BTreeMap<_, _> = labels.into_iter().collect();
    let words: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let json = json!({ "node": node, "labels": labels, "effects": effects, "outcome": "labelled" });
    session.done(&Summary { json, text: format!("{node}: {}\n", words.join(" ")) })
}

/// Parses `zone=a`, which is set, and `disk-`, which is removed.
fn parse(words: &[String]) -> Result<(HashMap<String, String>, Vec<String>), CliError> {
    let (mut set, mut unset) = (HashMap::new(), Vec::new());
    for word in words {
        match (word.split_once('='), word.strip_suffix('-')) {
            (Some((key, value)), _) => {
                if set.insert(key.to_owned(), value.to_owned()).is_some() {
                    let message = format!("label {key} is given twice");
                    return Err(CliError::usage(message, "give each label once"));
                }
            }
            (None, Some(key)) if !key.is_empty() => unset.push(key.to_owned()),
            (None, _) => {
                let message = format!("{word:?} is not a label");
                return Err(CliError::usage(message, "give KEY=VALUE, or KEY- to remove it"));
            }
        }
    }
    Ok((set, unset))
}

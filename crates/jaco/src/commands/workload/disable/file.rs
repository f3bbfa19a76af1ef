//! The file that lists all disabled allocations, in the format of maand (R-SEL-4). Unknown keys are
//! refused: they would silently disable nothing.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use jaco_proto::v1::AllocationRef;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::CliError;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Disabled {
    /// By `deployment/service`, or by the service alone if it is unambiguous.
    #[serde(default, alias = "jobs")]
    services: BTreeMap<String, Map<String, Value>>,
    /// Nodes on which everything is disabled.
    #[serde(default, alias = "workers")]
    nodes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allocations {
    /// The nodes; all nodes if empty.
    #[serde(default)]
    allocations: Vec<String>,
}

/// Reads the file; `-` is stdin.
pub(crate) fn read(path: &Path) -> Result<Vec<AllocationRef>, CliError> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|found| text = found)
    };
    read.map_err(|error| CliError::local(format!("cannot read {}", path.display()), error))?;
    parse(&text).map_err(|error| {
        let message = format!("{} is no list of disabled allocations: {error}", path.display());
        CliError::usage(message, "`jaco disable --help` shows the format of the file")
    })
}

/// Reads a text; see [`crate::decoders`].
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_any(text: &str) {
    drop(parse(text));
}

fn parse(text: &str) -> Result<Vec<AllocationRef>, serde_json::Error> {
    // Without this a list would be parsed as an object without keys.
    let whole: Map<String, Value> = serde_json::from_str(text)?;
    let Disabled { services, nodes } = serde_json::from_value(Value::Object(whole))?;
    let of_node = |node| AllocationRef { node, ..AllocationRef::default() };
    let mut found: Vec<AllocationRef> = nodes.into_iter().map(of_node).collect();
    for (name, value) in services {
        let Allocations { allocations } = serde_json::from_value(Value::Object(value))?;
        let (deployment, service) = match name.split_once('/') {
            Some((deployment, service)) => (deployment.to_owned(), service.to_owned()),
            None => (String::new(), name),
        };
        let all = AllocationRef { deployment, service, ..AllocationRef::default() };
        if allocations.is_empty() {
            found.push(all);
        } else {
            let on = |node| AllocationRef { node, ..all.clone() };
            found.extend(allocations.into_iter().map(on));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let show =
            |one: &AllocationRef| format!("{}/{} on {}", one.deployment, one.service, one.node);
        parse(text).unwrap().iter().map(show).collect()
    }

    /// R-SEL-4: the format is accepted with the keys of maand and of JACO; other keys are refused.
    #[test]
    fn both_spellings_are_read_and_unknown_keys_refused() {
        let maand = r#"{"jobs": {"api": {"allocations": ["10.0.0.2"]}, "db": {}},
            "workers": ["10.0.0.3"]}"#;
        assert_eq!(shown(maand), ["/ on 10.0.0.3", "/api on 10.0.0.2", "/db on "]);
        let ours = r#"{"services": {"shop/web": {"allocations": ["n1", "n2"]}}}"#;
        assert_eq!(shown(ours), ["shop/web on n1", "shop/web on n2"]);
        assert_eq!(shown("{}"), [""; 0]);
        for wrong in
            [r#"{"service": {}}"#, r#"{"nodes": "n1"}"#, r#"{"services": {"a/b": []}}"#, "[]", ""]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(r#"{"services": {"a/b": {"nodes": ["n1"]}}}"#).is_err());
    }
}

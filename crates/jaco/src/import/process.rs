//! What runs in a container, as far as its image does not say the same: command, environment, health check.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::amount::duration_if_set;
use super::found::{Findings, SecretValue};
use super::inspected::{ContainerConfig, Health, ImageConfig};
use super::secret_like;
use super::section::Section;

/// Adds the entrypoint and the command that differ from the image's. An entrypoint takes the image's command away, so a command
/// is then said in any case.
pub(super) fn put_command(section: &mut Section, config: &ContainerConfig, image: &ImageConfig) {
    let restates =
        config.entrypoint == image.entrypoint && config.cmd.is_empty() && !image.cmd.is_empty();
    if config.entrypoint != image.entrypoint || restates {
        section.set("entrypoint", json!(config.entrypoint));
        section.put("command", json!(config.cmd));
    } else if config.cmd != image.cmd {
        section.set("command", json!(config.cmd));
    }
}

/// Variables that the image does not have, or has with another value.
pub(super) fn environment(env: &[String], of_image: &[String]) -> BTreeMap<String, Value> {
    let own = env.iter().filter(|entry| !of_image.contains(entry));
    let pair = |entry: &String| match entry.split_once('=') {
        Some((name, value)) => (name.to_owned(), Value::from(value)),
        None => (entry.clone(), Value::Null),
    };
    own.map(pair).collect()
}

/// Names the variables and arguments of a service whose values look like secrets.
pub(super) fn find_secrets(service: &str, section: &Section, findings: &mut Findings) {
    let mut found = |key: String| {
        findings.secret_values.push(SecretValue { service: service.to_owned(), key });
    };
    for mapping in ["environment", "labels"] {
        let pairs = section.get(mapping).and_then(Value::as_object);
        for (name, value) in pairs.into_iter().flatten() {
            if secret_like::is_secret(name, value.as_str().unwrap_or_default()) {
                found(format!("{mapping}.{name}"));
            }
        }
    }
    let test = section.get("healthcheck").and_then(|health| health.get("test"));
    let (entrypoint, command) = (section.get("entrypoint"), section.get("command"));
    for (key, list) in
        [("entrypoint", entrypoint), ("command", command), ("healthcheck.test", test)]
    {
        let arguments = list.and_then(Value::as_array);
        let arguments: Vec<&str> =
            arguments.into_iter().flatten().filter_map(Value::as_str).collect();
        let is_secret = |(at, argument): (usize, &&str)| {
            secret_like::is_secret_argument(argument, arguments.get(at + 1).copied())
        };
        if arguments.iter().enumerate().any(is_secret) {
            found(key.to_owned());
        }
    }
}

/// A health check; none if it is that of the image.
pub(super) fn healthcheck(health: Option<&Health>, of_image: Option<&Health>) -> Value {
    let Some(health) = health.filter(|health| of_image != Some(*health)) else {
        return Value::Null;
    };
    if health.test.first().is_some_and(|first| first == "NONE") {
        return json!({ "disable": true });
    }
    let mut section = Section::default();
    section.put("test", json!(health.test));
    section.put("interval", duration_if_set(health.interval));
    section.put("timeout", duration_if_set(health.timeout));
    section.put("retries", (health.retries != 0).then_some(health.retries));
    section.put("start_period", duration_if_set(health.start_period));
    section.put("start_interval", duration_if_set(health.start_interval));
    section.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    fn check(container: [&[&str]; 2], image: [&[&str]; 2], expected: Value) {
        let config = ContainerConfig {
            entrypoint: texts(container[0]),
            cmd: texts(container[1]),
            ..ContainerConfig::default()
        };
        let image = ImageConfig {
            entrypoint: texts(image[0]),
            cmd: texts(image[1]),
            ..ImageConfig::default()
        };
        let mut section = Section::default();
        put_command(&mut section, &config, &image);
        assert_eq!(Value::from(section), expected);
    }

    /// R-IN-2: what the image says is not repeated; what differs runs the same command.
    #[test]
    fn commands_of_the_image_are_not_repeated() {
        let image: [&[&str]; 2] = [&["/entry"], &["serve"]];
        check(image, image, json!({}));
        check([&["/entry"], &["work"]], image, json!({ "command": ["work"] }));
        check([&["/x"], &[]], image, json!({ "entrypoint": ["/x"] }));
        check([&["/x"], &["serve"]], image, json!({ "entrypoint": ["/x"], "command": ["serve"] }));
        check([&["/entry"], &[]], image, json!({ "entrypoint": ["/entry"] }));
        check([&[], &["sh"]], image, json!({ "entrypoint": [], "command": ["sh"] }));
        check([&[], &["sh"]], [&[], &["sh"]], json!({}));
    }

    /// R-IN-2: a variable with another value than the image's is the user's.
    #[test]
    fn variables_of_the_image_are_not_repeated() {
        let found = environment(
            &texts(&["PATH=/bin", "LANG=C", "A=1=2", "EMPTY=", "GONE"]),
            &texts(&["PATH=/bin", "LANG=de"]),
        );
        let expected = json!({ "LANG": "C", "A": "1=2", "EMPTY": "", "GONE": null });
        assert_eq!(json!(found), expected);
    }

    /// R-IN-2: a health check that was switched off stays off; times are those of the engine.
    #[test]
    fn health_checks_carry_over() {
        let health = Health {
            test: texts(&["CMD", "/health"]),
            interval: 1_500_000_000,
            retries: 3,
            ..Health::default()
        };
        let expected = json!({ "test": ["CMD", "/health"], "interval": "1500ms", "retries": 3 });
        assert_eq!(healthcheck(Some(&health), None), expected);
        assert_eq!(healthcheck(Some(&health), Some(&health)), Value::Null);
        let off = Health { test: texts(&["NONE"]), ..Health::default() };
        assert_eq!(healthcheck(Some(&off), Some(&health)), json!({ "disable": true }));
    }
}

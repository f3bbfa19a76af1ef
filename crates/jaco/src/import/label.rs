//! Labels that Docker Compose and Docker Swarm give to what they start.

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub(super) const PROJECT: &str = "com.docker.compose.project";
pub(super) const SERVICE: &str = "com.docker.compose.service";
const CONFIG_FILES: &str = "com.docker.compose.project.config_files";
pub(super) const STACK: &str = "com.docker.stack.namespace";

pub(super) const WORKING_DIR: &str = "com.docker.compose.project.working_dir";
pub(super) const NUMBER: &str = "com.docker.compose.container-number";
pub(super) const ONE_OFF: &str = "com.docker.compose.oneoff";
pub(super) const CONFIG_HASH: &str = "com.docker.compose.config-hash";
pub(super) const VERSION: &str = "com.docker.compose.version";
pub(super) const NETWORK: &str = "com.docker.compose.network";
pub(super) const VOLUME: &str = "com.docker.compose.volume";

const DEPENDS_ON: &str = "com.docker.compose.depends_on";

/// Labels of the tools that started a container mean nothing elsewhere.
const OF_TOOLS: [&str; 5] = [
    "com.docker.compose.",
    "com.docker.stack.",
    "com.docker.swarm.",
    "com.docker.volume.",
    "desktop.docker.io/",
];

/// The user's labels that the image does not have already.
pub(super) fn own(
    labels: &BTreeMap<String, String>,
    of_image: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let is_own = |(key, value): &(&String, &String)| {
        !OF_TOOLS.iter().any(|prefix| key.starts_with(prefix)) && of_image.get(*key) != Some(value)
    };
    labels.iter().filter(is_own).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The label as a number, from 1.
pub(super) fn number(labels: &BTreeMap<String, String>) -> u64 {
    labels.get(NUMBER).and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
}

/// The compose files of a project. Docker Compose 1 names them relative to the folder that it was started in.
pub(super) fn files(labels: &BTreeMap<String, String>) -> Vec<String> {
    let files = labels.get(CONFIG_FILES).map(String::as_str).unwrap_or_default();
    let folder = labels.get(WORKING_DIR);
    let absolute = |path: &str| match folder {
        Some(folder) if !path.starts_with('/') => format!("{folder}/{path}"),
        Some(_) | None => path.to_owned(),
    };
    files.split(',').filter(|path| !path.is_empty()).map(absolute).collect()
}

/// Services that have to be started before, with their conditions. Docker Compose 2 writes
/// `NAME:CONDITION:RESTART`, separated by commas; earlier versions write nothing.
pub(super) fn depends_on(labels: &BTreeMap<String, String>) -> BTreeMap<String, Value> {
    let list = labels.get(DEPENDS_ON).map(String::as_str).unwrap_or_default();
    let mut dependencies = BTreeMap::new();
    for item in list.split(',').filter(|item| !item.is_empty()) {
        let mut parts = item.split(':');
        let (name, condition, restart) = (parts.next(), parts.next(), parts.next());
        let mut dependency = json!({ "condition": condition.unwrap_or("service_started") });
        if restart == Some("true") {
            dependency["restart"] = true.into();
        }
        dependencies.insert(name.unwrap_or_default().to_owned(), dependency);
    }
    dependencies
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// R-IN-2: the order of starts is that of the label, with each condition.
    #[test]
    fn dependencies_are_read() {
        let written = "db:service_healthy:false,migrate:service_completed_successfully,mq:service_started:true";
        let found = depends_on(&labels(&[(DEPENDS_ON, written)]));
        let expected = json!({
            "db": { "condition": "service_healthy" },
            "migrate": { "condition": "service_completed_successfully" },
            "mq": { "condition": "service_started", "restart": true },
        });
        assert_eq!(json!(found), expected);
        assert!(depends_on(&labels(&[(DEPENDS_ON, "")])).is_empty());
    }

    /// R-IN-1: compose files are found from everywhere.
    #[test]
    fn files_are_named_with_their_folder() {
        let found = files(&labels(&[(CONFIG_FILES, "a.yml,/b/c.yml"), (WORKING_DIR, "/srv/shop")]));
        assert_eq!(found, ["/srv/shop/a.yml", "/b/c.yml"]);
    }

    /// R-IN-2: labels of tools and of the image are left out, also where the image has another value.
    #[test]
    fn labels_of_tools_and_images_are_left_out() {
        let of_image = labels(&[("maintainer", "a"), ("stage", "base")]);
        let all = [(PROJECT, "shop"), (STACK, "shop"), ("maintainer", "a"), ("stage", "prod")];
        assert_eq!(own(&labels(&all), &of_image), labels(&[("stage", "prod")]));
    }
}

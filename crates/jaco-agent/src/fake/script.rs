//! How images and containers of the fake behave: by default they just work; a test, or a label in
//! the manifest, says otherwise.

use std::collections::BTreeMap;

use jaco_types::{Exit, Millis};
use serde::Deserialize;

/// Whether an image can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageScript {
    /// It is on the node.
    Present,
    /// It can be fetched.
    Pullable {
        /// How long that takes.
        takes: Millis,
    },
    /// It cannot be fetched.
    Failing {
        /// How long it takes to fail.
        takes: Millis,
        /// What the registry says.
        reason: String,
    },
}

impl Default for ImageScript {
    /// Every image exists somewhere.
    fn default() -> Self {
        Self::Pullable { takes: Millis(0) }
    }
}

/// What a container does by itself.
///
/// From a manifest it is set by labels: `jaco.fake.start_ms`, `jaco.fake.stop_ms`,
/// `jaco.fake.image_healthcheck`, `jaco.fake.healthy_after_ms`, `jaco.fake.unhealthy_after_ms`,
/// `jaco.fake.exit_after_ms`, `jaco.fake.exit_code`, `jaco.fake.refuse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// How long the engine takes to start it.
    pub start_takes: Millis,
    /// How long it takes to end after the stop signal.
    pub stop_takes: Millis,
    /// Whether its image comes with a healthcheck.
    pub image_check: ImageCheck,
    /// When its healthcheck first passes, after the start. Of effect only where there is one.
    pub healthy_after: Millis,
    /// When its healthcheck begins to fail, after the start.
    pub unhealthy_after: Option<Millis>,
    /// When and how it ends by itself, after the start.
    pub exit: Option<(Millis, Exit)>,
    /// Why the engine refuses to start it.
    pub refuse: Option<String>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            start_takes: Millis(0),
            stop_takes: Millis(0),
            image_check: ImageCheck::None,
            healthy_after: Millis(0),
            unhealthy_after: None,
            exit: None,
            refuse: None,
        }
    }
}

/// Whether an image comes with a healthcheck.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageCheck {
    /// It has none.
    #[default]
    None,
    /// It has one, which counts unless the manifest turns it off.
    Present,
}

#[derive(Debug, Default, Deserialize)]
struct Container {
    #[serde(default)]
    service: SpecKeys,
}

/// The keys of a container's spec that the fake looks at.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SpecKeys {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    healthcheck: Option<HealthcheckKeys>,
    #[serde(default)]
    stop_grace_period: Option<String>,
}

#[derive(Debug, Deserialize)]
struct HealthcheckKeys {
    #[serde(default)]
    disable: bool,
    #[serde(default)]
    test: Vec<String>,
}

impl SpecKeys {
    pub(super) fn read(container: &str) -> Self {
        serde_json::from_str::<Container>(container).unwrap_or_default().service
    }

    /// Whether a container of an image like this one is checked.
    pub(super) fn is_checked(&self, image: ImageCheck) -> bool {
        let Some(check) = &self.healthcheck else { return image == ImageCheck::Present };
        let first = check.test.first().map(String::as_str);
        match first {
            _ if check.disable => false,
            Some(first) => first != "NONE",
            None => image == ImageCheck::Present,
        }
    }

    /// Docker's grace period where none is given is 10 s.
    pub(super) fn grace(&self) -> Millis {
        self.stop_grace_period.as_deref().and_then(seconds).unwrap_or(Millis::from_secs(10))
    }

    pub(super) fn pull_error(&self) -> Option<&String> {
        self.labels.get("jaco.fake.pull_error")
    }

    /// What the labels say, on top of `base`.
    pub(super) fn behaviour(&self, base: &Behaviour) -> Behaviour {
        let millis = |key: &str| self.labels.get(key)?.parse().ok().map(Millis);
        let code = self.labels.get("jaco.fake.exit_code").and_then(|code| code.parse().ok());
        let exit = Exit { code: code.unwrap_or(1), out_of_memory: false };
        let exit_after = millis("jaco.fake.exit_after_ms").or(code.map(|_| Millis(0)));
        Behaviour {
            start_takes: millis("jaco.fake.start_ms").unwrap_or(base.start_takes),
            stop_takes: millis("jaco.fake.stop_ms").unwrap_or(base.stop_takes),
            image_check: match self.labels.contains_key("jaco.fake.image_healthcheck") {
                true => ImageCheck::Present,
                false => base.image_check,
            },
            healthy_after: millis("jaco.fake.healthy_after_ms").unwrap_or(base.healthy_after),
            unhealthy_after: millis("jaco.fake.unhealthy_after_ms").or(base.unhealthy_after),
            exit: exit_after.map(|after| (after, exit)).or(base.exit),
            refuse: self.labels.get("jaco.fake.refuse").cloned().or(base.refuse.clone()),
        }
    }
}

/// Whole seconds or milliseconds: all that the fake's users write.
fn seconds(text: &str) -> Option<Millis> {
    match text.strip_suffix("ms") {
        Some(millis) => millis.parse().ok().map(Millis),
        None => text.strip_suffix('s')?.parse().ok().map(Millis::from_secs),
    }
}

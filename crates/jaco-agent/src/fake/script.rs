//! Behaviour of fake images and containers. Everything works by default; tests or labels in the
//! manifest override it.

use std::collections::BTreeMap;

use jaco_types::{Exit, Millis};
use serde::Deserialize;

/// Whether an image can be pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageScript {
    /// Already on the node.
    Present,
    /// Can be pulled.
    Pullable {
        /// Duration of the pull.
        takes: Millis,
    },
    /// Cannot be pulled.
    Failing {
        /// Time until the failure.
        takes: Millis,
        /// Message of the registry.
        reason: String,
    },
}

impl Default for ImageScript {
    /// Every image can be pulled.
    fn default() -> Self {
        Self::Pullable { takes: Millis(0) }
    }
}

/// Scripted behaviour of a container.
///
/// A manifest sets it by labels: `jaco.fake.start_ms`, `jaco.fake.stop_ms`, `jaco.fake.pre_stop_ms`,
/// `jaco.fake.image_healthcheck`, `jaco.fake.healthy_after_ms`, `jaco.fake.unhealthy_after_ms`,
/// `jaco.fake.exit_after_ms`, `jaco.fake.exit_code`, `jaco.fake.refuse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// Duration of a start.
    pub start_takes: Millis,
    /// Time from the stop signal to the exit.
    pub stop_takes: Millis,
    /// Duration of the `pre_stop` hooks. Only with a hook.
    pub pre_stop_takes: Millis,
    /// Whether its image has a healthcheck.
    pub image_check: ImageCheck,
    /// When the healthcheck first passes, after the start. Only with a healthcheck.
    pub healthy_after: Millis,
    /// When the healthcheck starts to fail, after the start.
    pub unhealthy_after: Option<Millis>,
    /// When it exits by itself after the start, and how.
    pub exit: Option<(Millis, Exit)>,
    /// Why the engine refuses the start.
    pub refuse: Option<String>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            start_takes: Millis(0),
            stop_takes: Millis(0),
            pre_stop_takes: Millis(0),
            image_check: ImageCheck::None,
            healthy_after: Millis(0),
            unhealthy_after: None,
            exit: None,
            refuse: None,
        }
    }
}

/// Whether an image has a healthcheck.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageCheck {
    /// No healthcheck.
    #[default]
    None,
    /// Has one, unless the manifest disables it.
    Present,
}

#[derive(Debug, Default, Deserialize)]
struct Container {
    #[serde(default)]
    service: SpecKeys,
}

/// Spec keys that the fake evaluates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct SpecKeys {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    healthcheck: Option<HealthcheckKeys>,
    #[serde(default)]
    stop_grace_period: Option<String>,
    #[serde(default)]
    pre_stop: Vec<serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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

    /// Whether a container of such an image has a healthcheck.
    pub(super) fn is_checked(&self, image: ImageCheck) -> bool {
        let Some(check) = &self.healthcheck else { return image == ImageCheck::Present };
        let first = check.test.first().map(String::as_str);
        match first {
            _ if check.disable => false,
            Some(first) => first != "NONE",
            None => image == ImageCheck::Present,
        }
    }

    /// The grace period; 10 s by default as in Docker.
    pub(super) fn grace(&self) -> Millis {
        self.stop_grace_period.as_deref().and_then(seconds).unwrap_or(Millis::from_secs(10))
    }

    /// Whether a hook runs before the stop signal.
    pub(super) fn has_pre_stop(&self) -> bool {
        !self.pre_stop.is_empty()
    }

    /// How its image is pulled, if its labels say so.
    pub(super) fn image_script(&self) -> Option<ImageScript> {
        let takes = self.labels.get("jaco.fake.pull_ms").and_then(|takes| takes.parse().ok());
        let takes = takes.map(Millis);
        let failing = self.labels.get("jaco.fake.pull_error").map(|reason| ImageScript::Failing {
            takes: takes.unwrap_or(Millis(0)),
            reason: reason.clone(),
        });
        failing.or(takes.map(|takes| ImageScript::Pullable { takes }))
    }

    /// Behaviour set by labels, on top of `base`.
    pub(super) fn behaviour(&self, base: &Behaviour) -> Behaviour {
        let millis = |key: &str| self.labels.get(key)?.parse().ok().map(Millis);
        let code = self.labels.get("jaco.fake.exit_code").and_then(|code| code.parse().ok());
        let exit = Exit { code: code.unwrap_or(1), out_of_memory: false };
        let exit_after = millis("jaco.fake.exit_after_ms").or(code.map(|_| Millis(0)));
        Behaviour {
            start_takes: millis("jaco.fake.start_ms").unwrap_or(base.start_takes),
            stop_takes: millis("jaco.fake.stop_ms").unwrap_or(base.stop_takes),
            pre_stop_takes: millis("jaco.fake.pre_stop_ms").unwrap_or(base.pre_stop_takes),
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

/// Parses whole seconds or milliseconds, which is all that users of the fake write.
fn seconds(text: &str) -> Option<Millis> {
    match text.strip_suffix("ms") {
        Some(millis) => millis.parse().ok().map(Millis),
        None => text.strip_suffix('s')?.parse().ok().map(Millis::from_secs),
    }
}

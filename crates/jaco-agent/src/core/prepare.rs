//! Images that rollouts need here before their first step: looked for, fetched, and told of. Nothing
//! of it is replicated by the node; the leader hears it with the signs of life.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_types::spec::{Pull, ServiceSpec};
use jaco_types::{ImageDigest, ImageNeed, ImageReadiness, RegistryName, Timestamp};

use super::{Effect, back_off};
use crate::engine::{EngineError, ImageSeen, PullError, PullRequest};
use crate::spec::ImageSpec;

/// How many refusals in a row are believed: a registry that stumbles once stops no rollout.
const REFUSALS_MAX: u32 = 3;

/// What is asked of this node.
#[derive(Debug, Default)]
pub(super) struct Prepared(BTreeMap<ImageNeed, Image>);

#[derive(Debug)]
struct Image {
    spec: ImageSpec,
    stage: Stage,
    failures: u32,
    retry_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// The engine is asked whether it has it.
    Looking,
    /// It is being fetched.
    Pulling,
    /// It was fetched, and the engine is asked what it is.
    Naming,
    Ready {
        digest: Option<ImageDigest>,
    },
    /// It failed, and is tried again while few failures came in a row.
    Failing {
        reason: String,
    },
}

impl Prepared {
    /// What is asked from now on. What is not asked any more is forgotten.
    pub(super) fn want(
        &mut self,
        wanted: &BTreeMap<ImageNeed, Arc<ServiceSpec>>,
        effects: &mut Vec<Effect>,
    ) {
        self.0.retain(|need, _| wanted.contains_key(need));
        for (need, spec) in wanted {
            if !self.0.contains_key(need) {
                let spec = ImageSpec::of(spec, need.digest.as_ref());
                let image = Image { spec, stage: Stage::Looking, failures: 0, retry_at: None };
                self.0.entry(need.clone()).or_insert(image).begin(effects);
            }
        }
    }

    /// The answer to [`Effect::Find`].
    pub(super) fn found(
        &mut self,
        pull: &PullRequest,
        result: Result<Option<ImageSeen>, EngineError>,
        now: Timestamp,
    ) {
        let result = result.map(|seen| seen.map(|seen| seen.digest));
        for (need, image) in &mut self.0 {
            if image.spec.pull != *pull {
                continue;
            }
            match (&image.stage, &result) {
                (Stage::Looking | Stage::Naming, Ok(Some(digest))) => {
                    let digest = need.digest.clone().or_else(|| digest.clone());
                    image.stage = Stage::Ready { digest };
                }
                (Stage::Looking, Ok(None)) if image.spec.policy == Pull::Never => {
                    let reason = "it is not on this node and must not be pulled";
                    image.give_up(format!("{}: {reason}", pull.image));
                }
                (Stage::Looking, Ok(None)) => image.stage = Stage::Pulling,
                (Stage::Naming, Ok(None)) => {
                    let reason = "it was pulled, and the engine does not have it";
                    image.fail(reason, Counts::Yes, now);
                }
                (Stage::Looking | Stage::Naming, Err(error)) => {
                    image.fail(&error.to_string(), Counts::No, now);
                }
                (Stage::Pulling | Stage::Ready { .. } | Stage::Failing { .. }, _) => {}
            }
        }
    }

    /// The answer to [`Effect::Pull`]. What was fetched by its name is looked at once more: only the
    /// engine knows what it is.
    pub(super) fn pulled(
        &mut self,
        pull: &PullRequest,
        result: &Result<(), PullError>,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        for image in self.0.values_mut() {
            if image.spec.pull != *pull || image.stage != Stage::Pulling {
                continue;
            }
            match result {
                Ok(()) => {
                    image.stage = Stage::Naming;
                    effects.push(Effect::Find(pull.clone()));
                }
                Err(error @ PullError::Unreachable { .. }) => {
                    image.fail(&error.to_string(), Counts::No, now);
                }
                Err(PullError::Refused { reason }) => image.fail(reason, Counts::Yes, now),
            }
        }
    }

    /// Who this node is at these registries has changed: what they refused is asked for once more, also
    /// where that was believed already.
    pub(super) fn begin_anew(
        &mut self,
        registries: &BTreeSet<RegistryName>,
        effects: &mut Vec<Effect>,
    ) {
        for image in self.0.values_mut().filter(|image| image.spec.pull.is_from(registries)) {
            image.failures = 0;
            if matches!(image.stage, Stage::Failing { .. }) {
                image.retry_at = None;
                image.begin(effects);
            }
        }
    }

    /// Tries again what is due.
    pub(super) fn retry(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for image in self.0.values_mut() {
            if image.retry_at.take_if(|at| *at <= now).is_some() {
                image.begin(effects);
            }
        }
    }

    /// The pulls that are waited for. They are shared with instances that need the same image.
    pub(super) fn awaited(&self) -> BTreeSet<PullRequest> {
        let pulling = self.0.values().filter(|image| image.stage == Stage::Pulling);
        pulling.map(|image| image.spec.pull.clone()).collect()
    }

    pub(super) fn retry_at(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|image| image.retry_at).min()
    }

    /// What is to be told.
    pub(super) fn told(&self) -> BTreeMap<ImageNeed, ImageReadiness> {
        self.0.iter().map(|(need, image)| (need.clone(), image.told())).collect()
    }
}

/// Whether a failure says something about the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    Yes,
    No,
}

impl Image {
    fn begin(&mut self, effects: &mut Vec<Effect>) {
        if self.spec.policy == Pull::Always {
            self.stage = Stage::Pulling;
            return;
        }
        self.stage = Stage::Looking;
        effects.push(Effect::Find(self.spec.pull.clone()));
    }

    fn fail(&mut self, reason: &str, counts: Counts, now: Timestamp) {
        let reason = format!("{}: {reason}", self.spec.pull.image);
        self.failures += u32::from(counts == Counts::Yes);
        if self.failures >= REFUSALS_MAX {
            return self.give_up(reason);
        }
        self.stage = Stage::Failing { reason };
        self.retry_at = Some(now.after(back_off(self.failures.max(1))));
    }

    fn give_up(&mut self, reason: String) {
        self.failures = REFUSALS_MAX;
        self.stage = Stage::Failing { reason };
        self.retry_at = None;
    }

    fn told(&self) -> ImageReadiness {
        match &self.stage {
            Stage::Ready { digest } => ImageReadiness::Ready { digest: digest.clone() },
            Stage::Looking => ImageReadiness::Waiting { reason: "looking for it".to_owned() },
            Stage::Pulling | Stage::Naming => {
                ImageReadiness::Waiting { reason: "pulling".to_owned() }
            }
            Stage::Failing { reason } if self.failures >= REFUSALS_MAX => {
                ImageReadiness::Failed { reason: reason.clone() }
            }
            Stage::Failing { reason } => ImageReadiness::Waiting { reason: reason.clone() },
        }
    }
}

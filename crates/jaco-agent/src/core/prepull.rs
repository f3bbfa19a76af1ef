//! Images that rollouts pre-pull on this node before their first step. Their readiness is not
//! replicated; heartbeats carry it to the leader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_types::spec::{PullPolicy, ServiceSpec};
use jaco_types::{ImageDigest, ImageNeed, ImageReadiness, RegistryName, Timestamp};

use super::{Effect, PullAttempts, back_off};
use crate::engine::{EngineError, ObservedImage, PullError, PullRequest};
use crate::spec::ImageSpec;

/// Consecutive refusals after which a pull counts as failed: one error of a registry stops no
/// rollout.
const REFUSALS_MAX: u32 = 3;

/// Consecutive attempts that a registry does not answer after which a pull counts as failed: with the pauses between them
/// half a minute, in which a name server or a registry is restarted.
const UNANSWERED_MAX: u32 = 6;

/// The images to pre-pull.
#[derive(Debug, Default)]
pub(super) struct Prepulls(BTreeMap<ImageNeed, Image>);

#[derive(Debug)]
struct Image {
    spec: ImageSpec,
    stage: Stage,
    failures: u32,
    /// Attempts that the registry did not answer.
    unanswered: u32,
    retry_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Looking for the image on this node.
    Inspecting,
    /// Being pulled.
    Pulling,
    /// Pulled; the engine is asked for the digest.
    ResolvingDigest,
    Ready {
        digest: Option<ImageDigest>,
    },
    /// Failed; retried up to [`REFUSALS_MAX`] refusals, or [`UNANSWERED_MAX`] attempts that were not answered.
    Failed {
        reason: String,
    },
}

impl Prepulls {
    /// Sets the images to pre-pull; others are dropped.
    pub(super) fn set_needed(
        &mut self,
        desired: &BTreeMap<ImageNeed, Arc<ServiceSpec>>,
        effects: &mut Vec<Effect>,
    ) {
        self.0.retain(|need, _| desired.contains_key(need));
        for (need, spec) in desired {
            if !self.0.contains_key(need) {
                let spec = ImageSpec::of(spec, need.digest.as_ref());
                let image = Image {
                    spec,
                    stage: Stage::Inspecting,
                    failures: 0,
                    unanswered: 0,
                    retry_at: None,
                };
                self.0.entry(need.clone()).or_insert(image).begin(effects);
            }
        }
    }

    /// The answer to [`Effect::Find`].
    pub(super) fn found(
        &mut self,
        pull: &PullRequest,
        result: Result<Option<ObservedImage>, EngineError>,
        now: Timestamp,
    ) {
        let result = result.map(|seen| seen.map(|seen| seen.digest));
        for (need, image) in &mut self.0 {
            if image.spec.pull != *pull {
                continue;
            }
            match (&image.stage, &result) {
                (Stage::Inspecting | Stage::ResolvingDigest, Ok(Some(digest))) => {
                    let digest = need.digest.clone().or_else(|| digest.clone());
                    image.stage = Stage::Ready { digest };
                }
                (Stage::Inspecting, Ok(None)) if image.spec.policy == PullPolicy::Never => {
                    let reason = "it is not on this node and must not be pulled";
                    image.fail_permanently(format!("{}: {reason}", pull.image));
                }
                (Stage::Inspecting, Ok(None)) => image.stage = Stage::Pulling,
                (Stage::ResolvingDigest, Ok(None)) => {
                    let reason = "it was pulled, and the engine does not have it";
                    image.fail(reason, Blame::Image, now);
                }
                (Stage::Inspecting | Stage::ResolvingDigest, Err(error)) => {
                    image.fail(&error.to_string(), Blame::Engine, now);
                }
                (Stage::Pulling | Stage::Ready { .. } | Stage::Failed { .. }, _) => {}
            }
        }
    }

    /// The answer to [`Effect::Pull`]. The image is looked up afterwards: only the engine knows the
    /// digest of what it pulled.
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
                    image.stage = Stage::ResolvingDigest;
                    effects.push(Effect::Find(pull.clone()));
                }
                Err(error @ PullError::Unreachable { .. }) => {
                    image.fail(&error.to_string(), Blame::Engine, now);
                }
                Err(PullError::Unanswered { reason }) => image.fail(reason, Blame::Registry, now),
                Err(PullError::Refused { reason }) => image.fail(reason, Blame::Image, now),
            }
        }
    }

    /// Credentials for these registries changed: failed pulls from them are retried, also those
    /// that counted as failed.
    pub(super) fn retry_from(
        &mut self,
        registries: &BTreeSet<RegistryName>,
        effects: &mut Vec<Effect>,
    ) {
        for image in self.0.values_mut().filter(|image| image.spec.pull.is_from(registries)) {
            (image.failures, image.unanswered) = (0, 0);
            if matches!(image.stage, Stage::Failed { .. }) {
                image.retry_at = None;
                image.begin(effects);
            }
        }
    }

    /// Retries what is due.
    pub(super) fn retry(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for image in self.0.values_mut() {
            if image.retry_at.take_if(|at| *at <= now).is_some() {
                image.begin(effects);
            }
        }
    }

    /// Pulls in progress. They are shared with instances that use the same image.
    pub(super) fn awaited(&self) -> BTreeSet<PullRequest> {
        let pulling = self.0.values().filter(|image| image.stage == Stage::Pulling);
        pulling.map(|image| image.spec.pull.clone()).collect()
    }

    /// The images that are being pulled or whose pull failed, and the attempts at them.
    pub(super) fn attempts(&self) -> impl Iterator<Item = (Arc<str>, PullAttempts)> + '_ {
        self.0.values().filter_map(|image| {
            let attempts = match &image.stage {
                Stage::Pulling => PullAttempts { made: image.tried() + 1, next_at: None },
                Stage::Failed { .. } => {
                    PullAttempts { made: image.tried(), next_at: image.retry_at }
                }
                Stage::Inspecting | Stage::ResolvingDigest | Stage::Ready { .. } => return None,
            };
            Some((Arc::clone(&image.spec.pull.image), attempts))
        })
    }

    pub(super) fn retry_at(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|image| image.retry_at).min()
    }

    /// Readiness of each image.
    pub(super) fn readiness(&self) -> BTreeMap<ImageNeed, ImageReadiness> {
        self.0.iter().map(|(need, image)| (need.clone(), image.readiness())).collect()
    }
}

/// What a failure tells something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    Image,
    Registry,
    Engine,
}

impl Image {
    fn begin(&mut self, effects: &mut Vec<Effect>) {
        if self.spec.policy == PullPolicy::Always {
            self.stage = Stage::Pulling;
            return;
        }
        self.stage = Stage::Inspecting;
        effects.push(Effect::Find(self.spec.pull.clone()));
    }

    /// The attempts that failed, by what the registry said or did not say.
    fn tried(&self) -> u32 {
        self.failures + self.unanswered
    }

    fn fail(&mut self, reason: &str, blame: Blame, now: Timestamp) {
        let reason = format!("{}: {reason}", self.spec.pull.image);
        match blame {
            // It answered.
            Blame::Image => (self.failures, self.unanswered) = (self.failures + 1, 0),
            Blame::Registry => self.unanswered += 1,
            Blame::Engine => {}
        }
        if self.failures >= REFUSALS_MAX || self.unanswered >= UNANSWERED_MAX {
            return self.fail_permanently(reason);
        }
        self.stage = Stage::Failed { reason };
        self.retry_at = Some(now.after(back_off(self.tried().max(1))));
    }

    fn fail_permanently(&mut self, reason: String) {
        self.failures = REFUSALS_MAX;
        self.stage = Stage::Failed { reason };
        self.retry_at = None;
    }

    fn readiness(&self) -> ImageReadiness {
        match &self.stage {
            Stage::Ready { digest } => ImageReadiness::Ready { digest: digest.clone() },
            Stage::Inspecting => ImageReadiness::Waiting { reason: "looking for it".to_owned() },
            Stage::Pulling | Stage::ResolvingDigest => {
                ImageReadiness::Waiting { reason: "pulling".to_owned() }
            }
            Stage::Failed { reason } if self.failures >= REFUSALS_MAX => {
                ImageReadiness::Failed { reason: reason.clone() }
            }
            Stage::Failed { reason } => ImageReadiness::Waiting { reason: reason.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-ROLL-5: a registry that does not answer is tried for half a minute; an answer of it begins that anew, and what tells
    /// nothing about it never ends.
    #[test]
    fn a_registry_that_does_not_answer_is_tried_again() {
        let fresh = || Image {
            spec: ImageSpec {
                pull: PullRequest { image: "web:1".into(), platform: None },
                policy: PullPolicy::Missing,
            },
            stage: Stage::Pulling,
            failures: 0,
            unanswered: 0,
            retry_at: None,
        };
        let (mut image, mut now) = (fresh(), Timestamp(0));
        for _ in 1..UNANSWERED_MAX {
            image.fail("i/o timeout", Blame::Registry, now);
            now = image.retry_at.expect("it is tried again");
        }
        assert_eq!(now, Timestamp(31_000));
        image.fail("i/o timeout", Blame::Registry, now);
        assert_eq!(image.retry_at, None, "it is given up");

        let mut image = fresh();
        for blame in [Blame::Registry, Blame::Registry, Blame::Image] {
            image.fail("no", blame, now);
        }
        for _ in 1..UNANSWERED_MAX {
            image.fail("i/o timeout", Blame::Registry, now);
            assert!(image.retry_at.is_some());
        }
        let mut image = fresh();
        for _ in 0..100 {
            image.fail("the engine is off", Blame::Engine, now);
            assert!(image.retry_at.is_some());
        }
    }
}

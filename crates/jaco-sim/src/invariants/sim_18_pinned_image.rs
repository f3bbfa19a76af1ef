//! SIM-18: what is started of a revision whose image is pinned was made from exactly that digest.

use jaco_agent::Effect;

use super::{AgentEffect, Facts, Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct PinnedImage;

impl Invariant for PinnedImage {
    fn effect(&mut self, _facts: &Facts, effect: &AgentEffect<'_>) -> Verdict {
        let Effect::Start(request) = effect.effect else { return Ok(()) };
        let Some(slot) = effect.state.slots.get(&request.instance.replica) else { return Ok(()) };
        let mut live = slot.instances().filter(|(id, _)| *id == request.instance);
        let Some((_, live)) = live.next() else { return Ok(()) };
        let pinned = effect.state.image_digest(&slot.service, live.revision);
        match pinned.filter(|digest| digest.as_str() != &*request.image) {
            None => Ok(()),
            Some(digest) => {
                let (instance, image) = (request.instance.clone(), request.image.to_string());
                let digest = digest.clone();
                Err(InvariantViolation::OtherImage { instance, image, digest })
            }
        }
    }
}

//! What a script claims. A transcript can be accepted by mistake; a claim cannot.
//!
//! | claim | meaning |
//! | --- | --- |
//! | `expect running shop/web 3` | so many of its slots have a container that serves |
//! | `expect slots shop/web 3` | so many slots there are |
//! | `expect skew shop/web 1` | the fullest node has at most so many more than the emptiest |
//! | `expect image shop/web web:1` | all live containers of it run this image |
//! | `expect content shop/web web:1 a` | all live containers of it were made from what `pull web:1 is a` names |
//! | `expect containers same`, `changed` | compared with the `mark`: which run, not how |
//! | `expect commits same`, `expect commits 6` | since the `mark`: none, at most so many |
//! | `expect idle 10m` | so long nothing is written |
//! | `expect leader`, `expect no leader` | |
//! | `expect audit rollout_aborted 1` | so many events of the kind since the beginning |
//! | `expect runs shop/report 3` | so many runs of the job were begun |
//! | `expect punctual` | no run of a job is late, where a leader has been there for some minutes |
//! | `expect rest` | everything that must hold of a converged cluster |

use std::collections::{BTreeMap, BTreeSet};

use jaco_agent::engine::ContainerId;
use jaco_types::{ImageDigest, ServiceKey};

use super::words::{digest, millis, number, service_key};
use super::{CommandError, Session};
use crate::world::World;

/// What a later claim is compared with.
#[derive(Debug, Default)]
pub(super) struct Mark {
    commits: usize,
    containers: BTreeSet<ContainerId>,
}

impl Session {
    pub(super) fn take_mark(&mut self) -> Result<(), CommandError> {
        let world = self.cluster()?;
        self.mark = Mark { commits: world.consensus.commits(), containers: containers(world) };
        Ok(())
    }

    pub(super) fn expect(&mut self, what: &[&str]) -> Result<(), CommandError> {
        let mark = Mark { commits: self.mark.commits, containers: self.mark.containers.clone() };
        let world = self.cluster()?;
        let commits = world.consensus.commits();
        match what {
            ["running", service, wanted] => {
                compare("running", serving(world, &service_key(service)?), number(wanted)?)
            }
            ["slots", service, wanted] => {
                compare("slots", per_node(world, &service_key(service)?).1, number(wanted)?)
            }
            ["skew", service, limit] => {
                let (counts, _) = per_node(world, &service_key(service)?);
                let most = counts.values().max().copied().unwrap_or_default();
                let least = counts.values().min().copied().unwrap_or_default();
                at_most("skew", most - least, number(limit)?)
            }
            ["image", service, image] => all_run(world, &service_key(service)?, image),
            ["content", service, image, mark] => {
                all_made_from(world, &service_key(service)?, &digest(image, mark)?)
            }
            ["containers", "same"] => {
                claim(containers(world) == mark.containers, || "other containers run".to_owned())
            }
            ["containers", "changed"] => {
                claim(containers(world) != mark.containers, || "the same containers run".to_owned())
            }
            ["commits", "same"] => compare("commits", commits - mark.commits, 0),
            ["commits", limit] => at_most("commits", commits - mark.commits, number(limit)?),
            ["idle", length] => {
                world.advance(millis(length)?);
                let after = world.consensus.commits();
                world.checker.idle(after - commits);
                Ok(())
            }
            ["leader"] => claim(world.leader().is_some(), || "nobody leads".to_owned()),
            ["no", "leader"] => claim(world.leader().is_none(), || "a node leads".to_owned()),
            ["audit", kind, wanted] => {
                let events = world.checker.reference().audit.events.values();
                let found = events.filter(|event| event.kind.as_str() == *kind).count();
                compare("events", found, number(wanted)?)
            }
            ["runs", job, wanted] => {
                let record = world.checker.reference().jobs.get(&service_key(job)?);
                let begun = record.map_or(0, |record| record.runs);
                compare("runs", usize::try_from(begun).unwrap_or(usize::MAX), number(wanted)?)
            }
            ["punctual"] => {
                world.checker.punctual();
                Ok(())
            }
            ["rest"] => {
                world.checker.converged();
                Ok(())
            }
            _ => Err(CommandError::unclear("nothing like that can be expected")),
        }
    }
}

fn claim(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), CommandError> {
    if holds { Ok(()) } else { Err(CommandError::Unexpected(otherwise())) }
}

fn compare(what: &str, found: usize, wanted: usize) -> Result<(), CommandError> {
    claim(found == wanted, || format!("{what}: {found}, not {wanted}"))
}

fn at_most(what: &str, found: usize, limit: usize) -> Result<(), CommandError> {
    claim(found <= limit, || format!("{what}: {found}, more than {limit}"))
}

fn containers(world: &World) -> BTreeSet<ContainerId> {
    world.checker.facts().live().map(|seen| seen.container.clone()).collect()
}

fn serving(world: &World, service: &ServiceKey) -> usize {
    let live = world.checker.facts().live().filter(|seen| seen.service == *service);
    let slots: BTreeSet<_> = live.map(|seen| &seen.instance.replica).collect();
    slots.len()
}

/// How many slots of a service each member has, and how many there are.
fn per_node(world: &World, service: &ServiceKey) -> (BTreeMap<u64, usize>, usize) {
    let state = world.checker.reference();
    let mut counts: BTreeMap<u64, usize> = state.nodes.keys().map(|id| (id.0, 0)).collect();
    let mut slots = 0;
    for slot in state.slots.values().filter(|slot| slot.service == *service) {
        *counts.entry(slot.current.node.0).or_default() += 1;
        slots += 1;
    }
    (counts, slots)
}

fn all_made_from(
    world: &World,
    service: &ServiceKey,
    digest: &ImageDigest,
) -> Result<(), CommandError> {
    for seen in world.checker.facts().live().filter(|seen| seen.service == *service) {
        let mut hosts = world.machines.iter().map(|machine| &machine.driver.host);
        let image = hosts.find_map(|host| host.image_of(&seen.container)).unwrap_or_default();
        let (replica, is_it) = (&seen.instance.replica, image == digest.as_str());
        claim(is_it, || format!("{replica} was made from {image}"))?;
    }
    Ok(())
}

/// Containers know their image by the hash of their spec only, so the specs of all revisions that
/// are kept are compared.
fn all_run(world: &World, service: &ServiceKey, image: &str) -> Result<(), CommandError> {
    let state = world.checker.reference();
    for seen in world.checker.facts().live().filter(|seen| seen.service == *service) {
        let deployment = state.deployments.get(&service.deployment);
        let specs = deployment.iter().flat_map(|deployment| deployment.revisions.values());
        let of_container = specs
            .filter_map(|record| record.spec.services.get(&service.service))
            .find(|spec| Some(spec.hash) == seen.spec_hash);
        let runs = of_container.map_or("an unknown image", |spec| &*spec.image);
        claim(runs == image, || format!("{} runs {runs}", seen.instance.replica))?;
    }
    Ok(())
}

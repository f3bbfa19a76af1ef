//! Jobs that run on a schedule. With a stream of random numbers of its own, so that what else happens in a run is the same
//! where there are none.

use super::Style;
use crate::rng::Rng;

/// The name of the service that is a job.
const JOB: &str = "job";

/// An image whose containers run for longer than it takes until the next run is due.
const LONG: &str = "report:1";

/// The scheduled jobs of a run.
pub(super) struct Schedules {
    rng: Rng,
    /// Whether there are any: in a third of the runs that are harsh.
    has_schedules: bool,
}

impl Schedules {
    pub(super) fn new(mut rng: Rng, style: Style) -> Self {
        let has_schedules = style.is_harsh() && rng.below(3) == 0;
        Self { rng, has_schedules }
    }

    /// What their images do while there are faults.
    pub(super) fn begin(&self) -> Option<String> {
        self.has_schedules.then(|| format!("image {LONG} exits 0 after 90s"))
    }

    /// What they do once there is peace: each run ends before the next one is due.
    pub(super) fn make_peace(&self) -> Option<String> {
        self.has_schedules.then(|| format!("image {LONG} exits 0 after 2s"))
    }

    /// Some of the deployments that have no job get one.
    pub(super) fn attach(&mut self, services: &mut Vec<String>, images: &[&str]) {
        let has_job = services.iter().any(|service| service.starts_with(&format!("{JOB} ")));
        if !self.has_schedules || has_job || self.rng.below(3) > 0 {
            return;
        }
        let image = match self.rng.below(2) {
            0 => LONG,
            _ => self.rng.pick(images),
        };
        let minutes = self.rng.pick(&["*", "*", "*/2", "*/3"]);
        let mut job = format!("{JOB} image={image} mode=job schedule={minutes}");
        for (key, one_in) in
            [("concurrency=replace", 2), ("deadline=20s", 4), ("replicas=2", 4), ("grace=30s", 6)]
        {
            if self.rng.below(one_in) == 0 {
                job += &format!(" {key}");
            }
        }
        services.push(job);
    }

    /// A user has one of these jobs run at once, now and then.
    pub(super) fn line(&mut self, jobs: &[String]) -> Option<String> {
        if !self.has_schedules || jobs.is_empty() || self.rng.below(10) > 0 {
            return None;
        }
        Some(format!("run {}", self.rng.pick(jobs)))
    }
}

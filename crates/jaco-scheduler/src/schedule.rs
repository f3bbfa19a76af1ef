//! When runs of a job are due: from a cron expression and the rules of a time zone to moments. Must never read a clock.
//!
//! Where the clocks of the zone go forward, a time that is left out is due as long after the change as it lies after its
//! beginning: 02:30 at 03:30. Where they go back, a time that comes twice is due the first time only. An expression that
//! goes through every hour follows the hours that pass instead: nothing is added to a day of 23 hours, and one of 25
//! has the repeated hour twice.

use std::collections::BTreeMap;

use jaco_state::audit::JUMP_MAX;
use jaco_state::command::{EarlierDues, JobDue, JobRewind};
use jaco_state::{ClusterState, Command};
use jaco_types::spec::{Cron, Schedule, ZoneName};
use jaco_types::{Millis, ServiceKey, Timestamp};
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Span, ToSpan};

/// How far ahead it is looked for a due time: the 29th of February is at most eight years away.
const HORIZON_DAYS: u32 = 9 * 366;

/// The minutes of the week in which due times are counted.
const COUNTED_MAX: u64 = 10_080;

/// A schedule with the rules of its time zone.
#[derive(Debug, Clone)]
pub struct Calendar {
    cron: Cron,
    zone: TimeZone,
}

/// The due times of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dues {
    /// The first of them.
    pub first: Timestamp,
    /// The one before the last.
    pub before_last: Option<Timestamp>,
    /// The last of them.
    pub last: Timestamp,
    /// How many there are; those of the last week alone where some are of that.
    pub count: u64,
}

impl Calendar {
    /// `None` if this version does not know the time zone.
    #[must_use]
    pub fn of(schedule: &Schedule) -> Option<Self> {
        Self::by(&schedule.cron, &schedule.time_zone)
    }

    /// An expression by the clocks of a time zone; `None` if this version does not know that.
    #[must_use]
    pub fn by(cron: &Cron, time_zone: &ZoneName) -> Option<Self> {
        let zone = TimeZoneDatabase::bundled().get(time_zone.as_str()).ok()?;
        Some(Self { cron: cron.clone(), zone })
    }

    /// The first due time after a moment.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.from(after).find(|due| *due > after)
    }

    /// The due times after one moment, up to and with another.
    #[must_use]
    pub fn between(&self, after: Timestamp, until: Timestamp) -> Option<Dues> {
        // Of a long span only its last week is counted, unless nothing was due in it.
        let week = Millis(COUNTED_MAX * 60_000);
        let lately = after.max(Timestamp(until.0.saturating_sub(week.0)));
        self.count(lately, until).or_else(|| self.count(after, until))
    }

    fn count(&self, after: Timestamp, until: Timestamp) -> Option<Dues> {
        let dues = self.from(after).skip_while(|due| *due <= after);
        dues.take_while(|due| *due <= until).fold(None, |dues: Option<Dues>, due| match dues {
            None => Some(Dues { first: due, before_last: None, last: due, count: 1 }),
            Some(Dues { first, last, count, .. }) => {
                Some(Dues { first, before_last: Some(last), last: due, count: count + 1 })
            }
        })
    }

    /// Due times in ascending order, each once, from some before a moment on.
    fn from(&self, moment: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        let moment =
            i64::try_from(moment.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let day = moment.map(|moment| self.zone.to_datetime(moment).date());
        // What is left out of the day before may have moved into this one.
        let day = day.and_then(|day| day.checked_sub(1.days()).ok());
        let mut last = None;
        days(day).flat_map(move |day| self.of_day(day)).filter(move |due| {
            let is_new = last < Some(*due);
            last = last.max(Some(*due));
            is_new
        })
    }

    /// The due times that are written of one day.
    fn of_day(&self, day: Date) -> Vec<Timestamp> {
        if !self.cron.has_day(day.month(), day.day(), day.weekday().to_sunday_zero_offset()) {
            return Vec::new();
        }
        let mut dues = Vec::new();
        for hour in self.cron.hours() {
            for minute in self.cron.minutes() {
                self.add(day.at(hour, minute, 0, 0), &mut dues);
            }
        }
        dues.sort_unstable();
        dues
    }

    fn add(&self, written: DateTime, dues: &mut Vec<Timestamp>) {
        let follows_hours = self.cron.is_every_hour();
        let mut add = |offset: jiff::tz::Offset| {
            let at = offset.to_timestamp(written).ok().map(jiff::Timestamp::as_millisecond);
            dues.extend(at.and_then(|ms| u64::try_from(ms).ok()).map(Timestamp));
        };
        match self.zone.to_ambiguous_timestamp(written).offset() {
            AmbiguousOffset::Unambiguous { offset } => add(offset),
            AmbiguousOffset::Gap { .. } if follows_hours => {}
            AmbiguousOffset::Gap { before, .. } => add(before),
            AmbiguousOffset::Fold { before, after } => {
                add(before);
                if follows_hours {
                    add(after);
                }
            }
        }
    }
}

/// The days from one on.
fn days(first: Option<Date>) -> impl Iterator<Item = Date> {
    let next = |day: &Date| day.checked_add(Span::new().days(1)).ok();
    std::iter::successors(first, next).take(HORIZON_DAYS as usize)
}

/// What is due of all jobs, looked at again and again by the leader. It remembers when each is due next, so that a look
/// costs little.
#[derive(Debug, Default)]
pub struct Agenda {
    known: BTreeMap<ServiceKey, Known>,
}

/// When a job is due next, as long as its schedule and what was dealt with are the same.
#[derive(Debug)]
struct Known {
    schedule: Schedule,
    calendar: Option<Calendar>,
    seen: Timestamp,
    next: Option<Timestamp>,
}

impl Agenda {
    /// The commands about what is due now, by the leader's clock, and when the next one is due.
    pub fn look(
        &mut self,
        state: &ClusterState,
        now: Timestamp,
    ) -> (Vec<Command>, Option<Timestamp>) {
        self.known.retain(|service, _| state.jobs.contains(service));
        let (mut commands, mut next) = (Vec::new(), None);
        for (service, record) in state.jobs.iter() {
            let Some(schedule) = schedule_of(state, service) else { continue };
            if record.seen > now.after(JUMP_MAX) {
                commands.push(JobRewind::new(service.clone(), now).into());
                continue;
            }
            let known = self.known(service, schedule, record.seen);
            match known.next {
                Some(due) if due <= now => commands.extend(known.due(service, state, now)),
                Some(due) => next = next.into_iter().chain([due]).min(),
                None => {}
            }
        }
        (commands, next)
    }

    fn known(&mut self, service: &ServiceKey, schedule: &Schedule, seen: Timestamp) -> &Known {
        let is_current = |known: &Known| known.schedule == *schedule && known.seen == seen;
        if !self.known.get(service).is_some_and(is_current) {
            let calendar = Calendar::of(schedule);
            let next = calendar.as_ref().and_then(|calendar| calendar.next_after(seen));
            let known = Known { schedule: schedule.clone(), calendar, seen, next };
            self.known.insert(service.clone(), known);
        }
        self.known.get(service).expect("it was just put in")
    }
}

impl Known {
    fn due(&self, service: &ServiceKey, state: &ClusterState, now: Timestamp) -> Option<Command> {
        let dues = self.calendar.as_ref()?.between(self.seen, now)?;
        let earlier = dues.before_last.map(|last| EarlierDues {
            first: dues.first,
            last,
            count: dues.count - 1,
        });
        Some(JobDue::new(service.clone(), state.index, dues.last).earlier(earlier).into())
    }
}

/// The schedule of a job, if it is wanted and has one.
fn schedule_of<'s>(state: &'s ClusterState, service: &ServiceKey) -> Option<&'s Schedule> {
    let spec = state.deployments.get(&service.deployment)?.spec();
    spec.services.get(&service.service)?.schedule.as_ref()
}

/// When the next run of a job is due after all that was dealt with; `None` without a schedule, or where this version does not
/// know its time zone.
#[must_use]
pub fn next_run(state: &ClusterState, service: &ServiceKey) -> Option<Timestamp> {
    let seen = state.jobs.get(service)?.seen;
    Calendar::of(schedule_of(state, service)?)?.next_after(seen)
}

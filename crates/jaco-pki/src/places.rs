//! The places of running handshakes: who gets one, and who makes room for it. Pure: the time is an argument.
//!
//! Nobody waits for a place, so no source can hold up another one. Where places are short, a newcomer takes one from the
//! source that has most of them, and gets none where that is its own.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::limiter::Source;

/// Handshakes at once that a source which has shown a credential before has free of comparison with others.
const KEPT_FOR_KNOWN: usize = 32;

/// Bounds of the handshakes at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceLimits {
    pub(crate) total: usize,
    pub(crate) per_source: usize,
    /// Age at which one whose hello is complete may be ended for another one of no smaller a source.
    pub(crate) grace: Duration,
}

/// What is known of a source when it takes a place. No proof of anything: a hint for whom to keep places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acquaintance {
    Stranger,
    /// A credential came from it before.
    Known,
}

/// Running handshakes by source.
#[derive(Debug)]
pub(crate) struct Places {
    limits: PlaceLimits,
    /// No empty ones.
    sources: BTreeMap<Source, OfSource>,
    total: usize,
    next: u64,
}

/// A place that was taken. It has to be given back.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) source: Source,
    number: u64,
    /// Cancelled when the place was given to another one.
    pub(crate) end: CancellationToken,
}

#[derive(Debug)]
struct OfSource {
    acquaintance: Acquaintance,
    /// Oldest first.
    running: VecDeque<Running>,
}

/// A handshake that has not ended.
#[derive(Debug)]
struct Running {
    number: u64,
    since: Duration,
    stage: Stage,
    end: CancellationToken,
}

/// Whoever means to finish sends the hello right behind the connection, however far away it is. What comes after it takes
/// the way there and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The hello is not complete.
    Silent,
    Greeted,
}

/// Which handshakes may be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endable {
    All,
    /// Those without a hello, and those that are as old as the grace.
    Stale,
}

impl Places {
    pub(crate) fn new(limits: PlaceLimits) -> Self {
        Self { limits, sources: BTreeMap::new(), total: 0, next: 0 }
    }

    /// Gives a newcomer a place, if need be that of another handshake. There is none only where no source has more of
    /// them than its own, and all that could make room are younger than the grace.
    pub(crate) fn enter(
        &mut self,
        source: Source,
        acquaintance: Acquaintance,
        now: Duration,
    ) -> Option<Place> {
        let own = self.sources.get(&source).map_or(0, |own| own.running.len());
        if own >= self.limits.per_source {
            self.end_one(now, Endable::Stale, |other, _| other == source)?;
        } else if self.total >= self.limits.total {
            let most = self.sources.values().map(OfSource::weight).max()?;
            let endable =
                if most > weight(acquaintance, own + 1) { Endable::All } else { Endable::Stale };
            self.end_one(now, endable, |_, of| of.weight() == most)?;
        }
        let (number, end) = (self.next, CancellationToken::new());
        self.next += 1;
        self.total += 1;
        let of = self.sources.entry(source);
        let of = of.or_insert_with(|| OfSource { acquaintance, running: VecDeque::new() });
        of.acquaintance = acquaintance;
        let running = Running { number, since: now, stage: Stage::Silent, end: end.clone() };
        of.running.push_back(running);
        Some(Place { source, number, end })
    }

    /// The hello of a handshake is complete.
    pub(crate) fn greeted(&mut self, place: &Place) {
        let of = self.sources.get_mut(&place.source);
        let running = of.map(|of| &mut of.running).into_iter().flatten();
        for running in running.filter(|running| running.number == place.number) {
            running.stage = Stage::Greeted;
        }
    }

    /// Gives a place back; one that was given to another one already is not touched.
    pub(crate) fn leave(&mut self, place: &Place) {
        self.remove(place.source, place.number);
    }

    /// Ends one of the handshakes of the sources that are `chosen`: the oldest stale one, or else the oldest.
    fn end_one(
        &mut self,
        now: Duration,
        endable: Endable,
        chosen: impl Fn(Source, &OfSource) -> bool,
    ) -> Option<()> {
        let sources = self.sources.iter().filter(|(source, of)| chosen(**source, of));
        let running = sources.flat_map(|(source, of)| of.running.iter().map(|it| (*source, it)));
        let may_end = running.filter(|(_, running)| match endable {
            Endable::All => true,
            Endable::Stale => self.is_stale(running, now),
        });
        let ended =
            may_end.min_by_key(|(_, running)| (!self.is_stale(running, now), running.number));
        let (source, number) = ended.map(|(source, running)| (source, running.number))?;
        self.remove(source, number)?.end.cancel();
        Some(())
    }

    fn is_stale(&self, running: &Running, now: Duration) -> bool {
        let age = now.saturating_sub(running.since);
        running.stage == Stage::Silent || age >= self.limits.grace
    }

    fn remove(&mut self, source: Source, number: u64) -> Option<Running> {
        let of = self.sources.get_mut(&source)?;
        let at = of.running.iter().position(|running| running.number == number)?;
        let removed = of.running.remove(at);
        self.total -= 1;
        if of.running.is_empty() {
            self.sources.remove(&source);
        }
        removed
    }
}

impl OfSource {
    fn weight(&self) -> isize {
        weight(self.acquaintance, self.running.len())
    }
}

/// What a source with so many handshakes is compared by. Negative for one that has places left which are kept for it.
fn weight(acquaintance: Acquaintance, running: usize) -> isize {
    let kept = match acquaintance {
        Acquaintance::Known => KEPT_FOR_KNOWN,
        Acquaintance::Stranger => 0,
    };
    let [running, kept] = [running, kept].map(|count| isize::try_from(count).unwrap_or(isize::MAX));
    running - kept
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    const GRACE: Duration = Duration::from_millis(100);
    const LIMITS: PlaceLimits = PlaceLimits { total: 8, per_source: 4, grace: GRACE };

    fn source(host: u8) -> Source {
        Source::from(IpAddr::from([192, 0, 2, host]))
    }

    fn places() -> Places {
        Places::new(LIMITS)
    }

    /// A place whose hello is complete.
    fn greeted(places: &mut Places, host: u8, now: Duration) -> Place {
        let place = places.enter(source(host), Acquaintance::Stranger, now).expect("a place");
        places.greeted(&place);
        place
    }

    /// R-FAULT-3: a source with fewer handshakes than another one is let in, whatever the others do, and its handshake
    /// is not ended for theirs.
    #[test]
    fn a_flood_takes_places_from_itself_only() {
        let (mut places, now) = (places(), Duration::ZERO);
        let flood: Vec<Place> =
            (0..8).map(|number| greeted(&mut places, 1 + number % 2, now)).collect();
        let honest = places.enter(source(9), Acquaintance::Stranger, now).expect("it is let in");
        assert!(flood[0].end.is_cancelled(), "the oldest of those with most made room");
        assert_eq!(flood.iter().filter(|place| place.end.is_cancelled()).count(), 1);
        for number in 0..100_u8 {
            places.enter(source(1 + number % 2), Acquaintance::Stranger, now + GRACE);
        }
        assert!(!honest.end.is_cancelled());
    }

    /// R-FAULT-3: from the address of the attacker, too, a newcomer is let in while there is a handshake without a hello
    /// or an old one; a young one with its hello is let finish.
    #[test]
    fn newcomers_take_the_places_of_silent_ones_of_their_own_source() {
        let (mut places, now) = (places(), Duration::ZERO);
        let spoke = greeted(&mut places, 1, now);
        let silent: Vec<Place> = (0..3)
            .map(|_| places.enter(source(1), Acquaintance::Stranger, now).expect("a place"))
            .collect();
        for place in &silent {
            greeted(&mut places, 1, now);
            assert!(place.end.is_cancelled());
        }
        assert!(places.enter(source(1), Acquaintance::Stranger, now).is_none(), "all are young");
        assert!(!spoke.end.is_cancelled());
        greeted(&mut places, 1, now + GRACE);
        assert!(spoke.end.is_cancelled(), "the oldest made room");
    }

    /// R-FAULT-3: where each address has one handshake, a stranger among them is let in once there is an old one or one
    /// without a hello; who has shown a credential before is let in at once and stays.
    #[test]
    fn known_sources_are_let_in_while_thousands_attack() {
        let (mut places, now) = (places(), Duration::ZERO);
        let flood: Vec<Place> = (0..8).map(|host| greeted(&mut places, host, now)).collect();
        assert!(places.enter(source(100), Acquaintance::Stranger, now).is_none());
        let known = places.enter(source(101), Acquaintance::Known, now).expect("it is let in");
        assert!(flood[0].end.is_cancelled());
        for host in 10..90 {
            places
                .enter(source(host), Acquaintance::Stranger, now + GRACE)
                .expect("an old one ends");
        }
        assert!(!known.end.is_cancelled());
        assert!(flood.iter().all(|place| place.end.is_cancelled()));
    }

    proptest! {
        /// Law: places are never more than there are, of nobody more than of a source, and whoever is refused has
        /// at least as many as everybody else.
        #[test]
        fn places_are_bounded_and_refusals_fair(
            moves in prop::collection::vec((0_u8..12, 0_u8..4, 0_u64..40), 0..300),
        ) {
            let (mut places, mut now, mut taken) = (places(), Duration::ZERO, Vec::<Place>::new());
            for (host, what, pause) in moves {
                now += Duration::from_millis(pause);
                match what {
                    0 if !taken.is_empty() => {
                        let left = taken.remove(usize::from(host) % taken.len());
                        places.leave(&left);
                    }
                    1 => taken.iter().step_by(2).for_each(|place| places.greeted(place)),
                    _ => match places.enter(source(host), Acquaintance::Stranger, now) {
                        Some(place) => taken.push(place),
                        None => {
                            let own = places.sources.get(&source(host));
                            let own = own.map_or(0, |of| of.running.len());
                            let most = places.sources.values().map(|of| of.running.len()).max();
                            prop_assert!(own == LIMITS.per_source || Some(own + 1) >= most);
                        }
                    },
                }
                taken.retain(|place| !place.end.is_cancelled());
                let counts: Vec<usize> = places.sources.values().map(|of| of.running.len()).collect();
                prop_assert_eq!(counts.iter().sum::<usize>(), places.total);
                prop_assert_eq!(taken.len(), places.total);
                prop_assert!(places.total <= LIMITS.total);
                prop_assert!(counts.iter().all(|count| (1..=LIMITS.per_source).contains(count)));
            }
        }
    }
}

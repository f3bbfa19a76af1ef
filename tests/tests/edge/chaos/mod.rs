//! Faults of machines, one or two at a time, drawn by a seed, while users change what runs, clients ask the edges, others
//! write to the cluster and read from it, and others do so with a database that it runs.

mod database;
mod disk;
mod fault;
mod laws;
mod pulled;
mod relay;
mod wire;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jaco_testkit::random::Random;
use jaco_testkit::succeeded;

use self::database::Database;
use self::disk::Disks;
use self::fault::{Begun, Daemon, Equipment, Fault, Place, Spell};
use self::laws::{Addresses, clock_was_set, no_panic, one_instance_for_each_slot};
use self::pulled::Pulled;
use self::wire::Wire;
use crate::asked::asked;
use crate::history::History;
use crate::outside::{Outside, Replicas};
use crate::rate::Rate;

/// Names all choices of a run.
const SEED: &str = "JACO_CHAOS_SEED";

/// What a run draws by itself: a run that fails does so again.
const USUAL_SEED: u64 = 1;

/// Instances of the service between rounds.
const SLOTS: usize = 6;

/// Those with the database, and with the service whose image is pulled.
const ALL_SLOTS: usize = SLOTS + 1 + pulled::SLOTS;

/// The shortest that a fault lasts.
const SHORTEST: Duration = Duration::from_secs(1);

/// R-FAULT-1, R-EDGE-1, NET-4: machines have faults, one or two at once, and the cluster's state and the rows of its database
/// stay linearizable; no request fails but those that [`Spell::excuses`] names; no POST arrives twice; afterwards each slot
/// has one instance, no address came back too soon, and nothing went between machines in clear text.
///
/// Every fault there is comes at least once. `JACO_CHAOS_MINUTES` asks for more, `JACO_CHAOS_SEED` for other choices.
#[tokio::test(flavor = "multi_thread")]
async fn no_fault_of_a_machine_breaks_a_law() {
    let wanted = Duration::from_secs(60 * asked("JACO_CHAOS_MINUTES", 0));
    let seed = asked(SEED, USUAL_SEED);
    println!("{SEED}={seed}");
    let mut random = Random::new(seed);
    let mut outside = Outside::start(Replicas::Everywhere).await;
    outside.machines.give_clocks();
    let disks = Disks::give(&mut outside.machines).await;
    let equipment = Equipment { disks, pulled: Pulled::start(&outside).await };
    let wire = Wire::start(&outside.machines).await;
    let database = Database::start(&outside).await;
    let history = History::start(&outside.machines);
    let load = outside.load(&[0, 1, 2], Rate(150));
    let (mut spells, mut addresses, begun) = (Vec::new(), Addresses::default(), Instant::now());
    let (mut left, mut rounds) = (Fault::ALL.to_vec(), 0);
    while begun.elapsed() < wanted || !left.is_empty() {
        if left.is_empty() {
            left.extend(Fault::ALL);
        }
        let places = drawn(&mut left, &mut random);
        let ended = round(&mut outside, &equipment, &places, &mut random, &history).await;
        show(&format!("{ended:?} after {:?}, {} requests failed", begun.elapsed(), load.failed()));
        spells.extend(ended);
        rounds += 1;
        load.goes_on().await;
        database.goes_on().await;
        one_instance_for_each_slot(&outside, ALL_SLOTS, &mut addresses).await;
    }
    let (added, read) = history.end().await;
    let (rows, reads) = database.end();
    let outcome = load.end();
    let mut faults = BTreeMap::<_, usize>::new();
    spells.iter().for_each(|spell| *faults.entry(spell.place.fault).or_default() += 1);
    println!(
        "{:?}, {rounds} rounds: {faults:?}; {} requests, {} failed that had to; {added} writes, {read} reads; {rows} \
         rows, {reads} reads of them",
        begun.elapsed(),
        outcome.requests,
        outcome.failures.len()
    );
    outcome.nothing_failed_but(|failure| spells.iter().any(|spell| spell.excuses(failure)));
    wire.end();
    for spell in spells.iter().filter(|spell| spell.place.fault == Fault::ClockSet) {
        clock_was_set(&outside.machines.cluster.nodes[spell.place.at]);
    }
    no_panic(&outside);
}

/// Where a fault happens, and mostly another one beside it; of both, one of those that are `left`, if that can be.
fn drawn(left: &mut Vec<Fault>, random: &mut Random) -> Vec<Place> {
    let fault = left.swap_remove(random.below(left.len()));
    let first = Place { fault, at: random.below(3) };
    let mut places = vec![first];
    if random.below(4) > 0 {
        let all = Fault::ALL.into_iter().flat_map(|fault| [0, 1, 2].map(|at| Place { fault, at }));
        let mut beside: Vec<_> = all.filter(|other| first.is_compatible_with(*other)).collect();
        if beside.iter().any(|place| left.contains(&place.fault)) {
            beside.retain(|place| left.contains(&place.fault));
        }
        let second = beside[random.below(beside.len())];
        left.retain(|fault| *fault != second.fault);
        places.push(second);
    }
    places
}

/// What begins or ends, of which place of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Begin(usize),
    End(usize),
}

/// When the faults of a round begin and end: the second one begins while the first one lasts.
fn steps(places: &[Place], random: &mut Random) -> Vec<(Duration, Step)> {
    let (mut steps, mut begin, mut lasts) = (Vec::new(), Duration::ZERO, None);
    for (number, place) in places.iter().enumerate() {
        begin += lasts.map(|lasts| random.up_to(lasts)).unwrap_or_default();
        let next = SHORTEST + random.up_to(place.fault.longest());
        steps.extend([(begin, Step::Begin(number)), (begin + next, Step::End(number))]);
        lasts = Some(next);
    }
    steps.sort_unstable();
    steps
}

/// Faults, a change that a user makes meanwhile, and the end of the faults.
async fn round(
    outside: &mut Outside,
    equipment: &Equipment,
    places: &[Place],
    random: &mut Random,
    history: &History,
) -> Vec<Spell> {
    let steps = steps(places, random);
    let takes_part =
        |at: &usize| !places.iter().any(|it| it.at == *at && it.fault.takes_the_vote());
    let users: Vec<usize> = (0..3).filter(takes_part).collect();
    let (by, change) = (users[random.below(users.len())], random.below(5));
    show(&format!("{steps:?} of {places:?}, change {change} at n{}", by + 1));
    let (from, mut begun) = (Instant::now(), Vec::<Begun>::new());
    for (after, step) in steps {
        tokio::time::sleep(after.saturating_sub(from.elapsed())).await;
        match step {
            Step::Begin(number) => {
                begun.push(places[number].begin(outside, equipment).await);
                if number + 1 == places.len() {
                    changed(outside, by, change);
                }
            }
            Step::End(number) => begun[number].end(outside, equipment).await,
        }
    }
    let over = Instant::now();
    // Its machine may have been without a wire when there was space again.
    for place in places.iter().filter(|place| place.fault == Fault::DiskFull) {
        Disks::has_recovered(place.at, &mut outside.machines).await;
    }
    for fault in &begun {
        fault.has_recovered(outside).await;
    }
    let ended = Instant::now();
    outside.machines.cluster.settled().await;
    history.goes_on().await;
    let settled = ended.elapsed();
    let scale = format!("shop/web={SLOTS}");
    succeeded(&outside.machines.cluster.cli(by, &["scale", &scale, "--timeout", "90s"]));
    outside.are_serving(3).await;
    let (recovered, all) = (ended - over, ended.elapsed());
    show(&format!(
        "{recovered:?} until recovered, {settled:?} until all agreed, {all:?} until all ran"
    ));
    let is_out = |at: usize| {
        let out = |place: &Place| place.at == at && place.fault.is_of_the_daemon();
        if places.iter().any(out) { Daemon::Out } else { Daemon::There }
    };
    let spell =
        |it: Begun| Spell { place: it.place, daemon: is_out(it.place.at), begun: it.begun, ended };
    begun.into_iter().map(spell).collect()
}

/// What a user changes at a node.
fn changed(outside: &Outside, by: usize, change: usize) {
    let args: &[&str] = match change {
        0 => &["restart", "shop/web", "--detach"],
        1 => &["scale", "shop/web=3", "--detach"],
        2 => &["scale", "shop/web=8", "--detach"],
        3 => &["restart", "pulled/web", "--detach"],
        _ => &["restart", "store/db", "--detach"],
    };
    succeeded(&outside.machines.cluster.cli(by, args));
}

/// Shown with the test's failure.
#[expect(clippy::print_stdout, reason = "the choices of a failed run must be known")]
fn show(text: &str) {
    println!("{text}");
}

//! Faults of machines, drawn by a seed, while users change what runs, clients ask the edges, and others write to the
//! cluster and read from it.

mod fault;
mod growing_set;
mod history;
mod laws;
mod wire;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jaco_testkit::random::Random;
use jaco_testkit::succeeded;

use self::fault::{Fault, Spell};
use self::history::History;
use self::laws::{Addresses, no_panic, one_instance_for_each_slot};
use self::wire::Wire;
use crate::asked::asked;
use crate::outside::{Outside, Replicas};
use crate::rate::Rate;

/// Names all choices of a run.
const SEED: &str = "JACO_CHAOS_SEED";

/// What a run draws by itself: a run that fails does so again.
const USUAL_SEED: u64 = 1;

/// Instances of the service between rounds.
const SLOTS: usize = 6;

/// The shortest that a fault lasts.
const SHORTEST: Duration = Duration::from_secs(1);

/// R-FAULT-1, R-EDGE-1, NET-4: one machine after the other has a fault, and the cluster's state stays linearizable; no request
/// fails but those that [`Spell::excuses`] names; no POST arrives twice; afterwards each slot has one instance, no
/// address came back too soon, and nothing went between machines in clear text.
///
/// Every fault there is comes at least once. `JACO_CHAOS_MINUTES` asks for more, `JACO_CHAOS_SEED` for other choices.
#[tokio::test(flavor = "multi_thread")]
async fn no_fault_of_a_machine_breaks_a_law() {
    let wanted = Duration::from_secs(60 * asked("JACO_CHAOS_MINUTES", 0));
    let seed = asked(SEED, USUAL_SEED);
    println!("{SEED}={seed}");
    let mut random = Random::new(seed);
    let mut outside = Outside::start(Replicas::Everywhere).await;
    let wire = Wire::start(&outside.machines).await;
    let history = History::start(&outside.machines);
    let load = outside.load(&[0, 1, 2], Rate(150));
    let (mut spells, mut addresses, begun) = (Vec::new(), Addresses::default(), Instant::now());
    let mut left = Vec::new();
    while begun.elapsed() < wanted || spells.len() < Fault::ALL.len() {
        if left.is_empty() {
            left.extend(Fault::ALL);
        }
        let fault = left.swap_remove(random.below(left.len()));
        let spell = round(&mut outside, fault, &mut random, &history).await;
        println!("{:?} after {:?}, {} requests failed", spell, begun.elapsed(), load.failed());
        spells.push(spell);
        load.goes_on().await;
        one_instance_for_each_slot(&outside, SLOTS, &mut addresses).await;
    }
    let (added, read) = history.end().await;
    let outcome = load.end();
    let mut faults = BTreeMap::<_, usize>::new();
    spells.iter().for_each(|spell| *faults.entry(spell.fault).or_default() += 1);
    println!(
        "{:?}: {faults:?}; {} requests, {} failed that had to; {added} writes, {read} reads",
        begun.elapsed(),
        outcome.requests,
        outcome.failures.len()
    );
    outcome.nothing_failed_but(|failure| spells.iter().any(|spell| spell.excuses(failure)));
    wire.end();
    no_panic(&outside);
}

/// A fault, a change that a user makes meanwhile, and the end of the fault.
async fn round(
    outside: &mut Outside,
    fault: Fault,
    random: &mut Random,
    history: &History,
) -> Spell {
    let at = random.below(3);
    let lasts = SHORTEST + random.up_to(fault.longest());
    let begun = Instant::now();
    fault.begin(outside, at).await;
    let by = (at + 1 + random.below(2)) % 3;
    let change = random.one_of(&["restart", "fewer", "more"]);
    let args: &[&str] = match change {
        "restart" => &["restart", "shop/web", "--detach"],
        "fewer" => &["scale", "shop/web=3", "--detach"],
        _ => &["scale", "shop/web=8", "--detach"],
    };
    show(&format!("{fault:?} of n{} for {lasts:?}, {change} at n{}", at + 1, by + 1));
    succeeded(&outside.machines.cluster.cli(by, args));
    tokio::time::sleep(lasts.saturating_sub(begun.elapsed())).await;
    let over = Instant::now();
    fault.end(outside, at).await;
    let ended = Instant::now();
    outside.machines.cluster.settled().await;
    history.goes_on().await;
    let settled = ended.elapsed();
    let scale = format!("shop/web={SLOTS}");
    succeeded(&outside.machines.cluster.cli(by, &["scale", &scale, "--timeout", "90s"]));
    outside.are_serving(3).await;
    let (ending, all) = (ended - over, ended.elapsed());
    show(&format!("{ending:?} to end, {settled:?} until all agreed, {all:?} until all ran"));
    Spell { fault, at, begun, ended }
}

/// Shown with the test's failure.
#[expect(clippy::print_stdout, reason = "the choices of a failed run must be known")]
fn show(text: &str) {
    println!("{text}");
}

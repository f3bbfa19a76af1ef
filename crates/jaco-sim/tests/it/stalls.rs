//! How long a machine may stand still before it counts as down, with the product's settings.

use jaco_sim::Session;

/// Each stall begins at so many moments between two heartbeats, on so many seeds of the network.
const MOMENTS: u64 = 10;
const SEEDS: u64 = 4;

/// Up to this no stall is an alarm: of the 8 s, up to one goes by before it and one after it until a
/// heartbeat is due.
const NEVER_MILLIS: u64 = 6_000;

/// From this on every one of a follower is: a loss is noticed this soon.
const ALWAYS_MILLIS: u64 = 8_500;

/// Whether any machine is declared down when `host` neither sends nor receives for `stall` ms. To
/// the others that is what a machine does that stands still.
fn is_alarm(seed: u64, host: &str, moment: u64, stall: u64) -> bool {
    let others: Vec<&str> = ["n1", "n2", "n3"].into_iter().filter(|other| *other != host).collect();
    let script = format!(
        "nodes n1 n2 n3
         apply shop web image=web:1 replicas=3
         settle
         advance {moment}ms
         partition {host} | {}
         advance {stall}ms
         heal
         settle
         expect running shop/web 3
         expect rest",
        others.join(" ")
    );
    let mut session = Session::new(seed, None);
    for line in script.lines() {
        session.line(line.trim()).expect("nothing breaks");
    }
    let entries = session.world().expect("there is a cluster").newest_entries(usize::MAX);
    entries.iter().any(|entry| entry.contains("NodeStatusSet") && entry.contains("status: Down"))
}

/// Of all tries, the percentage that are alarms.
fn percent_alarms(host: &str, stall: u64) -> u64 {
    let tries = (0..SEEDS).flat_map(|seed| (0..MOMENTS).map(move |at| (seed, at * 1000 / MOMENTS)));
    let alarms = tries.filter(|(seed, moment)| is_alarm(*seed, host, *moment, stall)).count();
    u64::try_from(alarms).expect("a few") * 100 / (SEEDS * MOMENTS)
}

/// R-NODE-1: a machine that stands still for 6 s is never declared down, a follower that does for 8.5 s or
/// more always is. A leader that stands still is succeeded first, and its time without a heartbeat counts from the
/// election of the next one.
#[test]
fn stalls_become_alarms_after_six_seconds() {
    for host in ["n1", "n3"] {
        for stall in (4_000..=12_000).step_by(500) {
            let percent = percent_alarms(host, stall);
            println!("{host} stands still for {stall} ms: declared down in {percent} %");
            if stall <= NEVER_MILLIS {
                assert_eq!(percent, 0, "{host}, {stall} ms");
            }
            if host == "n3" && stall >= ALWAYS_MILLIS {
                assert_eq!(percent, 100, "{host}, {stall} ms");
            }
        }
    }
}

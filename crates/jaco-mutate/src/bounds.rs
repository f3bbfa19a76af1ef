//! The bounds, measured in processes of their own: an allocation beyond them fails there, and ends that process alone.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, exit};
use std::time::Duration;
use std::{env, fs, panic};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::{Dice, MUTATED_BYTES_MAX, mutate};

/// What the process of a decoder may allocate beyond what it had at its start, its mutations included.
const MEMORY_BYTES: u64 = 64 << 20;

/// What one input may take of a processor: [`MUTATED_BYTES_MAX`] at most, in a build without optimisation.
const TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 200 } else { 20 });

/// Inputs of each decoder, but for what [`ROUNDS_VARIABLE`] says.
const ROUNDS: u64 = 3000;

/// How many inputs are tried, instead of [`ROUNDS`].
const ROUNDS_VARIABLE: &str = "JACO_MUTATIONS";
/// The one input to replay.
const REPLAY_VARIABLE: &str = "JACO_MUTATION";
/// A folder to write the seeds to, as the corpus of a fuzz target.
const CORPUS_VARIABLE: &str = "JACO_MUTATE_CORPUS";
/// Names the decoder that this process tries.
const DECODER_VARIABLE: &str = "JACO_MUTATE_DECODER";

/// Something that reads bytes of others.
#[derive(Debug, Clone)]
pub struct Decoder {
    /// Unique in its test.
    pub name: &'static str,
    /// Reads. A refusal is no failure; a panic is.
    pub decode: fn(&[u8]),
    /// Bytes that it reads, for mutations to start from.
    pub seeds: Vec<Vec<u8>>,
}

/// Does `work` on what `prepare` makes, in a process of its own: within `memory` more bytes, and `time` of a processor.
/// `test` is the name of the test that calls this, as its program knows it.
///
/// # Panics
/// If the work panics or takes more; says which.
pub fn stay_within<T>(
    test: &str,
    memory: u64,
    time: Duration,
    prepare: impl FnOnce() -> T,
    work: impl FnOnce(T),
) {
    if env::var_os(DECODER_VARIABLE).is_some() {
        let prepared = prepare();
        limit_memory(memory);
        let before = worked();
        work(prepared);
        let took = worked() - before;
        assert!(took <= time, "took {took:?}, and {time:?} are allowed");
        writeln!(std::io::stdout(), "withstood in {took:?}").expect("the test reads");
        return;
    }
    let child = start(test, "work");
    let said = String::from_utf8_lossy(&child.stdout);
    let complained = String::from_utf8_lossy(&child.stderr);
    let withstood = child.status.success() && said.contains("withstood in ");
    assert!(withstood, "{test} does not stay within its bounds\n{said}{complained}");
}

/// The test again, as a process that tries one decoder.
fn start(test: &str, decoder: &str) -> std::process::Output {
    Command::new(env::current_exe().expect("a test knows its program"))
        .args(["--exact", test, "--nocapture"])
        .env(DECODER_VARIABLE, decoder)
        .output()
        .expect("a test starts itself")
}

/// Tries mutations of the seeds of each decoder. `test` is the name of the test that calls this, as its program knows it:
/// it is started again for each decoder, as a process of its own.
///
/// # Panics
/// If a decoder panics, or takes more memory or time than is allowed; says with which input.
pub fn withstand(test: &str, decoders: &[Decoder]) {
    if let Ok(name) = env::var(DECODER_VARIABLE) {
        let decoder = decoders.iter().find(|decoder| decoder.name == name);
        try_inputs(decoder.expect("it was started for a decoder of this test"));
        return;
    }
    for decoder in decoders {
        if let Some(folder) = env::var_os(CORPUS_VARIABLE) {
            write_corpus(&Path::new(&folder).join(decoder.name), decoder);
        }
        let child = start(test, decoder.name);
        let said = String::from_utf8_lossy(&child.stdout);
        let complained = String::from_utf8_lossy(&child.stderr);
        let at = said.lines().rev().find_map(|line| line.strip_prefix("input "));
        assert!(
            child.status.success() && said.lines().any(|line| line == "withstood"),
            "{} does not withstand input {}: {REPLAY_VARIABLE}={} replays it\n{complained}{}",
            decoder.name,
            at.unwrap_or("?"),
            at.unwrap_or("?"),
            said.lines().filter(|line| !line.starts_with("input ")).collect::<Vec<_>>().join("\n"),
        );
    }
}

fn write_corpus(folder: &Path, decoder: &Decoder) {
    fs::create_dir_all(folder).expect("the folder of a corpus can be made");
    for (number, seed) in decoder.seeds.iter().enumerate() {
        fs::write(folder.join(number.to_string()), seed).expect("a seed can be written");
    }
}

fn try_inputs(decoder: &Decoder) {
    assert!(!decoder.seeds.is_empty(), "mutations start from seeds");
    let number = |variable| env::var(variable).ok().map(|text| text.parse::<u64>());
    let rounds = number(ROUNDS_VARIABLE).map_or(ROUNDS, |rounds| rounds.expect("a number"));
    let replayed = number(REPLAY_VARIABLE).map(|round| round.expect("a number"));
    let rounds = replayed.map_or(0..rounds, |round| round..round + 1);
    for seed in &decoder.seeds {
        (decoder.decode)(seed);
    }
    limit_memory(MEMORY_BYTES);
    let mut out = std::io::stdout().lock();
    for round in rounds {
        let mut dice = Dice::new(round);
        let mut bytes = decoder.seeds[dice.roll(decoder.seeds.len())].clone();
        mutate(&mut bytes, &decoder.seeds, &mut dice);
        // Said before, as a process that lacks memory says nothing any more.
        writeln!(out, "input {round}").expect("the test reads");
        let before = worked();
        let decoded = panic::catch_unwind(|| (decoder.decode)(&bytes));
        let took = worked() - before;
        if decoded.is_err() || took > TIME {
            let start = &bytes[..bytes.len().min(400)];
            writeln!(out, "took {took:?} for {} bytes: {start:02x?}", bytes.len())
                .expect("the test reads");
            exit(1);
        }
    }
    writeln!(out, "withstood").expect("the test reads");
    out.flush().expect("the test reads");
}

/// From here on, what is allocated beyond the bound fails. Stacks and programs do not count.
fn limit_memory(bytes: u64) {
    let status = fs::read_to_string("/proc/self/status").expect("Linux says so");
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let data = data.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let current = data.expect("Linux says so") << 10;
    let limit = Rlimit { current: Some(current + bytes), ..getrlimit(Resource::Data) };
    setrlimit(Resource::Data, limit).expect("a limit can be lowered");
}

/// What this thread has used of a processor.
fn worked() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (used.tv_sec, used.tv_nsec);
    Duration::new(
        seconds.try_into().expect("time is not negative"),
        nanos.try_into().expect("less than a second"),
    )
}

const _: () = assert!((MUTATED_BYTES_MAX as u64) < MEMORY_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(name: &'static str, decode: fn(&[u8])) -> Vec<Decoder> {
        vec![Decoder { name, decode, seeds: vec![b"some seed".to_vec(), b"another".to_vec()] }]
    }

    /// What [`withstand`] says against a decoder. In the process that it starts it does not return here.
    fn refused(test: &str, decoders: Vec<Decoder>) -> String {
        let failed = panic::catch_unwind(|| withstand(test, &decoders));
        *failed.expect_err("it fails").downcast::<String>().expect("it says why")
    }

    #[test]
    fn what_reads_within_bounds_withstands() {
        let ours = decoder("sum", |bytes| {
            std::hint::black_box(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        });
        withstand("bounds::tests::what_reads_within_bounds_withstands", &ours);
    }

    #[test]
    fn a_panic_is_found() {
        let ours = decoder("panics", |bytes| assert!(!bytes.contains(&0xff), "found it"));
        let said = refused("bounds::tests::a_panic_is_found", ours);
        assert!(said.contains("found it") && said.contains("JACO_MUTATION="), "{said}");
    }

    /// Also memory that is never touched.
    #[test]
    fn memory_beyond_the_bound_is_found() {
        let ours = decoder("allocates", |bytes| {
            let announced = usize::from(bytes.iter().copied().max().unwrap_or(0)) << 20;
            std::hint::black_box(Vec::<u8>::with_capacity(announced / 2));
        });
        let said = refused("bounds::tests::memory_beyond_the_bound_is_found", ours);
        assert!(said.contains("memory allocation of"), "{said}");
    }

    #[test]
    fn time_beyond_the_bound_is_found() {
        let ours = decoder("computes", |bytes| {
            let begun = worked();
            while bytes.contains(&0xff) && worked() - begun <= 2 * TIME {}
        });
        let said = refused("bounds::tests::time_beyond_the_bound_is_found", ours);
        assert!(said.contains("took "), "{said}");
    }
}

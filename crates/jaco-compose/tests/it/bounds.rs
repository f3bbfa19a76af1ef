//! Any megabyte stays within 64 MB and the time of a breath, and no mutation of a real file gets out.
//! R-IN-3.
//!
//! Memory is measured from outside of the loader: each case runs in a process of its own, this very
//! test started again, which reads its own high-water mark before and after.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the bounds are measured in a process of its own, and it must say what it found"
)]

use std::fmt::Write as _;
use std::process::Command;
use std::{env, fs};

use jaco_compose::JacoYaml;

use crate::bad_input::{run, timed, worked};
use crate::corpus;

const MEGABYTE: usize = 1 << 20;

/// The promise, in KiB.
const MEMORY_LIMIT: u64 = 64 << 10;

/// Names the case that this process measures.
const CASE: &str = "JACO_COMPOSE_BOUNDS_CASE";

/// `line` for 0, 1, 2, … until there is a megabyte of it.
fn repeated(start: &str, line: impl Fn(usize) -> String) -> Vec<u8> {
    let mut text = start.to_owned();
    for index in 0.. {
        let next = line(index);
        if text.len() + next.len() > MEGABYTE {
            break;
        }
        text.push_str(&next);
    }
    text.into_bytes()
}

fn one_service(start: &str, line: impl Fn(usize) -> String) -> Vec<u8> {
    repeated(&format!("services:\n  a:\n    image: i\n{start}"), line)
}

/// A way to fill a megabyte. Made where it is measured, so that nothing else weighs on it.
type Case = (&'static str, fn() -> Vec<u8>);

/// Each has a phase of the loader to itself.
const CASES: [Case; 25] = [
    ("alias bomb", alias_bomb),
    ("aliases", || repeated("x-a: &a {b: c}\n", |index| format!("x-{index}: *a\n"))),
    ("anchors", || repeated("", |index| format!("x-{index}: &a{index} v\n"))),
    ("carriage returns", || one_service("", |index| format!("    x-{index}: v\r\n"))),
    ("closing brackets", || "]".repeat(MEGABYTE).into_bytes()),
    ("commands", || one_service("    command: [\n", |_| "a,".to_owned())),
    ("comments", || repeated("", |_| "# remark\n".to_owned())),
    ("dependencies", || {
        repeated("services:\n", |index| {
            format!("  s{index}: {{image: i, depends_on: [s{}]}}\n", index + 1)
        })
    }),
    ("documents", || repeated("", |_| "---\nservices: {a: {image: i}}\n".to_owned())),
    ("duplicate keys", || one_service("", |_| "    image: i\n".to_owned())),
    ("environment", || one_service("    environment:\n", |index| format!("      V{index}: v\n"))),
    ("extends", || {
        repeated("services:\n  s: {image: i}\n", |index| format!("  s{index}: {{extends: s}}\n"))
    }),
    ("interpolation", || one_service("    user: '", |_| "${A:-${B:-c}}".to_owned())),
    ("keys", || one_service("", |index| format!("    k{index}: v\n"))),
    ("merges", || {
        repeated("x-a: &a {b: {c: d}}\n", |index| format!("x-{index}: {{<<: *a, e: f}}\n"))
    }),
    ("nesting", || "[".repeat(MEGABYTE).into_bytes()),
    ("nothing", || vec![0; MEGABYTE]),
    ("octals and yes", || {
        one_service("    labels:\n", |index| format!("      l{index}: 0o17\n      y{index}: yes\n"))
    }),
    ("one text", || one_service("    user: ", |_| "word ".to_owned())),
    ("opening maps", || "{a: ".repeat(MEGABYTE / 4).into_bytes()),
    ("ports", || {
        one_service("    ports:\n", |index| {
            let port = index % 60_000 + 1;
            format!("      - {port}-{}\n", port + 1)
        })
    }),
    ("questions", || repeated("", |_| "? ".to_owned())),
    ("services", || repeated("services:\n", |index| format!("  s{index}: {{image: i}}\n"))),
    ("tabs", || "\t".repeat(MEGABYTE).into_bytes()),
    ("volumes", || {
        one_service("    volumes:\n", |index| format!("      - ./a{index}:/b{index}\n"))
    }),
];

fn alias_bomb() -> Vec<u8> {
    let mut laughs = "x-0: &a0 [l, l, l, l, l, l, l, l, l, l]\n".to_owned();
    for level in 1..40 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        writeln!(laughs, "x-{level}: &a{level} [{below}]").expect("writing to a string");
    }
    repeated(&laughs, |index| format!("y-{index}: [*a1, *a1, *a1]\n"))
}

/// The most memory this process ever had, in KiB.
fn high_water_mark() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// R-IN-3: no megabyte takes more than 64 MB, nor more time than `run` and `timed` allow.
#[test]
fn a_megabyte_stays_within_memory_and_time() {
    if let Ok(case) = env::var(CASE) {
        let (_, made) = CASES.iter().find(|(name, _)| *name == case).unwrap();
        let bytes = made();
        let (before, began) = (high_water_mark(), worked());
        let _either = run(&bytes);
        let _either = timed(bytes.len(), || JacoYaml::parse("jaco.yaml", &bytes));
        println!("worked {:?}", worked() - began);
        println!("took {} KiB", high_water_mark() - before);
        return;
    }
    let mut most = (0, "nothing");
    for (case, _) in CASES {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "bounds::a_megabyte_stays_within_memory_and_time", "--nocapture"])
            .env(CASE, case)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{case}: {said}{}", String::from_utf8_lossy(&child.stderr));
        let took = said.lines().find_map(|line| line.split_once("took ")?.1.strip_suffix(" KiB"));
        let worked = said.lines().find(|line| line.starts_with("worked ")).unwrap_or_default();
        println!("{case}: {worked}");
        let took: u64 = took.unwrap_or_else(|| panic!("{case}: {said}")).parse().unwrap();
        assert!(took <= MEMORY_LIMIT, "{case}: {took} KiB");
        most = most.max((took, case));
    }
    println!("at most {} KiB, for {}", most.0, most.1);
}

/// A small generator of numbers that is the same everywhere (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides.max(1) as u64).unwrap()
    }
}

/// What is put into a file: the marks of YAML and of interpolation, and bytes that are no text.
const INSERTED: [&[u8]; 24] = [
    b"\0",
    b"\t",
    b"\r\n",
    b"\xff",
    b"\xef\xbb\xbf",
    b"'",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b": ",
    b"- ",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"!reset ",
    b"!override ",
    b"${",
    b"$$",
    b"yes",
    b"0o17",
    b"~",
    b"? ",
];

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.roll(6) {
        let at = dice.roll(bytes.len() + 1);
        let end = (at + dice.roll(40)).min(bytes.len());
        match dice.roll(5) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let piece = bytes[at..end].to_vec();
                let to = dice.roll(bytes.len() + 1);
                drop(bytes.splice(to..to, piece));
            }
            2 if at < bytes.len() => bytes[at] = u8::try_from(dice.roll(256)).unwrap(),
            _ => {
                let piece = INSERTED[dice.roll(INSERTED.len())];
                drop(bytes.splice(at..at, piece.iter().copied()));
            }
        }
    }
}

/// R-IN-3: mutations of real files, the same ones in each run, load or are refused with a reason.
#[test]
fn mutations_of_real_files_stay_within_bounds() {
    let mut seeds = vec![include_bytes!("../fixtures/shop.yaml").to_vec()];
    if let Some(folder) = corpus::folder() {
        let cases = corpus::cases(&folder);
        let files = cases.iter().map(|case| fs::read(folder.join(&case.file)).unwrap());
        // Every file has its turn in release builds, a sample of them otherwise.
        seeds.extend(files.step_by(if cfg!(debug_assertions) { 6 } else { 1 }));
    }
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for seed in &seeds {
        for _ in 0..8 {
            let mut bytes = seed.clone();
            mutate(&mut bytes, &mut dice);
            let _either = run(&bytes);
            let _either = timed(bytes.len(), || JacoYaml::parse("jaco.yaml", &bytes));
        }
    }
}

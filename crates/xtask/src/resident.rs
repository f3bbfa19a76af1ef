//! `cargo xtask resident`: the code that daemons at rest run, as a list for the linker (ADR 0165).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::workspace::Workspace;

/// Write crates/jacod/resident.ld from what daemons have run
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program that they ran, with its symbols
    #[arg(long)]
    program: PathBuf,
    /// What `qemu-x86_64 -d in_asm` wrote of each of them
    #[arg(required = true)]
    logs: Vec<PathBuf>,
}

/// Names that begin alike are one entry if they were run, but for so many of ten bytes of their code at most: the list is
/// shorter, and code that is new has a place.
const NOT_RUN: u64 = 3;

/// # Errors
/// If a file cannot be read, or nothing in it is a function of the program.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut run = BTreeSet::new();
    for log in &args.logs {
        run.extend(functions_in(log).with_context(|| format!("cannot read {}", log.display()))?);
    }
    let mut symbols = Command::new("nm");
    let symbols = process::capture(symbols.args(["--print-size"]).arg(&args.program))?;
    let functions = functions_of(&symbols, &run);
    let found = functions.values().filter(|function| function.is_run).count();
    ensure!(found > 0, "no function of {} was run: has it symbols?", args.program.display());
    let list = script(&patterns(&functions));
    let file = workspace.root.join("crates/jacod/resident.ld");
    std::fs::write(&file, list).with_context(|| format!("cannot write {}", file.display()))
}

/// What is known of a function.
#[derive(Debug, Clone, Copy, Default)]
struct Function {
    bytes: u64,
    is_run: bool,
}

/// The functions that a log names, in the form of the list.
fn functions_in(log: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for line in BufReader::new(File::open(log)?).split(b'\n') {
        let line = line?;
        if let Some(name) = line.strip_prefix(b"IN: ") {
            names.extend(name_of(&String::from_utf8_lossy(name)));
        }
    }
    Ok(names)
}

/// The functions that `nm` lists, by name in the form of the list.
fn functions_of(symbols: &str, run: &BTreeSet<String>) -> BTreeMap<String, Function> {
    let mut functions = BTreeMap::<String, Function>::new();
    for line in symbols.lines() {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, bytes, "t" | "T" | "w" | "W", name] = columns[..] else { continue };
        let (Some(name), Ok(bytes)) = (name_of(name), u64::from_str_radix(bytes, 16)) else {
            continue;
        };
        let function = functions.entry(name.clone()).or_default();
        function.bytes += bytes;
        function.is_run = run.contains(&name);
    }
    functions
}

/// The name of a Rust function without what changes from build to build: the hashes of crates, and places in the name itself,
/// which move with the length of a hash (RFC 2603).
fn name_of(symbol: &str) -> Option<String> {
    let symbol = symbol.trim().split(".llvm.").next().filter(|name| name.starts_with("_R"))?;
    // Hashes first: a place is not looked for across them.
    Some(without(&without(symbol, "Cs", 1), "B", 0))
}

/// The name with `*` for the letters and digits, so many at least, between each of these tags and an underscore.
fn without(name: &str, tag: &str, least: usize) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once(tag) {
        out.push_str(before);
        out.push_str(tag);
        let length = behind.bytes().take_while(u8::is_ascii_alphanumeric).count();
        rest = match behind[length..].strip_prefix('_').filter(|_| length >= least) {
            Some(after) => {
                out.push_str("*_");
                after
            }
            None => behind,
        };
    }
    out + rest
}

/// The shortest beginnings of names of which enough is run.
fn patterns(functions: &BTreeMap<String, Function>) -> Vec<String> {
    let named: Vec<_> =
        functions.iter().map(|(name, function)| (name.as_str(), *function)).collect();
    let mut found = Vec::new();
    add_patterns(&named, 0, &mut found);
    found
}

/// `functions` are sorted and alike in their first `alike` bytes.
fn add_patterns(functions: &[(&str, Function)], alike: usize, found: &mut Vec<String>) {
    let all: u64 = functions.iter().map(|(_, function)| function.bytes).sum();
    let run = functions.iter().filter(|(_, function)| function.is_run);
    let run: u64 = run.map(|(_, function)| function.bytes).sum();
    let (Some((first, _)), Some((last, _))) = (functions.first(), functions.last()) else { return };
    if run == 0 {
        return;
    }
    let more =
        first[alike..].bytes().zip(last[alike..].bytes()).take_while(|(one, other)| one == other);
    let alike = alike + more.count();
    if (all - run) * 10 <= all * NOT_RUN {
        found.push(first[..alike].to_owned());
        return;
    }
    let mut rest = functions;
    if first.len() == alike {
        found.extend(functions[0].1.is_run.then(|| (*first).to_owned()));
        rest = &functions[1..];
    }
    while let Some((next, _)) = rest.first() {
        let byte = next.as_bytes()[alike];
        let end = rest.partition_point(|(name, _)| name.as_bytes()[alike] == byte);
        add_patterns(&rest[..end], alike, found);
        rest = &rest[end..];
    }
}

fn script(patterns: &[String]) -> String {
    let lines: String = patterns.iter().map(|name| format!("    *(.text.{name}*)\n")).collect();
    format!(
        "/* Code that a daemon at rest runs, for the linker; written by `cargo xtask resident`, see ADR 0165. */\n\
         SECTIONS {{\n  .text.resident : {{\n{lines}  }}\n}}\nINSERT BEFORE .text;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_hash_and_no_place() {
        let name = |symbol: &str| name_of(symbol).unwrap_or_default();
        assert_eq!(name("_RNvCs5XyZ_5tokio4poll"), "_RNvCs*_5tokio4poll");
        assert_eq!(name("_RINvB4_3runNtB2_1TE.llvm.123"), "_RINvB*_3runNtB*_1TE");
        assert_eq!(name("_RNvB_1a"), "_RNvB*_1a");
        assert_eq!(name("_RNt4BodyNtCs5XyZ_4http"), "_RNt4BodyNtCs*_4http");
        assert_eq!(name("_RNvCs_1a"), "_RNvCs_1a", "no hash at all");
        assert_eq!(name_of("_ZN4core3fmt17h0123456789abcdefE"), None);
        assert_eq!(name_of("main"), None);
    }

    /// What `nm` lists, where names with an `h` in the end were run.
    fn listed(symbols: &[(&str, u64)]) -> Vec<String> {
        let text: String =
            symbols.iter().map(|(name, bytes)| format!("00 {bytes:x} t {name}\n")).collect();
        let run = symbols.iter().filter(|(name, _)| name.ends_with('h'));
        patterns(&functions_of(&text, &run.map(|(name, _)| (*name).to_owned()).collect()))
    }

    #[test]
    fn names_that_were_mostly_run_are_one_entry() {
        assert_eq!(listed(&[("_R1ah", 70), ("_R1bc", 30), ("_R2c", 10)]), ["_R1"]);
        assert_eq!(listed(&[("_R1ah", 69), ("_R1bc", 31)]), ["_R1ah"]);
        assert_eq!(
            listed(&[("_R1ah", 1), ("_R1bh", 1), ("_R1c", 9), ("_R1ch", 9)]),
            ["_R1ah", "_R1bh", "_R1ch"]
        );
        assert_eq!(listed(&[("_R1h", 5), ("_R1hx", 9), ("_R1hyh", 5)]), ["_R1h", "_R1hyh"]);
        assert!(listed(&[("_R1a", 5)]).is_empty());
    }

    #[test]
    fn the_list_is_what_the_linker_reads() {
        let list = script(&["_R1".to_owned()]);
        assert!(list.contains("    *(.text._R1*)\n"), "{list}");
        assert!(list.ends_with("INSERT BEFORE .text;\n"), "{list}");
    }
}

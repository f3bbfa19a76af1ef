//! Routers of several sites with real packets, in network namespaces of this process.
//!
//! A site is a namespace with a Linux bridge per network, as a container engine makes them; containers are
//! namespaces with an interface in such a bridge. The router of each site runs in a process of its own, which is this
//! program again. Everything is in namespaces that end with this process, so nothing is left behind.
//!
//! ```text
//! cargo test -p jaco-net --test net                    all of it
//! cargo test -p jaco-net --test net -- forged          those whose name contains a text
//! cargo test -p jaco-net --test net -- --vm            the same on a kernel with WireGuard, in a virtual machine
//! cargo test -p jaco-net --test net -- --figures       throughput and times, printed
//! cargo test -p jaco-net --test net -- --stopwatch     what `cargo xtask bench net` shows
//! ```

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test program talks to a terminal and ends at the first surprise"
)]

mod changes;
mod cluster;
mod edges;
mod figures;
mod handover;
mod isolation;
mod kernel;
mod lab;
mod names;
mod packets;
mod process;
mod questions;
mod rotation;
mod scenario;
mod service;
mod site;
mod steady;
mod stopwatch;
mod underlay;
mod vm;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

type Test = (&'static str, fn());

const ALL: &[&[Test]] = &[
    isolation::TESTS,
    edges::TESTS,
    steady::TESTS,
    process::TESTS,
    service::TESTS,
    changes::TESTS,
    handover::TESTS,
    names::TESTS,
    rotation::TESTS,
    underlay::TESTS,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "site") {
        return site::main(&arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first == "service") {
        return service::main(&arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first == "edge") {
        return handover::main(&arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first == "guest") {
        return vm::guest::main(&arguments[1..]);
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    if arguments.iter().any(|argument| argument == "--vm") {
        return vm::main(filter.map(String::as_str));
    }
    if let Err(why) = lab::isolate() {
        return cannot_run(&why);
    }
    if arguments.iter().any(|argument| argument == "--figures") {
        figures::print();
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--stopwatch") {
        stopwatch::print();
        return ExitCode::SUCCESS;
    }
    let with_wireguard =
        arguments.iter().any(|argument| argument == vm::ON_A_KERNEL_WITH_WIREGUARD);
    if with_wireguard && !kernel::has_wireguard() {
        return cannot_run(vm::NO_WIREGUARD);
    }
    let tests: Vec<Test> = if with_wireguard { kernel::tests() } else { ALL.concat() };
    let chosen: Vec<Test> = tests
        .into_iter()
        .filter(|(name, _)| filter.is_none_or(|part| name.contains(part)))
        .collect();
    run(&chosen)
}

fn cannot_run(why: &str) -> ExitCode {
    println!("this machine cannot run these tests: {why}");
    println!(
        "\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
    );
    ExitCode::FAILURE
}

/// One after the other: a process that one test starts may for a moment have the sockets of another.
fn run(tests: &[Test]) -> ExitCode {
    let begun = Instant::now();
    let mut failed = 0;
    for (name, test) in tests {
        let result = catch_unwind(AssertUnwindSafe(test));
        println!("test {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
        failed += usize::from(result.is_err());
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    // As the standard harness ends, so that whoever adds up test results counts these.
    println!(
        "\ntest result: {word}. {} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; \
         finished in {:.2}s\n",
        tests.len() - failed,
        begun.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

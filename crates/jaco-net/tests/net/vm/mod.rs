//! The tests of this program once more, on a kernel that has WireGuard.
//!
//! The machine's own kernel may have none, so Debian's cloud kernel is started in QEMU, without the processor's help, as
//! not every machine can lend it. Its only file system is an archive in memory with this program as its first process, which
//! loads the modules, runs the tests and turns the machine off. The tests speak on the second serial line and the kernel on the
//! first one.
//!
//! ```text
//! archive   the file system as an archive
//! packages  the kernel and its modules
//! contents  what is in the archive
//! machine   QEMU, and what is said in there
//! guest     the first process in there
//! ```
//!
//! It never installs anything, and needs no rights but those to download a package and to start QEMU.

mod archive;
mod contents;
pub(crate) mod guest;
mod machine;
mod packages;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use crate::Test;
use contents::Modules;
use machine::{Ended, Machine, verdict};

/// What the machine is told to run, besides a part of the names of tests.
pub(crate) const ON_A_KERNEL_WITH_WIREGUARD: &str = "--on-a-kernel-with-wireguard";

/// Whether this program runs on the machine's emulated processors.
pub(crate) fn is_emulated() -> bool {
    std::env::args().any(|argument| argument == ON_A_KERNEL_WITH_WIREGUARD)
}

/// What this program says where the kernel has no WireGuard.
pub(crate) const NO_WIREGUARD: &str = "this kernel has no WireGuard";

/// The harness first: it proves that it can fail.
const CONTROLS: &[Test] = &[
    ("a_machine_that_says_no_result_has_failed", no_result_is_a_failure),
    ("a_machine_without_wireguard_has_failed", no_wireguard_is_a_failure),
];

const TESTS: &[Test] =
    &[("routers_on_a_kernel_with_wireguard", routers_on_a_kernel_with_wireguard)];

/// A part of the names of tests that are to be run in there, and the folder of this run.
static RUN: OnceLock<(Option<String>, PathBuf)> = OnceLock::new();

/// Starts the machine; with `filter`, only for the tests whose name contains it.
pub(crate) fn main(filter: Option<&str>) -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let run = (filter.map(str::to_owned), folder.path().to_owned());
    RUN.set(run).expect("it is set once");
    let tests = if filter.is_none() { [CONTROLS, TESTS].concat() } else { TESTS.to_vec() };
    crate::run(&tests)
}

fn machine(modules: Modules) -> Machine {
    let (_, folder) = RUN.get().expect("it was set");
    let kernel = packages::kernel(&folder.join("kernel"));
    Machine::new(folder, &kernel, modules)
}

fn routers_on_a_kernel_with_wireguard() {
    let (filter, _) = RUN.get().expect("it was set");
    let ended = machine(Modules::All).run(filter.as_deref(), |line| println!("{line}"));
    verdict(&ended).unwrap();
}

/// Where WireGuard's module is missing no test runs, and that is no success.
fn no_wireguard_is_a_failure() {
    let ended = machine(Modules::AllButWireGuard).run(None, |_| {});
    assert!(ended.said.iter().any(|line| line.contains(NO_WIREGUARD)), "{ended:?}");
    assert_eq!(verdict(&ended).unwrap_err(), "0 tests passed and 1 failed");
}

/// Each way in which a machine may end without a proof.
fn no_result_is_a_failure() {
    let check = |said: &[&str], kernel: &str, in_time: bool, expected: Result<(), &str>| {
        let said = said.iter().map(|line| (*line).to_owned()).collect();
        let ended = Ended { said, kernel: kernel.to_owned(), in_time };
        assert_eq!(verdict(&ended), expected.map_err(str::to_owned), "{ended:?}");
    };
    let ok = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; 0.10s";
    let bad = ok.replace("ok. 2 passed; 0", "FAILED. 1 passed; 1");
    check(&["test a ... ok", "test b ... ok", ok], "reboot: Power down", true, Ok(()));
    check(&["test a ... ok", &bad], "", true, Err("1 tests passed and 1 failed"));
    check(&[&ok.replace('2', "0")], "", true, Err("0 tests passed and 0 failed"));
    check(&["test a ... ok"], "a\nb", true, Err("it ended without a result: a\nb"));
    check(&[], "", false, Err("it took too long: "));
    check(&[ok], "Power down", false, Err("it took too long: Power down"));
    let panic = "[ 9.1] Kernel panic - not syncing";
    check(&[ok], panic, true, Err("its kernel panicked: [ 9.1] Kernel panic - not syncing"));
}

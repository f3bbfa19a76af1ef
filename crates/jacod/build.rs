//! Has the linker put the code that a daemon at rest runs beside each other (ADR 0165).

use std::env;

/// The names in the list are of this form.
const MANGLING: &str = "symbol-mangling-version=v0";

fn main() {
    println!("cargo::rerun-if-changed=resident.ld");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|found| found == value);
    let is_listed = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is_listed && is("PROFILE", "release") && flags.contains(MANGLING) {
        let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{folder}/resident.ld");
    }
}

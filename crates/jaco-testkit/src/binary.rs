//! Where the programs under test lie.

use std::path::PathBuf;

/// The program of this name: in `JACO_BIN_DIR`, or where this test itself was built.
///
/// # Panics
/// When it is not there; the message says how to build it.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let folder = match std::env::var_os("JACO_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let own = std::env::current_exe().expect("a test knows its own path");
            // <target>/debug/deps/<test>
            own.ancestors().nth(2).expect("a test lies in a target folder").to_owned()
        }
    };
    let path = folder.join(name);
    assert!(
        path.is_file(),
        "{} is not there: run `cargo build --bins`, or set JACO_BIN_DIR",
        path.display()
    );
    path
}

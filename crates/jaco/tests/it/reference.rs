//! The help is a document, and is reviewed like one.

use expect_test::expect_file;

/// R-CLI-6: `docs/cli.md` says what the program says.
#[test]
fn the_reference_is_in_step() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    expect_file![file].assert_eq(&jaco_cli::cli::reference());
}

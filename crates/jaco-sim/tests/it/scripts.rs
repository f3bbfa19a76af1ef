//! Every script of `tests/scripts`, compared with the transcript beside it. `UPDATE_EXPECT=1`
//! accepts the transcripts as they are now.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use jaco_sim::script::run;

fn scripts(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(folder);
    let entries = fs::read_dir(folder).expect("the folder is part of the repository");
    let entries = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut scripts: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "txt")).collect();
    scripts.sort();
    scripts
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        text = format!("{text}: {next}");
        source = next.source();
    }
    text
}

/// The rows that a script proves are named in its first lines.
#[test]
fn scripts_run_as_written_down() {
    let scripts = scripts("scripts");
    assert!(scripts.len() >= 20, "only {} scripts were found", scripts.len());
    let mut wrong = Vec::new();
    for path in &scripts {
        let name = path.file_name().unwrap().to_string_lossy();
        match run(&fs::read_to_string(path).unwrap()) {
            Ok(transcript) => {
                let kept = expect_test::expect_file![path.with_extension("out")];
                let compared = std::panic::catch_unwind(|| kept.assert_eq(&transcript));
                if compared.is_err() {
                    wrong.push(format!("{name}: another transcript than the one that is kept"));
                }
            }
            Err(error) => wrong.push(format!("{name}: {}", chain(&error))),
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// A transcript says what happened, so the same script must always say the same.
#[test]
fn a_script_has_one_history() {
    let script = fs::read_to_string(&scripts("scripts")[0]).unwrap();
    assert_eq!(run(&script).unwrap(), run(&script).unwrap());
}

/// A script without its rows proves nothing that anybody could find.
#[test]
fn every_script_names_what_it_proves() {
    for path in scripts("scripts") {
        let text = fs::read_to_string(&path).unwrap();
        let head: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(head.contains("R-"), "{} names no row", path.display());
        assert!(text.contains("expect "), "{} claims nothing", path.display());
    }
}

/// What cannot be understood is said with its line.
#[test]
fn mistakes_have_a_line() {
    let check = |script: &str, wanted: &str| {
        assert_eq!(chain(&run(script).unwrap_err()), wanted);
    };
    check("show nodes", "line 1: show nodes: there are no nodes yet");
    check("nodes n1\n\nexplode n1", "line 3: explode n1: \"explode n1\" is no command");
    check("nodes n1\nkill n2", "line 2: kill n2: there is no node n2");
    check(
        "nodes n1\napply shop web replica=2",
        "line 2: apply shop web replica=2: no service has a key \"replica\"",
    );
    check(
        "nodes n1\nadvance 1s\nexpect no leader",
        "line 3: expect no leader: expected otherwise: a node leads",
    );
}

//! Real compose files against what the official tool makes of them.
//!
//! The files are not part of this repository. Where their folder is absent the tests say so and
//! check nothing; `JACO_COMPOSE_CORPUS` names another folder.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the corpus lies on a disk, and a skipped comparison must be heard"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jaco_compose::canonical::without_empty;
use jaco_compose::{EnvFiles, FileError, Files, Input, Loaded, Problems, load, paths};
use serde_json::Value as Json;

/// Share of accepted files whose model must equal the official one, in percent.
const WANTED_PERCENT: usize = 98;

/// Where the golden models say the files lie.
const MOUNT: &str = "/corpus";

pub(crate) fn folder() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpus/compose");
    let folder =
        std::env::var_os("JACO_COMPOSE_CORPUS").map_or_else(|| default.into(), PathBuf::from);
    if folder.join("index.json").is_file() {
        return Some(folder);
    }
    println!("SKIPPED: no compose corpus at {}; nothing was compared", folder.display());
    None
}

/// One row of the index.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) file: String,
    pub(crate) env: BTreeMap<String, String>,
    overlay: Option<String>,
    empty_env_files: Vec<String>,
    pub(crate) official: String,
    pub(crate) golden: Option<String>,
}

pub(crate) fn cases(folder: &Path) -> Vec<Case> {
    let index: Json =
        serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap();
    let text = |row: &Json, key: &str| row[key].as_str().map(str::to_owned);
    index
        .as_array()
        .unwrap()
        .iter()
        .map(|row| Case {
            file: text(row, "file").unwrap(),
            env: row["env"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
                .collect(),
            overlay: text(row, "override"),
            empty_env_files: row["empty_env_files"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|value| value.as_str().unwrap().to_owned())
                .collect(),
            official: text(row, "official").unwrap(),
            golden: text(row, "golden"),
        })
        .collect()
}

/// The corpus as files below [`MOUNT`].
struct Corpus<'c> {
    folder: &'c Path,
    case: &'c Case,
}

impl Files for Corpus<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let Some(below) = path.strip_prefix(MOUNT) else {
            return Err(FileError::NotFound);
        };
        let file = format!("files{below}");
        if self.case.empty_env_files.contains(&file) {
            return Ok(Vec::new());
        }
        fs::read(self.folder.join(file)).map_err(|_| FileError::NotFound)
    }
}

pub(crate) fn run(folder: &Path, case: &Case) -> Result<Loaded, Problems> {
    let mounted = |file: &str| format!("{MOUNT}/{}", file.strip_prefix("files/").unwrap());
    let path = mounted(&case.file);
    let input = Input {
        project_dir: paths::parent(&path),
        files: [Some(path), case.overlay.as_deref().map(mounted)].into_iter().flatten().collect(),
        name: None,
        // The official tool ran with this home folder.
        env: [("HOME".to_owned(), "/root".to_owned())]
            .into_iter()
            .chain(case.env.clone())
            .collect(),
        env_files: EnvFiles::Project,
        profiles: Vec::new(),
    };
    load(&input, &Corpus { folder, case })
}

/// R-IN-2
#[test]
fn accepted_files_equal_the_official_model() {
    let Some(folder) = folder() else { return };
    let (mut equal, mut total) = (0, 0);
    let mut failures = Vec::new();
    for case in cases(&folder).iter().filter(|case| case.official == "accepted") {
        total += 1;
        let golden = fs::read(folder.join(case.golden.as_ref().unwrap())).unwrap();
        let golden = without_empty(serde_json::from_slice(&golden).unwrap());
        match run(&folder, case) {
            Err(problems) => failures.push(format!("{}: refused\n{problems}", case.file)),
            Ok(loaded) => {
                let own = without_empty(loaded.project.canonical_json());
                let mut differences = Vec::new();
                compare("", &golden, &own, &mut differences);
                if differences.is_empty() {
                    equal += 1;
                } else {
                    failures.push(format!("{}:\n  {}", case.file, differences.join("\n  ")));
                }
            }
        }
    }
    for failure in &failures {
        println!("{failure}");
    }
    println!("{equal} of {total} accepted files equal the official model");
    assert!(equal * 100 >= total * WANTED_PERCENT, "only {equal} of {total} are equal");
}

/// R-IN-2, R-IN-3
#[test]
fn refused_files_are_refused() {
    let Some(folder) = folder() else { return };
    let mut taken = Vec::new();
    let mut total = 0;
    for case in cases(&folder).iter().filter(|case| case.official != "accepted") {
        total += 1;
        match run(&folder, case) {
            Ok(_) => taken.push(case.file.clone()),
            Err(problems) => {
                assert!(
                    problems.errors().next().is_some(),
                    "{}: refused without a reason",
                    case.file
                );
            }
        }
    }
    assert!(taken.is_empty(), "{} of {total} were accepted: {taken:#?}", taken.len());
}

fn compare(path: &str, golden: &Json, own: &Json, differences: &mut Vec<String>) {
    match (golden, own) {
        (Json::Object(golden), Json::Object(own)) => {
            for (key, value) in golden {
                match own.get(key) {
                    Some(own) => compare(&format!("{path}.{key}"), value, own, differences),
                    None => differences.push(format!("{path}.{key}: missing, golden {value}")),
                }
            }
            for (key, value) in own {
                if !golden.contains_key(key) {
                    differences.push(format!("{path}.{key}: extra {value}"));
                }
            }
        }
        (Json::Array(golden), Json::Array(own)) if golden.len() == own.len() => {
            for (index, (golden, own)) in golden.iter().zip(own).enumerate() {
                compare(&format!("{path}[{index}]"), golden, own, differences);
            }
        }
        (Json::Number(golden), Json::Number(own)) if golden.as_f64() == own.as_f64() => {}
        (golden, own) if golden == own => {}
        (golden, own) => differences.push(format!("{path}: golden {golden}, own {own}")),
    }
}

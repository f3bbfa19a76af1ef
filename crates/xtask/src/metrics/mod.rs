//! `cargo xtask metrics`: sizes, documentation, tests and circles of every crate, by reading the sources.
//!
//! Heuristics over text, good for comparison: a figure that is off is a question, but for circles, which `tidy` refuses.

mod circle;
mod function;
mod modules;
mod source;

use std::collections::BTreeMap;

use anyhow::Result;

use crate::say;
use crate::tree::Tree;
use crate::workspace::Workspace;
use function::Function;
use modules::Modules;
use source::Source;

/// Longest function that needs no reason.
const FUNCTION_LINES: usize = 70;

/// Measure sizes, documentation, tests and circles of every crate
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Crates to measure; all without
    crates: Vec<String>,
    /// Print which module uses which as well
    #[arg(long)]
    uses: bool,
}

/// What is measured of one crate.
#[derive(Debug, Default)]
struct Figures {
    /// Lines of each file outside of tests.
    files: Vec<usize>,
    functions: Vec<(String, Function)>,
    code: usize,
    tests: usize,
    documented: usize,
    public: usize,
}

/// Prints a table with a row for each crate, and what breaks a bar.
///
/// # Errors
/// If the repository cannot be read.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let tree = Tree::read(&workspace.root, &workspace.target)?;
    say::result(
        "crate             files   code  tests  t/c   f50   f90  fn50  fn90  >70    %>70  doc%  circles",
    );
    let mut all = Figures::default();
    let mut details = Vec::new();
    for (name, folder) in crates(&tree) {
        if !args.crates.is_empty() && !args.crates.contains(&name) {
            continue;
        }
        let figures = measure(&tree, &folder);
        let modules = modules(&tree, &folder);
        let circles = modules.circles();
        say::result(&figures.row(&name, circles.len()));
        let long = figures.long().map(|(file, function)| {
            format!("{file}:{}: fn {} has {} lines", function.line, function.name, function.length)
        });
        details.extend(long);
        details.extend(circles.iter().map(|group| format!("{name}: circle {}", group.join(", "))));
        if args.uses {
            let pairs = modules.uses();
            details.extend(
                pairs
                    .iter()
                    .map(|(a, b)| format!("{name}: {} uses {}", a.join("::"), b.join("::"))),
            );
        }
        all.add(figures);
    }
    say::result(&all.row("all", 0));
    for detail in details {
        say::result(&detail);
    }
    Ok(())
}

/// Circles of each crate, for `tidy`.
pub(crate) fn circles(tree: &Tree) -> BTreeMap<String, Vec<Vec<String>>> {
    let of_crate = |(name, folder): (String, String)| (name, modules(tree, &folder).circles());
    crates(tree).into_iter().map(of_crate).collect()
}

/// Crates by name, each with its folder.
fn crates(tree: &Tree) -> Vec<(String, String)> {
    let manifests = tree.files("crates/", "/Cargo.toml").map(|(path, _)| path);
    let folders = manifests.filter_map(|path| path.strip_suffix("/Cargo.toml"));
    folders.map(|folder| (folder["crates/".len()..].to_owned(), folder.to_owned())).collect()
}

/// Sources of the crate's library or program, without whole files of tests, by their path below `src/`.
fn sources<'a>(tree: &'a Tree, folder: &str) -> (Vec<(&'a str, &'a str, Source)>, Vec<Source>) {
    let prefix = format!("{folder}/src/");
    let files: Vec<(&str, &str, Source)> = tree
        .0
        .iter()
        .filter(|(path, _)| path.starts_with(&prefix) && path.ends_with(".rs"))
        .map(|(path, text)| (&path[prefix.len()..], text.as_str(), Source::parse(text)))
        .collect();
    let test_files: Vec<String> = files
        .iter()
        .flat_map(|(path, _, source)| {
            let stem = path.strip_suffix(".rs").unwrap_or(path);
            let folder = match stem.rsplit('/').next() {
                Some("mod" | "lib" | "main") => stem.rsplit_once('/').map_or("", |(at, _)| at),
                _ => stem,
            };
            let join = |name: &String| match folder {
                "" => name.clone(),
                folder => format!("{folder}/{name}"),
            };
            source.test_modules.iter().map(join).collect::<Vec<_>>()
        })
        .collect();
    let is_test = |path: &str| {
        test_files.iter().any(|test| {
            path.strip_prefix(test.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    let (tests, product): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(path, ..)| is_test(path));
    (product, tests.into_iter().map(|(.., source)| source).collect())
}

fn modules(tree: &Tree, folder: &str) -> Modules {
    let (product, _) = sources(tree, folder);
    Modules::new(product.iter().map(|(path, _, source)| (*path, source)))
}

fn measure(tree: &Tree, folder: &str) -> Figures {
    let mut figures = Figures::default();
    let (product, tests) = sources(tree, folder);
    for (path, text, source) in &product {
        let (code, tests) = source.code_lines();
        let (documented, public) = function::documented(text, source);
        figures.files.push(source.lines());
        let functions = function::functions(source).into_iter();
        figures.functions.extend(functions.map(|found| (format!("{folder}/src/{path}"), found)));
        figures.code += code;
        figures.tests += tests;
        figures.documented += documented;
        figures.public += public;
    }
    let all_lines = |source: &Source| {
        let (code, tests) = source.code_lines();
        code + tests
    };
    figures.tests += tests.iter().map(all_lines).sum::<usize>();
    let prefix = format!("{folder}/tests/");
    let outside = tree.files(&prefix, ".rs").map(|(_, text)| all_lines(&Source::parse(text)));
    figures.tests += outside.sum::<usize>();
    figures
}

impl Figures {
    fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        self.functions.extend(other.functions);
        self.code += other.code;
        self.tests += other.tests;
        self.documented += other.documented;
        self.public += other.public;
    }

    fn long(&self) -> impl Iterator<Item = &(String, Function)> {
        self.functions.iter().filter(|(_, function)| function.length > FUNCTION_LINES)
    }

    fn row(&self, name: &str, circles: usize) -> String {
        let lengths: Vec<usize> = self.functions.iter().map(|(_, found)| found.length).collect();
        let long = self.long().count();
        format!(
            "{name:16} {:6} {:6} {:6} {:4.2} {:5} {:5} {:5} {:5} {long:4} {:6.2}% {:4.0}%  {circles:5}",
            self.files.len(),
            self.code,
            self.tests,
            ratio(self.tests, self.code),
            percentile(&self.files, 50),
            percentile(&self.files, 90),
            percentile(&lengths, 50),
            percentile(&lengths, 90),
            100.0 * ratio(long, lengths.len()),
            100.0 * ratio(self.documented, self.public),
        )
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The value that `percent` of all do not exceed.
fn percentile(values: &[usize], percent: usize) -> usize {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_files_of_tests_count_as_tests() {
        let tree = Tree::from([
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", "mod b;\nfn a() {}\n"),
            ("crates/a/src/b.rs", "fn b() {}\n#[cfg(test)]\nmod cases;\n"),
            ("crates/a/src/b/cases.rs", "use crate::a;\nfn c() {}\n"),
            ("crates/a/tests/it.rs", "fn d() {}\n"),
        ]);
        let figures = measure(&tree, "crates/a");
        assert_eq!((figures.code, figures.tests, figures.files.len()), (3, 5, 2));
        assert_eq!(circles(&tree)["a"], Vec::<Vec<String>>::new());
    }

    #[test]
    fn percentiles_are_values_of_the_list() {
        assert_eq!(percentile(&[5, 1, 4, 2, 3], 50), 3);
        assert_eq!(percentile(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 90), 9);
        assert_eq!(percentile(&[], 50), 0);
    }
}

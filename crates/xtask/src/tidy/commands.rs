//! Commands that documents show: each must exist with its flags, in `docs/cli.md` or in this program.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::tree::Tree;

/// The help of every command of `jaco`, written by a test of it.
const REFERENCE: &str = "docs/cli.md";
const README: &str = "README.md";
const SUPPORT: &str = "docs/compose-support.md";

/// Help texts by command, as in `node drain`; the program itself is the empty one.
struct Reference<'a>(BTreeMap<&'a str, &'a str>);

/// Checks every document: commands and flags of `jaco`, and commands of `cargo xtask`, which is `xtask`.
pub(super) fn check(tree: &Tree, xtask: &clap::Command) -> Vec<Finding> {
    let reference = Reference::parse(tree.get(REFERENCE).unwrap_or_default());
    let mut findings = readme(tree, &reference);
    let is_document = |path: &str| {
        let is_generated = [REFERENCE, "docs/requirements.md", "CHANGELOG.md"].contains(&path);
        path.ends_with(".md") && !is_generated && !path.starts_with("ADR/")
    };
    for (path, text) in tree.files("", "").filter(|(path, _)| is_document(path)) {
        for (line, command) in shown(text) {
            let wrong = match command.strip_prefix("cargo xtask ") {
                Some(rest) => xtask_error(xtask, rest),
                None => reference.error(&command),
            };
            let finding = |what| Finding::new(format!("{path}:{line}"), what);
            findings.extend(wrong.map(finding));
        }
    }
    findings
}

/// The list of commands and the figures in README.
fn readme(tree: &Tree, reference: &Reference<'_>) -> Vec<Finding> {
    let text = tree.get(README).unwrap_or_default();
    let section = text.split("\n## Commands\n").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let listed: BTreeSet<&str> =
        section.split('`').skip(1).step_by(2).filter(|name| !name.contains(' ')).collect();
    let all: BTreeSet<&str> = reference.children("").collect();
    let missing = all.difference(&listed).map(|name| format!("\"Commands\" lacks `{name}`"));
    let unknown = listed
        .difference(&all)
        .map(|name| format!("\"Commands\" has `{name}`, which does not exist"));
    let mut findings: Vec<Finding> =
        missing.chain(unknown).map(|what| Finding::new(README, what)).collect();
    let support = tree.get(SUPPORT).unwrap_or_default();
    let counts = support.lines().find(|line| line.contains(" keys are honoured, "));
    if let Some(counts) = counts
        && !text.split_whitespace().collect::<Vec<_>>().join(" ").contains(counts)
    {
        findings.push(Finding::new(README, format!("must say as {SUPPORT} does: {counts}")));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, key, class, ..] = cells[..]
            && key.starts_with('`')
            && let Some(row) = support.lines().find(|row| row.starts_with(&format!("| {key} |")))
            && !row.starts_with(&format!("| {key} | {class} |"))
        {
            let what = format!("{key} is not \"{class}\" in {SUPPORT}");
            findings.push(Finding::new(format!("{README}:{number}"), what));
        }
    }
    findings
}

/// Commands in code blocks and between backticks, with their lines.
fn shown(text: &str) -> Vec<(usize, String)> {
    let (mut commands, mut is_block) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
            continue;
        }
        let parts: Vec<&str> = match is_block {
            true => line.split(['|', ';', '&', '(']).collect(),
            false => line.split('`').skip(1).step_by(2).collect(),
        };
        let commands_of = parts.into_iter().map(str::trim).filter(|part| is_command(part));
        commands.extend(commands_of.map(|part| {
            let end = part.find(" #").or_else(|| part.find(" >")).unwrap_or(part.len());
            (number, part[..end].to_owned())
        }));
    }
    commands
}

fn is_command(part: &str) -> bool {
    let rest = part.strip_prefix("jaco ").or_else(|| part.strip_prefix("cargo xtask "));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-'))
}

fn xtask_error(xtask: &clap::Command, rest: &str) -> Option<String> {
    let known = |name: &str| xtask.get_subcommands().any(|command| command.get_name() == name);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (name, flags) = words.split_first()?;
    if !known(name) {
        return Some(format!("there is no `cargo xtask {name}`"));
    }
    let command = xtask.find_subcommand(name)?;
    let has = |flag: &str| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
    let flags = flags.iter().take_while(|word| **word != "--");
    let mut flags = flags.filter_map(|word| word.strip_prefix("--"));
    let unknown = flags.find(|flag| !has(flag.split('=').next().unwrap_or_default()))?;
    Some(format!("`cargo xtask {name}` has no --{unknown}"))
}

impl<'a> Reference<'a> {
    fn parse(text: &'a str) -> Self {
        let sections = text.split("\n## jaco").skip(1);
        let section = |section: &'a str| {
            let (name, help) = section.split_once('\n').unwrap_or((section, ""));
            (name.trim(), help)
        };
        Self(sections.map(section).collect())
    }

    /// Commands directly below one.
    fn children<'b>(&self, parent: &'b str) -> impl Iterator<Item = &'a str> + use<'a, 'b, '_> {
        let below = move |name: &&'a str| -> Option<&'a str> {
            let rest = match parent {
                "" => Some(*name),
                parent => name.strip_prefix(parent).and_then(|rest| rest.strip_prefix(' ')),
            };
            rest.filter(|rest| !rest.is_empty() && !rest.contains(' '))
        };
        self.0.keys().filter_map(below)
    }

    /// Why a command line is none, if it is not.
    fn error(&self, line: &str) -> Option<String> {
        let (mut command, mut help) = (String::new(), *self.0.get("")?);
        let mut words = line.split_whitespace().skip(1).peekable();
        let (mut flags, mut has_arguments) = (Vec::new(), false);
        while let Some(word) = words.next_if(|word| *word != "--" && *word != "-") {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '-');
            if let Some(flag) = word.strip_prefix("--") {
                flags.push(flag.split('=').next().unwrap_or_default());
                continue;
            }
            if word.starts_with('-') {
                has_arguments = true;
                continue;
            }
            let longer = format!("{command} {word}").trim_start().to_owned();
            if let Some(found) = self.0.get(longer.as_str()).filter(|_| !has_arguments) {
                (command, help) = (longer, found);
            } else if has_alias(help, word) {
                return None;
            } else if flags.is_empty()
                && !has_arguments
                && !takes_an_argument(help)
                && self.children(&command).next().is_some()
            {
                return Some(format!("there is no `jaco {longer}`"));
            } else {
                // What follows is an argument, but for flags.
                has_arguments |= !command.is_empty();
            }
        }
        let global = *self.0.get("")?;
        let has = |flag: &&str| {
            help.contains(&format!("--{flag}")) || global.contains(&format!("--{flag}"))
        };
        let unknown = flags.into_iter().find(|flag| !has(flag))?;
        Some(format!("`jaco {command}` has no --{unknown}"))
    }
}

/// Whether a command takes something else than commands below it, as `jaco backup FILE` does.
fn takes_an_argument(help: &str) -> bool {
    let usage = help.lines().find(|line| line.starts_with("Usage: "));
    let mut words = usage.into_iter().flat_map(str::split_whitespace);
    words.any(|word| {
        word.starts_with(['[', '<']) && !["[OPTIONS]", "[COMMAND]", "<COMMAND>"].contains(&word)
    })
}

/// Whether a help text names `word` as an alias of a command.
fn has_alias(help: &str, word: &str) -> bool {
    let lists = help.split("[alias").skip(1).filter_map(|rest| rest.split(']').next());
    lists.flat_map(|list| list.split([':', ',', ' '])).any(|alias| alias == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLI: &str = "# The command line\n\n## jaco\n\n--server <A>\n  delete  Stop [alias: rm]\n\n## jaco apply\n\n--detach\n\n\
                       ## jaco node\n\n## jaco node drain\n\n--timeout <T>\n";

    fn xtask() -> clap::Command {
        let tidy = clap::Command::new("tidy").arg(clap::Arg::new("write").long("write"));
        clap::Command::new("xtask").subcommand(tidy)
    }

    fn found(readme: &str) -> Vec<String> {
        let tree = Tree::from([
            (REFERENCE, CLI),
            (README, readme),
            (SUPPORT, "3 keys are honoured, 1 warned.\n| `a` | warned | |\n"),
        ]);
        check(&tree, &xtask()).into_iter().map(|finding| finding.what).collect()
    }

    const COMMANDS: &str =
        "## x\n\n## Commands\n\n`apply`, `node`\n\n## y\n3 keys are honoured,\n1 warned.\n";

    #[test]
    fn commands_and_flags_that_exist_are_accepted() {
        let block = "```sh\njaco --server a:1 apply compose.yaml --detach   # why\njaco node drain n2 | x\njaco rm a\n\
                     cargo xtask tidy --write\n```\n`jaco node drain --timeout 5m`, `jaco`\n";
        assert_eq!(found(&format!("{COMMANDS}{block}")), [""; 0]);
    }

    #[test]
    fn what_does_not_exist_is_found() {
        let text = format!(
            "{COMMANDS}`jaco fly`, `jaco node drain --fast`, `cargo xtask fly`\n| `a` | honoured |\n"
        );
        let expected = [
            "`a` is not \"honoured\" in docs/compose-support.md",
            "there is no `jaco fly`",
            "`jaco node drain` has no --fast",
            "there is no `cargo xtask fly`",
        ];
        assert_eq!(found(&text), expected);
    }

    #[test]
    fn readme_lists_all_commands_and_the_counts() {
        let expected = [
            "\"Commands\" lacks `node`",
            "\"Commands\" has `fly`, which does not exist",
            "must say as docs/compose-support.md does: 3 keys are honoured, 1 warned.",
        ];
        assert_eq!(found("a\n## Commands\n\n`apply` `fly`\n"), expected);
    }
}

//! The help of all commands: its style, and the reference that is generated from it.

use std::collections::BTreeSet;

use expect_test::expect_file;

use crate::fixture::Session;

/// R-CLI-6: `docs/cli.md` is the help of the program. It is a snapshot: changed wording is reviewed.
#[test]
fn reference_is_the_help_of_all_commands() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    expect_file![file].assert_eq(&jaco_cli::cli::reference());
}

/// The verbs that a summary may start with.
const VERBS: &[&str] = &[
    "Add",
    "Apply",
    "Back",
    "Compare",
    "Copy",
    "Cordon",
    "Create",
    "Delete",
    "Diagnose",
    "Drain",
    "Edit",
    "Exclude",
    "Explain",
    "Forward",
    "Include",
    "Inspect",
    "Join",
    "List",
    "Manage",
    "Move",
    "Pause",
    "Print",
    "Push",
    "Rebalance",
    "Remove",
    "Renew",
    "Replace",
    "Restart",
    "Restore",
    "Resume",
    "Revoke",
    "Roll",
    "Run",
    "Select",
    "Set",
    "Show",
    "Start",
    "Stop",
    "Store",
    "Validate",
    "Verify",
    "Wait",
];

/// Every command with its path: `jaco node ls`.
fn commands() -> Vec<(String, clap::Command)> {
    fn collect(command: &clap::Command, path: &str, all: &mut Vec<(String, clap::Command)>) {
        for subcommand in command.get_subcommands().filter(|each| !each.is_hide_set()) {
            let path = format!("{path} {}", subcommand.get_name());
            all.push((path.clone(), subcommand.clone()));
            collect(subcommand, &path, all);
        }
    }
    let mut root = jaco_cli::cli::command();
    root.build();
    let mut all = vec![("jaco".to_owned(), root.clone())];
    collect(&root, "jaco", &mut all);
    all
}

/// R-CLI-6: a summary is a verb and an object in one short line without a full stop.
#[test]
fn summaries_start_with_a_verb_and_fit_a_line() {
    for (path, command) in commands() {
        let summary = command.get_about().map(ToString::to_string).unwrap_or_default();
        let verb = summary.split([' ', ',', ':']).next().unwrap_or_default();
        assert!(VERBS.contains(&verb), "{path}: {summary:?} does not start with a known verb");
        assert!(!summary.ends_with('.'), "{path}: {summary:?} ends with a full stop");
        assert!(summary.chars().count() <= 72, "{path}: {summary:?} is too long");
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty(), "{path} {}: no help", argument.get_id());
            assert!(!help.ends_with('.'), "{path} {}: full stop", argument.get_id());
        }
    }
}

/// R-CLI-6: every command has examples, and each of them calls a command that exists.
#[test]
fn every_command_has_examples_of_commands_that_exist() {
    let known: BTreeSet<String> = commands().into_iter().map(|(path, _)| path).collect();
    for (path, command) in commands() {
        let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let (_, examples) = text.split_once("Examples:\n").unwrap_or_else(|| {
            panic!("{path} has no examples");
        });
        let group: String = path.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        assert!(examples.contains(&group), "{path}: the examples call another command");
        for line in examples.lines() {
            let Some((_, call)) = line.split_once("jaco ") else { continue };
            let word = call.split_whitespace().find(|word| !word.starts_with('-'));
            // `jaco --server n3:7000 …` has a value before the command.
            if call.starts_with("--") {
                continue;
            }
            let name = format!("jaco {}", word.unwrap_or_default());
            assert!(known.contains(&name) || name == "jaco rm", "{path}: {line}");
        }
    }
}

/// R-CLI-6: every command takes `-o table|wide|json|yaml`; an unknown format is refused.
#[test]
fn every_command_takes_all_output_formats() {
    let formats = ["table", "wide", "json", "yaml"];
    for (path, command) in commands() {
        let output = command.get_arguments().find(|argument| argument.get_id() == "output");
        let output = output.unwrap_or_else(|| panic!("{path} has no --output"));
        let values: Vec<String> =
            output.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        assert_eq!(values, formats, "{path}");
    }
}

/// A command line that the parser accepts: the required arguments with values.
fn minimal_line(path: &str, command: &clap::Command) -> String {
    let mut words: Vec<String> = path.split_whitespace().skip(1).map(str::to_owned).collect();
    for argument in command.get_arguments().filter(|argument| argument.is_required_set()) {
        if let Some(long) = argument.get_long() {
            words.push(format!("--{long}"));
        }
        let value = argument.get_possible_values().first().map(|value| value.get_name().to_owned());
        let value = value.unwrap_or_else(|| match argument.get_id().as_str() {
            "replicas" => "3".to_owned(),
            "reaches" => "privileged".to_owned(),
            "registry" => "ghcr.io".to_owned(),
            "labels" | "pairs" => "zone=a".to_owned(),
            "servers" => "n1:7000".to_owned(),
            _ => "shop".to_owned(),
        });
        words.push(value);
    }
    words.join(" ")
}

/// R-CLI-6: every command reports a missing daemon as YAML and JSON with the same data; the exit code is
/// in it.
#[test]
fn every_command_reports_errors_as_yaml_and_json() {
    let session = Session::alone();
    session.write("compose.yaml", "name: shop\nservices:\n  web:\n    image: web:1\n");
    session.write("shop", "content");
    let mut unreachable = Vec::new();
    for (path, command) in commands() {
        // These start processes, or take no cluster.
        let is_local = ["jaco help", "jaco token request"].contains(&path.as_str());
        if command.has_subcommands() || path.starts_with("jaco dev") || is_local {
            continue;
        }
        let line = match path.as_str() {
            "jaco rebalance" => "rebalance --plan".to_owned(),
            "jaco whatif" => "whatif --lose n1".to_owned(),
            "jaco scale" => "scale shop/web 3".to_owned(),
            "jaco disable" | "jaco enable" => format!("{} shop/web", &path[5..]),
            // The format goes before the command of the container.
            "jaco exec" => "exec shop-web-0".to_owned(),
            "jaco registry login" => continue,
            _ => minimal_line(&path, &command),
        };
        let rest = if path == "jaco exec" { "-- true" } else { "" };
        let run = |format: &str| session.run(&format!("{line} -o {format} {rest}"));
        let (yaml, json) = (run("yaml"), run("json"));
        assert_eq!(yaml.code, json.code, "{line}");
        if yaml.code != Some(9) {
            continue;
        }
        let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(value["error"]["exit_code"], 9, "{line}");
        assert_eq!(yaml.out, jaco_cli::format::yaml::to_yaml(&value), "{line}");
        unreachable.push(path);
    }
    let local = ["jaco validate", "jaco schema", "jaco completion", "jaco version"];
    assert!(local.iter().all(|path| !unreachable.iter().any(|it| it == path)), "{unreachable:?}");
    assert!(unreachable.len() > 40, "{unreachable:?}");
}

/// R-CLI-6: commands that need no cluster print YAML that can be parsed, and the same data as JSON.
#[test]
fn yaml_and_json_of_local_commands_hold_the_same() {
    let session = Session::alone();
    session.write("compose.yaml", "name: shop\nservices:\n  web:\n    image: web:1\n");
    for line in [
        "help exit-codes",
        "help error",
        "help error no_leader",
        "help apply",
        "validate",
        "config",
        "compose config",
        "compose config --hash",
        "compose support",
        "context ls",
        "version",
    ] {
        let yaml = session.run(&format!("{line} -o yaml"));
        let json = session.run(&format!("{line} -o json"));
        assert_eq!((yaml.code, json.code), (Some(0), Some(0)), "{line}: {yaml:?}");
        let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(yaml.out, jaco_cli::format::yaml::to_yaml(&json), "{line}");
    }
}

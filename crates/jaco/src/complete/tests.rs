//! Which arguments complete which names, and which cluster a line is about.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

use expect_test::expect_file;

use super::*;

/// R-CLI-6: every argument with what it completes, so that a new one is not forgotten.
#[test]
fn arguments_have_their_names() {
    let mut text = String::new();
    list(&crate::cli::command(), "", &mut text);
    expect_file!["../../tests/golden/completions.txt"].assert_eq(&text);
}

/// R-CLI-6: the line that is completed is the line that is parsed.
#[test]
fn completed_lines_are_sound() {
    with_names(crate::cli::command()).debug_assert();
}

fn list(command: &clap::Command, path: &str, text: &mut String) {
    for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
        if let Some(kind) = kind::of(path, arg) {
            writeln!(text, "jaco {path:<20} {:<12} {kind:?}", arg.get_id()).expect("a string");
        }
    }
    for below in command.get_subcommands() {
        list(below, format!("{path} {}", below.get_name()).trim_start(), text);
    }
}

fn options_of(line: &str) -> crate::options::GlobalOptions {
    let arguments = ["/usr/bin/jaco", "--", "jaco"].into_iter().chain(line.split(' '));
    line::options(&line::words(arguments.map(OsString::from)))
}

/// R-CLI-6: names come from the cluster that the line names.
#[test]
fn the_cluster_of_the_line_is_asked() {
    let options = options_of("--context prod logs --server=a:1,b:2 sh");
    assert_eq!(options.context.as_deref(), Some("prod"));
    assert_eq!(options.server, ["a:1", "b:2"]);
    let options = options_of("exec --ca-cert ca.pem shop/web -- prog --socket /no");
    assert_eq!((options.ca_cert, options.socket), (Some(PathBuf::from("ca.pem")), None));
}

/// R-CLI-6: a secret on stdin, which is the terminal here, is not waited for; neither is an option without its value.
#[test]
fn nothing_is_read_from_the_terminal() {
    let options = options_of("--token-file - --client-key=- --server");
    assert_eq!((options.token_file, options.client_key), (None, None));
    assert!(options.server.is_empty());
}

/// R-CLI-6: scripts are for this program and answer the first word too.
#[test]
fn scripts_ask_this_program() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = script(shell).expect("known");
        assert!(script.contains(VARIABLE), "{shell}: {script}");
    }
    assert!(script("zsh").expect("known").starts_with("#compdef jaco\n"));
    assert!(script("csh").is_err());
}

//! The help of all commands as one document.

use super::grammar;

/// The whole command line as Markdown: `docs/cli.md`.
#[must_use]
pub fn reference() -> String {
    let mut command = grammar::command().term_width(100);
    command.build();
    let mut text = "# The command line\n\n\
        Generated from the program: `UPDATE_EXPECT=1 cargo test -p jaco` updates it. Every command \
        takes the\noptions of `jaco` itself.\n"
        .to_owned();
    section(&mut command, "jaco", &mut text);
    text
}

fn section(command: &mut clap::Command, name: &str, text: &mut String) {
    let help = command.render_long_help().to_string();
    // The global options are listed at `jaco` only.
    let own = match help.split_once("\nGlobal options:") {
        Some((own, rest)) if name != "jaco" => {
            format!("{own}{}", rest.split_once("\nExamples:").map_or(String::new(), examples))
        }
        Some(_) | None => help,
    };
    let lines: Vec<&str> = own.trim_end().lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n")));
    for subcommand in command.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
        let name = format!("{name} {}", subcommand.get_name());
        section(subcommand, &name, text);
    }
}

fn examples((_, examples): (&str, &str)) -> String {
    format!("\nExamples:{examples}")
}

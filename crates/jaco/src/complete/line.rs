//! Which cluster a line is about: the global options in its words. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Words;
use crate::options::GlobalOptions;

/// The words of the line that is completed, from the arguments that a shell starts this program with: those after `--`,
/// without the program's name.
pub(super) fn words(arguments: impl Iterator<Item = OsString>) -> Words {
    arguments.skip_while(|word| word != "--").skip(2).collect()
}

/// The global options in the words, as far as they choose a cluster. Words that are no text are left out, and so is a
/// secret that would be read from stdin, which is the user's terminal here.
pub(super) fn options(words: &Words) -> GlobalOptions {
    let mut options = GlobalOptions::default();
    let mut words = words.iter().filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        // What follows is a command of its own.
        if word == "--" {
            break;
        }
        let Some(option) = word.strip_prefix("--") else { continue };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        if !OPTIONS.contains(&name) {
            continue;
        }
        // It may be missing still, while it is typed.
        let Some(value) = value.or_else(|| words.next()).filter(|value| !value.is_empty()) else {
            continue;
        };
        let path = || Some(PathBuf::from(value)).filter(|path| path != Path::new("-"));
        match name {
            "server" => options.server = value.split(',').map(str::to_owned).collect(),
            "socket" => options.socket = path(),
            "context" => options.context = Some(value.to_owned()),
            "ca-cert" => options.ca_cert = path(),
            "token-file" => options.token_file = path(),
            "client-cert" => options.client_cert = path(),
            "client-key" => options.client_key = path(),
            _ => {}
        }
    }
    options
}

/// The options that choose a cluster; each takes a value.
const OPTIONS: [&str; 7] =
    ["server", "socket", "context", "ca-cert", "token-file", "client-cert", "client-key"];

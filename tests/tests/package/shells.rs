//! Completions, as bash, zsh and fish load them from the folders of a package.

use std::process::Command;

use jaco_testkit::ran;

use crate::built::built;

/// What a shell is run in: the unpacked packages, and no cluster.
struct Installed {
    root: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        Self { root: built().unpacked() }
    }

    fn path(&self, path: &str) -> String {
        self.root.path().join(path).display().to_string()
    }

    /// Runs a script with `jaco` on the path.
    fn run(&self, shell: &[&str], script: &str) -> String {
        // A shell that waits for an answer that never comes would wait forever.
        let mut command = Command::new("timeout");
        let path = format!("{}:/usr/bin:/bin", self.path("usr/bin"));
        command.arg("30").args(shell).arg(script).env_clear().env("PATH", path).env("TERM", "dumb");
        ran(command.env("HOME", self.root.path()).current_dir(self.root.path()))
    }
}

/// R-CLI-6: bash completes commands and options of the installed program.
#[test]
fn bash_completes() {
    let installed = Installed::new();
    let script = installed.path("usr/share/bash-completion/completions/jaco");
    let complete = |words: &str, count: usize| {
        let word = words.rsplit(' ').next().unwrap_or_default();
        let line = format!(
            "source {script}; complete -p jaco >/dev/null || exit 1; COMP_WORDS=({words}); COMP_CWORD={count}; COMP_TYPE=9; \
             $(complete -p jaco | sed 's/.*-F \\([^ ]*\\).*/\\1/') jaco '{word}' jaco; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        installed.run(&["bash", "--norc", "-c"], &line)
    };
    assert_eq!(complete("jaco roll", 1).trim(), "rollback");
    assert_eq!(complete("jaco node dr", 2).trim(), "drain");
    assert!(complete("jaco apply --dry", 2).contains("--dry-run"));
}

/// R-CLI-6: fish finds the script by itself and completes.
#[test]
fn fish_completes() {
    let installed = Installed::new();
    let folder = installed.path("usr/share/fish/vendor_completions.d");
    let complete = |line: &str| {
        let script = format!("set -p fish_complete_path {folder}; complete --do-complete '{line}'");
        installed.run(&["fish", "--no-config", "-c"], &script)
    };
    let found = complete("jaco roll");
    assert!(found.starts_with("rollback\t"), "{found}");
    let found = complete("jaco node dr");
    assert!(found.starts_with("drain\t"), "{found}");
}

/// R-CLI-6: zsh finds the script by itself, and completes the first word as well, which loads it.
#[test]
fn zsh_completes() {
    let installed = Installed::new();
    let folder = installed.path("usr/share/zsh/vendor-completions");
    // A terminal of its own, as completion is part of zsh's line editor.
    let script = format!(
        "zmodload zsh/zpty; zpty shell 'PS1= zsh -f -i'; \
         zpty -w shell 'unsetopt beep; fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; print LOAD''ED'; \
         zpty -r -m shell seen '*LOADED*'; zpty -w -n shell $'jaco roll\\t'; \
         zpty -r -m shell seen '*rollback*' && print -r -- $seen; zpty -d shell"
    );
    let seen = installed.run(&["zsh", "-f", "-c"], &script);
    assert!(seen.contains("rollback"), "{seen}");
}

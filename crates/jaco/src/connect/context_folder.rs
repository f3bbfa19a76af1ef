//! The files of a context: copies of the certificate and the credential, so that the originals may move, and the
//! addresses of the cluster's members as its nodes last gave them, so that a node that is off costs nothing.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jaco_client::{Target, contexts};

const CA: &str = "ca.crt";
const TOKEN: &str = "token";
const CERTIFICATE: &str = "client.crt";
const KEY: &str = "client.key";
const MEMBERS: &str = "members";

/// The folder of one context, below the file of contexts. Only its owner can read it.
#[derive(Debug)]
pub(crate) struct ContextFolder(PathBuf);

impl ContextFolder {
    /// The folder of the context with this name; `None` where the user has no directory for contexts.
    pub(crate) fn of(context: &str) -> Option<Self> {
        Some(Self(contexts::default_path()?.with_file_name("contexts").join(context)))
    }

    /// Where the copy of the authority's certificate is.
    pub(crate) fn ca(&self) -> PathBuf {
        self.0.join(CA)
    }

    /// Replaces the copy of the certificate. Returns where it is.
    pub(crate) fn keep_ca(&self, pem: &str) -> io::Result<PathBuf> {
        self.write(CA, pem)
    }

    /// Replaces the copy of the token. Returns where it is.
    pub(crate) fn keep_token(&self, text: &str) -> io::Result<PathBuf> {
        self.write(TOKEN, text)
    }

    /// Replaces the copy of the client certificate. Returns where it is.
    pub(crate) fn keep_certificate(&self, pem: &str) -> io::Result<PathBuf> {
        self.write(CERTIFICATE, pem)
    }

    /// Replaces the copy of the certificate's private key. Returns where it is.
    pub(crate) fn keep_key(&self, pem: &str) -> io::Result<PathBuf> {
        self.write(KEY, pem)
    }

    /// The servers to try: the one that answered last, then those of the context, then the other members.
    pub(crate) fn servers(&self, of_context: &[String]) -> Vec<String> {
        let known = self.members();
        let last = known.first().into_iter();
        distinct(last.chain(of_context).chain(&known))
    }

    /// Remembers which server answered, and the members if the answers listed them.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn remember(&self, answering: &str, members: &[String]) -> io::Result<()> {
        let known = self.members();
        let listed = if members.is_empty() { &known } else { members };
        let answering = answering.to_owned();
        let now = distinct(std::iter::once(&answering).chain(listed));
        if now == known {
            return Ok(());
        }
        self.write(MEMBERS, &(now.join("\n") + "\n")).map(drop)
    }

    /// Removes all of its files.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn members(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.join(MEMBERS)).unwrap_or_default();
        text.lines().filter(|line| Target::is_server(line)).map(str::to_owned).collect()
    }

    fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let path = self.0.join(name);
        replace(&path, text)?;
        Ok(path)
    }
}

/// Replaces a file whole, or makes it; only its owner can read it.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Another command may do the same at the same time.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
    fs::rename(&temporary, path)
}

/// Whether this can be the name of a folder, and be typed without quotes.
pub(crate) fn is_context_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_plain)
}

/// Each once, in the order in which they come first.
fn distinct<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut out = Vec::new();
    for one in all {
        if !out.contains(one) {
            out.push(one.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    /// R-CLI-4: the server that answered last is tried first, and members are tried that nobody has typed.
    #[test]
    fn members_are_remembered() {
        let home = tempfile::tempdir().unwrap();
        let folder = ContextFolder(home.path().join("prod"));
        let typed = texts(&["n1:7000", "n2:7000"]);
        assert_eq!(folder.servers(&typed), typed);
        folder.remember("n2:7000", &texts(&["n1:7000", "n2:7000", "n3:7000"])).unwrap();
        assert_eq!(folder.servers(&typed), texts(&["n2:7000", "n1:7000", "n3:7000"]));
        // An answer that lists no members says only who answered.
        folder.remember("n3:7000", &[]).unwrap();
        assert_eq!(folder.servers(&typed), texts(&["n3:7000", "n1:7000", "n2:7000"]));
        // What others wrote into the file is no reason to fail.
        fs::write(folder.0.join(MEMBERS), "nonsense\nn4:7000\n").unwrap();
        assert_eq!(folder.servers(&typed), texts(&["n4:7000", "n1:7000", "n2:7000"]));
        folder.remove().unwrap();
        folder.remove().unwrap();
        assert_eq!(folder.servers(&typed), typed);
    }

    #[test]
    fn names_are_folders() {
        let check = |name: &str, expected| assert_eq!(is_context_name(name), expected, "{name}");
        check("prod", true);
        check("eu-west.1_b", true);
        check("", false);
        check("..", false);
        check("a/b", false);
        check("a b", false);
    }
}

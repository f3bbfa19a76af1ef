//! Files of a project that are encrypted with age: env files and files of secrets whose names end in `.age`. They are opened in
//! memory, and never written anywhere.

use std::path::{Path, PathBuf};

use jaco_backup::{Identities, ValueError, open_value};

use crate::error::CliError;
use crate::identities;

/// What the name of an encrypted file ends in.
const EXTENSION: &str = "age";

/// What a command does with encrypted files.
#[derive(Debug, Clone)]
pub(crate) enum Opening {
    /// Opens them with these identities; without any, it refuses them.
    Open(Option<Identities>),
    /// Leaves them closed, and goes on without what is in them.
    Leave,
}

impl Opening {
    /// For a command that needs what is in them.
    ///
    /// # Errors
    /// If a file of identities cannot be read, or has none.
    pub(crate) fn by(identities: &[PathBuf]) -> Result<Self, CliError> {
        Ok(Self::Open(identities::read(identities)?))
    }

    /// What is in a file that was read from this path; `None` if it stays closed.
    ///
    /// # Errors
    /// Why it cannot be opened, and what to do.
    pub(crate) fn open(&self, path: &Path, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, Unopened> {
        if !is_encrypted(path) {
            return Ok(Some(bytes));
        }
        let Self::Open(identities) = self else { return Ok(None) };
        match open_value(&bytes, identities.as_ref()) {
            Ok(content) => Ok(Some(content.to_vec())),
            Err(error) => Err(Unopened { help: help(&error), error }),
        }
    }
}

/// Whether the name says that a file is encrypted.
pub(crate) fn is_encrypted(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// Why an encrypted file was not opened.
#[derive(Debug)]
pub(crate) struct Unopened {
    pub(crate) error: ValueError,
    pub(crate) help: &'static str,
}

impl std::fmt::Display for Unopened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.error, self.help)
    }
}

fn help(error: &ValueError) -> &'static str {
    match error {
        ValueError::Plain => "encrypt it with `age -r age1…`, or give it a name without `.age`",
        ValueError::NoIdentity => {
            "give the key that opens it: --identity FILE, or JACO_AGE_IDENTITY"
        }
        ValueError::OtherKey => {
            "give the identity of one of its recipients, or have it encrypted for yours: age -r age1…"
        }
        ValueError::Damaged(_) => "take it from its source again, or encrypt the value again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-5: only a name that says so makes a file an encrypted one.
    #[test]
    fn files_are_encrypted_by_their_name() {
        for (name, expected) in [
            ("db.age", true),
            ("a/prod.env.age", true),
            ("db.age.txt", false),
            (".age", false),
            ("age", false),
        ] {
            assert_eq!(is_encrypted(Path::new(name)), expected, "{name}");
        }
        let left = Opening::Leave.open(Path::new("db.age"), b"x".to_vec()).unwrap();
        assert_eq!(left, None);
        let plain = Opening::Open(None).open(Path::new("db.txt"), b"x".to_vec()).unwrap();
        assert_eq!(plain.as_deref(), Some(&b"x"[..]));
        let refused = Opening::Open(None).open(Path::new("db.age"), b"x".to_vec()).unwrap_err();
        assert!(refused.to_string().contains("it is not encrypted by age"), "{refused}");
    }
}

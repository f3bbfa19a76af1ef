//! Why a request failed, and what to do. Of what a store answers there are numbers and words that are known, nothing else.

use std::fmt;
use std::time::Duration;

/// The words with which stores say what is wrong.
const KNOWN_WORDS: [&str; 18] = [
    "AccessDenied",
    "AuthorizationHeaderMalformed",
    "BadDigest",
    "EntityTooLarge",
    "EntityTooSmall",
    "InternalError",
    "InvalidAccessKeyId",
    "InvalidBucketName",
    "InvalidRequest",
    "NoSuchBucket",
    "NoSuchKey",
    "NoSuchUpload",
    "PermanentRedirect",
    "RequestTimeTooSkewed",
    "ServiceUnavailable",
    "SignatureDoesNotMatch",
    "SlowDown",
    "XMinioStorageFull",
];

/// What was asked of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// To take an object, or a part of one.
    Write,
    /// To return an object.
    Read,
    /// To list objects.
    List,
    /// To remove an object.
    Remove,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::List => "list",
            Self::Remove => "remove",
        })
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// This machine knows no authority.
    #[error("this machine trusts no authority: install the package ca-certificates on all nodes")]
    NoRoots,
    /// Nobody answers there, or not as who they should be.
    #[error("cannot connect to the object store: {0}")]
    Connect(String),
    /// It took too long.
    #[error("the object store did not answer a request to {step} within {} s", limit.as_secs())]
    Timeout {
        /// What was asked.
        step: Step,
        /// How long it may take.
        limit: Duration,
    },
    /// The connection broke off.
    #[error("the answer of the object store to a request to {step} broke off: {reason}")]
    Broken {
        /// What was asked.
        step: Step,
        /// How.
        reason: String,
    },
    /// It did not do it.
    #[error(
        "the object store answered {status}{} to a request to {step}{}",
        word.map(|word| format!(" ({word})")).unwrap_or_default(),
        advice(*status, *word)
    )]
    Status {
        /// What was asked.
        step: Step,
        /// The status.
        status: u16,
        /// A word of the answer, of those that are known.
        word: Option<&'static str>,
    },
    /// It answered something else than was asked.
    #[error("the object store answered a request to {step} with something that is no answer to it")]
    Strange {
        /// What was asked.
        step: Step,
    },
    /// There are more objects than are looked at.
    #[error("there are more than {0} objects below the prefix: give backups a prefix of their own")]
    TooMany(usize),
    /// The object is too large.
    #[error("{0} bytes are more than an object has parts for")]
    TooLarge(u64),
    /// What is written cannot be read here.
    #[error("cannot read what is to be stored: {0}")]
    Local(#[from] std::io::Error),
}

/// What to do, as the end of a sentence.
fn advice(status: u16, word: Option<&str>) -> &'static str {
    match (status, word) {
        (_, Some("NoSuchBucket")) => ": create the bucket, or name another one",
        (_, Some("RequestTimeTooSkewed")) => ": set the clocks of the nodes, or of the store",
        (_, Some("SignatureDoesNotMatch")) => {
            ": the secret of the key is another one, or the region is"
        }
        (_, Some("InvalidAccessKeyId")) => ": the store does not know the key",
        (_, Some("AuthorizationHeaderMalformed" | "PermanentRedirect")) | (301 | 307, _) => {
            ": the bucket is in another region or at another endpoint"
        }
        (401 | 403, _) => {
            ": the key needs the rights to put, get and delete objects below the prefix, and to list the bucket"
        }
        (_, Some("XMinioStorageFull")) | (507, _) => ": the store is full",
        (_, _) => "",
    }
}

/// The word of an answer: between the tags of its code, if it is one of those that are known.
pub(crate) fn word(body: &str) -> Option<&'static str> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    KNOWN_WORDS.into_iter().find(|known| *known == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: a failure says what was asked, what was answered and what to do, and nothing else that a store says.
    #[test]
    fn a_failure_says_what_to_do() {
        let body =
            "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Key>hunter2</Key></Error>";
        let status = StoreError::Status { step: Step::Write, status: 404, word: word(body) };
        assert_eq!(
            status.to_string(),
            "the object store answered 404 (NoSuchBucket) to a request to write: create the bucket, or name another one"
        );
        for unknown in ["", "<Code>", "<Code>hunter2</Code>", "<Code>No</Code", "</Code><Code>"] {
            assert_eq!(word(unknown), None, "{unknown}");
        }
    }
}

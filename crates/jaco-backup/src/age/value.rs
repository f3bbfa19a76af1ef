//! A small file that `age` encrypted, such as a secret beside a compose file, opened as a whole and in memory.

use data_encoding::BASE64;
use zeroize::Zeroizing;

use super::header::{Header, is_encrypted};
use super::key::Identities;
use super::stream::open_all;
use crate::damage::Damage;

/// What frames a file of `age -a`.
const ARMOR_BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const ARMOR_END: &str = "-----END AGE ENCRYPTED FILE-----";

/// The most characters of a line of such a file; a shorter one is the last.
const ARMOR_COLUMNS: usize = 64;

/// Why an encrypted file is not opened.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// It is not encrypted, or in another format.
    #[error("it is not encrypted by age")]
    Plain,
    /// There is no key to try.
    #[error("it is encrypted, and no identity was given")]
    NoIdentity,
    /// It is encrypted for others.
    #[error("none of the identities opens it")]
    OtherKey,
    /// It was altered or cut off.
    #[error("it is damaged: {0}")]
    Damaged(Damage),
}

impl From<Damage> for ValueError {
    fn from(damage: Damage) -> Self {
        if matches!(damage, Damage::OtherKey) { Self::OtherKey } else { Self::Damaged(damage) }
    }
}

/// What is in a file of `age` or of `age -a`. Nothing of it is returned unless all of it is authentic.
///
/// # Errors
/// Why it is not opened.
pub fn open_value(
    file: &[u8],
    identities: Option<&Identities>,
) -> Result<Zeroizing<Vec<u8>>, ValueError> {
    let bare;
    let file = match armored(file)? {
        Some(bytes) => {
            bare = bytes;
            &bare[..]
        }
        None => file,
    };
    if !is_encrypted(file) {
        return Err(ValueError::Plain);
    }
    let header = Header::read(file)?;
    let identities = identities.ok_or(ValueError::NoIdentity)?;
    let key = header.open(identities)?;
    let start = usize::try_from(header.length).unwrap_or(usize::MAX);
    Ok(open_all(&key, file.get(start..).unwrap_or_default())?)
}

/// The bytes of a file in the form for mail; `None` if it has another form.
fn armored(file: &[u8]) -> Result<Option<Vec<u8>>, Damage> {
    let damaged =
        || Damage::Contradiction("the lines around its encryption are malformed".to_owned());
    let trimmed = file.trim_ascii();
    if !trimmed.starts_with(ARMOR_BEGIN.as_bytes()) {
        return Ok(None);
    }
    let text = std::str::from_utf8(trimmed).map_err(|_| damaged())?;
    let mut lines = text.lines().map(str::trim_end).skip(1).peekable();
    let mut encoded = String::new();
    while let Some(line) = lines.next() {
        if line == ARMOR_END {
            // Behind it is nothing: the text was trimmed.
            let decoded = BASE64.decode(encoded.as_bytes()).map_err(|_| damaged())?;
            return if lines.next().is_none() { Ok(Some(decoded)) } else { Err(damaged()) };
        }
        let is_last = lines.peek().is_some_and(|next| *next == ARMOR_END);
        if line.len() > ARMOR_COLUMNS || (line.len() < ARMOR_COLUMNS && !is_last) {
            return Err(damaged());
        }
        encoded.push_str(line);
    }
    Err(damaged())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::tests::{IDENTITY, RECIPIENT};
    use super::super::{Label, Recipient, Recipients, Stream};
    use super::*;

    /// `correct-horse` and a line break, by `age` 1.1.1 and `age -a`.
    const BY_AGE: &[u8] = include_bytes!("../frozen/by-age-1.1.1.value.age");
    const ARMORED: &[u8] = include_bytes!("../frozen/by-age-1.1.1.armored.age");

    const OTHER_IDENTITY: &str =
        "AGE-SECRET-KEY-1U40ZWTG0U7FGQZ6QUD3MXR5N4FP7RFC98AC5ANU0ZW434CEKZD8SDF7RWA";

    fn identities(text: &str) -> Identities {
        Identities::read(text.as_bytes()).unwrap()
    }

    /// R-IN-5: what `age` encrypted is opened by its identity, in both forms, and by no other.
    #[test]
    fn values_of_age_are_opened() {
        let (own, other) = (identities(IDENTITY), identities(OTHER_IDENTITY));
        let windows = String::from_utf8_lossy(ARMORED).replace('\n', "\r\n");
        for file in [BY_AGE, ARMORED, windows.as_bytes()] {
            assert_eq!(&open_value(file, Some(&own)).unwrap()[..], b"correct-horse\n");
            assert!(matches!(open_value(file, Some(&other)), Err(ValueError::OtherKey)));
            assert!(matches!(open_value(file, None), Err(ValueError::NoIdentity)));
        }
        for plain in [&b"correct-horse"[..], b"", b"age"] {
            let opened = open_value(plain, Some(&own));
            assert!(opened.is_err(), "{opened:?}");
        }
        assert!(matches!(open_value(b"hunter2\n", Some(&own)), Err(ValueError::Plain)));
    }

    /// R-IN-5, R-IN-3: a file of which a byte is changed, or the end is missing, gives nothing.
    #[test]
    fn damaged_values_give_nothing() {
        let own = identities(IDENTITY);
        for file in [BY_AGE, ARMORED] {
            for at in 0..file.trim_ascii_end().len() {
                assert!(open_value(&file[..at], Some(&own)).is_err(), "cut at {at}");
                let mut altered = file.to_vec();
                altered[at] ^= 1;
                let opened = open_value(&altered, Some(&own));
                assert!(opened.is_err(), "altered at {at}");
            }
        }
        let twice = [BY_AGE, BY_AGE].concat();
        assert!(matches!(open_value(&twice, Some(&own)), Err(ValueError::Damaged(_))));
        let twice = [ARMORED, ARMORED].concat();
        assert!(matches!(open_value(&twice, Some(&own)), Err(ValueError::Damaged(_))));
    }

    /// R-IN-5: values of any length around that of a piece.
    #[test]
    fn values_may_have_several_pieces() {
        let own = identities(IDENTITY);
        let label = Label { cluster_id: String::new(), taken_at_ms: 0, raft_index: 0 };
        let recipients = Recipients::new([Recipient::parse(RECIPIENT).unwrap()]).unwrap();
        for length in [0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 200_000] {
            let value: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[0]).collect();
            let mut file = Vec::new();
            let mut stream = Stream::new(&mut file, &recipients, &label).unwrap();
            stream.write_all(&value).unwrap();
            stream.finish().unwrap();
            assert_eq!(&open_value(&file, Some(&own)).unwrap()[..], value, "{length}");
            // Without its last piece, all that is left is whole pieces.
            if length > 64 << 10 {
                let cut = file.len() - (value.len() % (64 << 10)) - 16;
                assert!(open_value(&file[..cut], Some(&own)).is_err(), "{length}");
            }
        }
    }
}

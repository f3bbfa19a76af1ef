//! Names of backups in a folder: `CLUSTER-YYYYMMDDTHHMMSSZ-INDEX.jacobak`, encrypted ones with `.age` behind that. Pure.

use time::OffsetDateTime;

use super::retention::Taken;

/// The end of each name.
const SUFFIX: &str = ".jacobak";

/// What is behind it if the file is encrypted.
const ENCRYPTED: &str = ".age";

/// The most characters of the name of a cluster; the name of a file has 255 bytes at most.
const CLUSTER_CHARS_MAX: usize = 64;

/// Whether a file is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Encrypted,
}

impl Form {
    fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Encrypted => ENCRYPTED,
        }
    }
}

/// The name of a backup that was taken at this time, as of this index; `None` if the time has no date.
pub(super) fn file_name(cluster_name: &str, taken: Taken, form: Form) -> Option<String> {
    let at = OffsetDateTime::from_unix_timestamp(taken.at_ms.div_euclid(1000)).ok()?;
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    let time = format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z");
    let (cluster, index, form) = (cluster(cluster_name), taken.raft_index, form.suffix());
    Some(format!("{cluster}-{time}-{index}{SUFFIX}{form}"))
}

/// When a backup of this name was taken, to the second, if it is a name of a cluster of this name.
pub(super) fn taken_of(cluster_name: &str, name: &str) -> Option<Taken> {
    let (time, index) = time_and_index(cluster_name, name)?;
    let number = |at: std::ops::Range<usize>| time.get(at)?.parse::<u8>().ok();
    let month = time::Month::try_from(number(4..6)?).ok()?;
    let date = time::Date::from_calendar_date(time.get(..4)?.parse().ok()?, month, number(6..8)?);
    let at = date.ok()?.with_hms(number(9..11)?, number(11..13)?, number(13..15)?).ok()?;
    let at_ms = at.assume_utc().unix_timestamp() * 1000;
    Some(Taken { at_ms, raft_index: index.parse().ok()? })
}

/// Whether a file of this name may be a backup of a cluster of this name. Its header says which cluster it is of.
pub(super) fn is_of(cluster_name: &str, name: &str) -> bool {
    time_and_index(cluster_name, name).is_some()
}

fn time_and_index<'n>(cluster_name: &str, name: &'n str) -> Option<(&'n str, &'n str)> {
    let name = name.strip_suffix(ENCRYPTED).unwrap_or(name);
    let rest = name.strip_prefix(&cluster(cluster_name))?.strip_prefix('-')?;
    let (time, index) = rest.strip_suffix(SUFFIX)?.split_once('-')?;
    let form: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let is_number = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
    (form == "00000000T000000Z" && is_number).then_some((time, index))
}

/// The name of a cluster as a part of the name of a file, which leads to no other folder and is not hidden.
fn cluster(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.chars().take(CLUSTER_CHARS_MAX).map(allowed).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None if name.is_empty() => "cluster".to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(cluster_name: &str, taken_at_ms: i64) -> Option<String> {
        file_name(cluster_name, Taken { at_ms: taken_at_ms, raft_index: 42 }, Form::Plain)
    }

    /// R-CLI-6: the name says which cluster, when in UTC, and as of which index, and sorts by time.
    #[test]
    fn a_name_says_cluster_time_and_index() {
        let name = name_of("sun", 1_700_000_000_999).unwrap();
        assert_eq!(name, "sun-20231114T221320Z-42.jacobak");
        assert!(is_of("sun", &name) && !is_of("moon", &name));
        assert!(is_of("sun", &format!("{name}.age")));
        assert_eq!(name_of("sun", i64::MAX), None);
        let odd = name_of("../a b/ü", 0).unwrap();
        assert_eq!(odd, "_._a_b__-19700101T000000Z-42.jacobak");
        assert!(is_of("../a b/ü", &odd));
        let taken = Taken { at_ms: 1_700_000_000_000, raft_index: 42 };
        assert_eq!(taken_of("sun", &name), Some(taken));
        assert_eq!(taken_of("sun", "sun-20231399T996199Z-42.jacobak"), None);
        assert_eq!(name_of("", 0).unwrap(), "cluster-19700101T000000Z-42.jacobak");
    }

    /// R-CLI-6: files of other names are of no concern, those of a cluster whose name begins in the same way included.
    #[test]
    fn other_names_are_not_matched() {
        for other in [
            "sun.jacobak",
            "sun-2-20231114T221320Z-42.jacobak",
            "sun-20231114T221320Z-42.jacobak.gpg",
            "sun-20231114T221320Z-42.jacobak.age.age",
            "sun-20231114T221320Z-.jacobak",
            "sun-20231114T221320Z-4x.jacobak",
            "sun-20231114-42.jacobak",
            ".sun-20231114T221320Z-42.jacobak",
            "notes.txt",
        ] {
            assert!(!is_of("sun", other), "{other}");
        }
    }
}

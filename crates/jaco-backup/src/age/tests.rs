//! Laws of encrypted files: what was written is read with the right key, and nothing else is; what others crafted takes
//! bounded time and memory.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use proptest::prelude::*;

use super::{
    Header, Identities, KeyError, Label, Payload, Recipient, Recipients, Sequential, Stream,
};
use crate::damage::Damage;
use crate::{Backup, Unlock};

/// Two pairs of keys of `age-keygen`.
pub(crate) const RECIPIENT: &str = "age14lcnwtzjevayg2uetq9gujhshhnmj8a98tq5ukkuqjxqzhh2h9jqqq7fhn";
pub(crate) const IDENTITY: &str =
    "AGE-SECRET-KEY-14S2D2H0HX707VYCMSJNKED4VTW5R0S8RHW7ALGHPUMSNE7888UUQ5YA2XR";
const RECIPIENT_2: &str = "age1d0xlh98scxprfpqrt5sgtkkj6h0q2wmjxn8e2mw58rw6c8gu3v4qnpy27e";
const IDENTITY_2: &str =
    "AGE-SECRET-KEY-1U40ZWTG0U7FGQZ6QUD3MXR5N4FP7RFC98AC5ANU0ZW434CEKZD8SDF7RWA";

/// The first backup, encrypted by `age` 1.1.1 for both.
const BY_AGE: &[u8] = include_bytes!("../frozen/by-age-1.1.1.jacobak.age");

/// The same, by the first version that encrypted.
const FROZEN: &[u8] = include_bytes!("../frozen/v1.jacobak.age");

const PIECE: usize = 64 << 10;

fn recipients(texts: &[&str]) -> Recipients {
    Recipients::new(texts.iter().map(|text| Recipient::parse(text).unwrap())).unwrap()
}

fn identities(text: &str) -> Identities {
    Identities::read(text.as_bytes()).unwrap()
}

fn label() -> Label {
    Label { cluster_id: "c1".repeat(16), taken_at_ms: 1_700_000_000_000, raft_index: 42 }
}

/// The file of this content, encrypted for the first key.
fn encrypted(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut stream = Stream::new(&mut bytes, &recipients(&[RECIPIENT]), &label()).unwrap();
    stream.write_all(content).unwrap();
    stream.finish().unwrap();
    bytes
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// The content of a file, if all of it can be read.
fn decrypted(bytes: &[u8], identity: &str) -> Result<Vec<u8>, Damage> {
    let header = Header::read(bytes)?;
    let key = header.open(&identities(identity))?;
    let payload = Payload::new(file(bytes), &header, &key)?;
    payload.check_end()?;
    let mut content = Vec::new();
    Sequential::buffered(&payload).read_to_end(&mut content).map_err(Damage::of)?;
    Ok(content)
}

/// R-CLI-6: a file of `age` is read with the key of each of its recipients, and says that it is encrypted without.
#[test]
fn a_file_of_age_is_read() {
    for identity in [IDENTITY, IDENTITY_2] {
        let keys = identities(identity);
        let backup = Backup::unlock(file(BY_AGE), Unlock::Identities(&keys)).unwrap();
        assert_eq!((backup.header.raft_index, backup.header.cluster_name.as_str()), (42, "sun"));
        assert_eq!(backup.deployment("shop").unwrap().unwrap().revision, 3);
    }
    assert!(matches!(Backup::open(file(BY_AGE)), Err(Damage::Encrypted)));
    assert_eq!(Header::read(BY_AGE).unwrap().label, None);
}

/// R-CLI-6: the first file that was encrypted here is read and says which backup it is; `age -d` has opened it.
#[test]
fn first_encrypted_file_is_frozen() {
    for identity in [IDENTITY, IDENTITY_2] {
        let keys = identities(identity);
        let backup = Backup::unlock(file(FROZEN), Unlock::Identities(&keys)).unwrap();
        assert_eq!((backup.header.raft_index, backup.deployments().count()), (42, 1));
    }
    assert_eq!(Header::read(FROZEN).unwrap().label, Some(label()));
}

/// R-CLI-6: each recipient opens the file, nobody else does, and it says without a key which backup it is.
#[test]
fn each_recipient_opens_a_file() {
    let mut bytes = Vec::new();
    let both = recipients(&[RECIPIENT, RECIPIENT_2, RECIPIENT]);
    let mut stream = Stream::new(&mut bytes, &both, &label()).unwrap();
    stream.write_all(b"desired").unwrap();
    stream.finish().unwrap();
    assert_eq!(decrypted(&bytes, IDENTITY).unwrap(), b"desired");
    assert_eq!(decrypted(&bytes, IDENTITY_2).unwrap(), b"desired");
    let one = encrypted(b"desired");
    assert!(matches!(decrypted(&one, IDENTITY_2), Err(Damage::OtherKey)));
    assert_eq!(decrypted(&one, &format!("{IDENTITY_2}\n{IDENTITY}\n")).unwrap(), b"desired");
    assert_eq!(Header::read(&one[..]).unwrap().label, Some(label()));
    assert_ne!(one, encrypted(b"desired"), "no key is used twice");
}

/// R-CLI-6: contents of all lengths around the bounds of pieces are read back, as a whole and in parts.
#[test]
fn contents_of_all_lengths_are_read_back() {
    for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 7, 3 * PIECE] {
        let content: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let bytes = encrypted(&content);
        assert_eq!(decrypted(&bytes, IDENTITY).unwrap(), content, "{length} bytes");
        let header = Header::read(&bytes[..]).unwrap();
        let key = header.open(&identities(IDENTITY)).unwrap();
        let payload = Payload::new(file(&bytes), &header, &key).unwrap();
        for (offset, size) in [(0, 1), (PIECE - 3, 7), (PIECE, 1), (5, 2 * PIECE)] {
            let mut part = vec![0; size];
            let read = payload.read_exact_at(&mut part, offset as u64);
            match content.get(offset..offset + size) {
                Some(expected) => assert_eq!((read.is_ok(), &part[..]), (true, expected)),
                None => assert!(matches!(read, Err(Damage::Truncated(_))), "{length}, {offset}"),
            }
        }
    }
}

/// R-CLI-6, R-IN-3: a file that is cut off anywhere, or in which any bit is flipped, is never read as a whole.
#[test]
fn damage_is_found_at_every_byte() {
    let whole = encrypted(b"desired");
    for end in 0..whole.len() {
        assert!(decrypted(&whole[..end], IDENTITY).is_err(), "cut off after {end}");
    }
    for at in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        assert!(decrypted(&bytes, IDENTITY).is_err(), "bit {at} was flipped");
    }
    assert!(decrypted(&[&whole[..], b"x"].concat(), IDENTITY).is_err());
}

/// R-CLI-6, R-IN-3: pieces that are missing, doubled or in another order are found.
#[test]
fn pieces_keep_their_order_and_number() {
    let whole = encrypted(&vec![7; 3 * PIECE]);
    let start = usize::try_from(Header::read(&whole[..]).unwrap().length).unwrap() + 16;
    let (head, pieces) = whole.split_at(start);
    let piece = |at: usize| &pieces[at * (PIECE + 16)..(at + 1) * (PIECE + 16)];
    let of = |order: &[usize]| {
        let pieces: Vec<u8> = order.iter().flat_map(|at| piece(*at)).copied().collect();
        decrypted(&[head, &pieces].concat(), IDENTITY)
    };
    assert!(of(&[0, 1, 2]).is_ok());
    for order in [&[0, 1][..], &[0, 2], &[1, 0, 2], &[0, 1, 1, 2], &[0, 1, 2, 2], &[2], &[]] {
        assert!(of(order).is_err(), "{order:?}");
    }
}

/// R-CLI-6: what is no key is refused by its line, and no identity is repeated.
#[test]
fn what_is_no_key_is_refused() {
    assert_eq!(Recipient::parse(RECIPIENT).unwrap().to_string(), RECIPIENT);
    assert_eq!(Recipient::parse(IDENTITY), Err(KeyError::IsIdentity));
    for other in ["", "age1", "ssh-ed25519 AAAA", "age1yubikey1qqq", &RECIPIENT[..61]] {
        assert!(matches!(Recipient::parse(other), Err(KeyError::NoRecipient(_))), "{other}");
    }
    let file = format!("# ours\n\n {RECIPIENT}\n{RECIPIENT_2}\r\n");
    assert_eq!(Recipients::read(file.as_bytes()).unwrap().len(), 2);
    let with_typo = format!("# mine\n{}\n", IDENTITY.replace('Q', "P"));
    let refused = Identities::read(with_typo.as_bytes()).unwrap_err();
    assert_eq!(refused, KeyError::NoIdentity(2));
    assert!(!refused.to_string().contains(&IDENTITY[20..40]));
    assert_eq!(Identities::read(b"# none\n").unwrap_err(), KeyError::Empty);
    assert_eq!(Identities::read(&[0xff]).unwrap_err(), KeyError::NoText);
    let many = format!("{IDENTITY}\n").repeat(65);
    assert_eq!(Identities::read(many.as_bytes()).unwrap_err(), KeyError::TooMany);
    assert!(!format!("{:?}", identities(IDENTITY)).contains("SECRET"));
    // A key that leads to the same secret for everybody.
    let nobody = Recipients::new([Recipient([0; 32])]).unwrap();
    assert!(Stream::new(Vec::new(), &nobody, &label()).is_err());
}

/// A header of these lines, whose code is none that anybody could know.
fn crafted(lines: &str) -> Vec<u8> {
    format!("age-encryption.org/v1\n{lines}--- {}\n", "A".repeat(43)).into_bytes()
}

/// R-IN-3: headers that others crafted are refused: too long, with too many recipients, or no header at all.
#[test]
fn crafted_headers_are_refused() {
    let recipient = format!("-> X25519 {0}\n{0}\n", "A".repeat(43));
    let malformed = |bytes: &[u8]| matches!(Header::read(bytes), Err(Damage::Contradiction(_)));
    assert!(Header::read(&crafted(&recipient.repeat(64))[..]).is_ok());
    assert!(malformed(&crafted(&recipient.repeat(65))));
    assert!(malformed(&crafted("-> X25519\n\n")));
    assert!(malformed(&crafted(&format!("-> X25519 {}\n\n", "A".repeat(43)))));
    assert!(malformed(&crafted(&format!("-> grease {}\n\n", "a".repeat(70_000)))));
    assert!(malformed(&crafted(&format!("-> grease\n{}\n\n", "a".repeat(65)))));
    assert!(malformed(&crafted("-> jaco-backup c1 1\n\n")));
    assert!(malformed(&crafted("-> jaco-backup c/1 1 1\n\n")));
    assert!(malformed(&crafted(&"-> jaco-backup c1 1 1\n\n".repeat(2))));
    assert!(malformed(b"age-encryption.org/v2\n"));
    assert!(matches!(
        Header::read(&b"age-encryption.org/v1\n-> X"[..]),
        Err(Damage::Truncated(26))
    ));
    // Kinds of other programs are skipped, whatever their bodies are.
    let other = format!("-> scrypt c2FsdA 18\n{}\n\n-> x\nAAAA\n", "a".repeat(64));
    assert!(Header::read(&crafted(&other)[..]).is_ok());
}

/// R-IN-3: the most recipients and the most identities, of which no pair fits.
#[test]
fn a_header_costs_bounded_time_and_memory() {
    jaco_mutate::stay_within(
        "age::tests::a_header_costs_bounded_time_and_memory",
        16 << 20,
        Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 1 }),
        || {
            let mut all = Vec::new();
            for _ in 0..64 {
                let mut bytes = Vec::new();
                Stream::new(&mut bytes, &recipients(&[RECIPIENT]), &label()).unwrap();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                all.extend(text.lines().skip(1).take(2).map(|line| format!("{line}\n")));
            }
            let identity = format!("{IDENTITY_2}\n").repeat(64);
            (crafted(&all.concat()), identities(&identity))
        },
        |(bytes, identities)| {
            let header = Header::read(&bytes[..]).unwrap();
            assert!(matches!(header.open(&identities), Err(Damage::OtherKey)));
        },
    );
}

/// R-IN-3: a line without an end is read up to the bound of a header.
#[test]
fn a_line_without_an_end_is_refused_soon() {
    jaco_mutate::stay_within(
        "age::tests::a_line_without_an_end_is_refused_soon",
        16 << 20,
        Duration::from_secs(1),
        || {
            let mut out = tempfile::tempfile().unwrap();
            out.write_all(b"age-encryption.org/v1\n-> ").unwrap();
            out.write_all(&vec![b'a'; 45_000_000]).unwrap();
            out
        },
        |file| {
            let keys = identities(IDENTITY);
            let refused = Backup::unlock(file, Unlock::Identities(&keys));
            assert!(matches!(refused, Err(Damage::Contradiction(_))), "{refused:?}");
        },
    );
}

proptest! {
    /// R-IN-3: whatever is behind the first line is read or refused, with and without a key.
    #[test]
    fn any_bytes_are_read_or_refused(rest in prop::collection::vec(any::<u8>(), 0..300)) {
        let bytes = [&b"age-encryption.org/v1\n"[..], &rest].concat();
        drop(decrypted(&bytes, IDENTITY));
        drop(Backup::open(file(&bytes)));
    }

    /// R-CLI-6: contents that are written in pieces of any lengths are read back.
    #[test]
    fn contents_are_read_back(chunks in prop::collection::vec(0_usize..50_000, 0..8)) {
        let mut bytes = Vec::new();
        let mut stream = Stream::new(&mut bytes, &recipients(&[RECIPIENT]), &label()).unwrap();
        let mut content = Vec::new();
        for (number, length) in chunks.into_iter().enumerate() {
            let chunk = vec![u8::try_from(number).unwrap(); length];
            stream.write_all(&chunk).unwrap();
            content.extend_from_slice(&chunk);
        }
        stream.finish().unwrap();
        prop_assert_eq!(decrypted(&bytes, IDENTITY).unwrap(), content);
    }
}

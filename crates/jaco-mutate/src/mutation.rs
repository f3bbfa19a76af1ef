//! What is done to bytes.

use crate::Dice;

/// Bytes that a mutation does not grow beyond.
pub const MUTATED_BYTES_MAX: usize = 64 << 10;

/// Numbers at the edges of what lengths, counts and tags are, in the forms in which they are written.
const NUMBERS: [&[u8]; 12] = [
    &[0],
    &[0x7f],
    &[0xff],
    &[0, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff; 8],
    &[0x80; 8],
    // Varints of protobuf: 2^31 - 1, 2^32 - 1 and 2^64 - 1.
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
];

/// The marks of texts: of JSON, YAML and TOML, and what is no text.
const MARKS: [&[u8]; 24] = [
    b"\0",
    b"\t",
    b"\r\n",
    b"\n",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"'",
    b"\"",
    b"\\u0000",
    b"{",
    b"}",
    b"[",
    b"]",
    b": ",
    b"- ",
    b",",
    b"=",
    b".",
    b"-1",
    b"1e308",
    b"18446744073709551616",
    b"null",
    b"/../",
];

/// Changes bytes in one to six places; `others` are pieces to take from.
pub fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    for _ in 0..=dice.roll(6) {
        mutate_once(bytes, others, dice);
    }
    bytes.truncate(MUTATED_BYTES_MAX);
}

fn mutate_once(bytes: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.roll(bytes.len() + 1);
    let end = (at + dice.roll(40)).min(bytes.len());
    match dice.roll(9) {
        0 => drop(bytes.drain(at..end)),
        1 => {
            let piece = bytes[at..end].to_vec();
            let to = dice.roll(bytes.len() + 1);
            drop(bytes.splice(to..to, piece));
        }
        2 if at < bytes.len() => bytes[at] = dice.byte(),
        3 if at < bytes.len() => bytes[at] ^= 1 << dice.roll(8),
        4 => {
            let number = dice.of(&NUMBERS);
            let over = (at + number.len()).min(bytes.len());
            drop(bytes.splice(at..over, number.iter().copied()));
        }
        5 => bytes.truncate(at),
        6 if !others.is_empty() => {
            let other = &others[dice.roll(others.len())];
            let from = dice.roll(other.len() + 1);
            let to = (from + dice.roll(200)).min(other.len());
            drop(bytes.splice(at..end, other[from..to].iter().copied()));
        }
        // Nesting and repetition, which is what recursion and counts break on; rarely, as it is long.
        7 if dice.roll(8) == 0 => {
            let times = 1 << dice.roll(14);
            let piece = match end > at && dice.roll(2) == 0 {
                true => bytes[at..end].to_vec(),
                false => dice.of(&MARKS).to_vec(),
            };
            let room = MUTATED_BYTES_MAX.saturating_sub(bytes.len()) / piece.len();
            drop(bytes.splice(at..at, piece.repeat(times.min(room))));
        }
        _ => drop(bytes.splice(at..at, dice.of(&MARKS).iter().copied())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each mutation is made, and what comes of it is bounded and the same again.
    #[test]
    fn mutations_are_bounded_and_follow_from_the_seed() {
        let seed = b"a seed of some length".to_vec();
        let mutated = |number| {
            let mut bytes = seed.clone();
            mutate(&mut bytes, &[b"another one".to_vec()], &mut Dice::new(number));
            bytes
        };
        let all: std::collections::BTreeSet<_> = (0..2000).map(mutated).collect();
        assert!(all.len() > 1500, "{}", all.len());
        assert!(all.iter().all(|bytes| bytes.len() <= MUTATED_BYTES_MAX));
        assert!(all.iter().any(|bytes| bytes.len() > 10_000), "nothing is repeated often");
        assert_eq!(mutated(7), mutated(7));
    }
}

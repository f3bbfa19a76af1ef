//! Bech32, in which keys are written: a prefix, the bytes in groups of five bits, and a checksum of six characters (BIP 173).
//! Pure.

use zeroize::Zeroizing;

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// What is folded into the checksum for each bit that leaves it.
const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];

/// Characters of the checksum.
const CHECKSUM: usize = 6;

/// The 32 bytes behind a prefix; `None` if the text is anything else. Upper or lower case, not both.
pub(super) fn decode(prefix: &str, text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let is_mixed = text.bytes().any(|b| b.is_ascii_lowercase())
        && text.bytes().any(|b| b.is_ascii_uppercase());
    // The longest is the one of an identity: 16 characters, the separator, 52 and the checksum.
    if is_mixed || text.len() > 90 {
        return None;
    }
    let text = Zeroizing::new(text.to_ascii_lowercase());
    let data = text.strip_prefix(prefix)?.strip_prefix('1')?;
    let value =
        |b: u8| ALPHABET.iter().position(|known| *known == b).and_then(|at| u8::try_from(at).ok());
    let values: Option<Vec<u8>> = data.bytes().map(value).collect();
    let values = Zeroizing::new(values?);
    if values.len() < CHECKSUM || checksum(prefix, &values) != 1 {
        return None;
    }
    bytes(&values[..values.len() - CHECKSUM])
}

/// The bytes as text, in lower case.
pub(super) fn encode(prefix: &str, bytes: &[u8; 32]) -> String {
    let mut values = groups(bytes);
    let mut with_room = values.clone();
    with_room.extend([0; CHECKSUM]);
    let sum = checksum(prefix, &with_room) ^ 1;
    values.extend((0..CHECKSUM).map(|at| five(sum >> (5 * (CHECKSUM - 1 - at)))));
    let data = values.iter().map(|value| char::from(ALPHABET[usize::from(*value)]));
    format!("{prefix}1{}", data.collect::<String>())
}

fn five(bits: u32) -> u8 {
    u8::try_from(bits & 31).unwrap_or_default()
}

/// Bytes in groups of five bits; the last one is filled up with zeros.
fn groups(bytes: &[u8; 32]) -> Vec<u8> {
    let (mut held, mut bits, mut values) = (0_u32, 0, Vec::new());
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            values.push(five(held >> bits));
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        values.push(five(held << (5 - bits)));
    }
    values
}

/// The 32 bytes of groups of five bits, if they are as many and the rest of the last group is zero.
fn bytes(values: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let (mut held, mut bits, mut at) = (0_u32, 0, 0);
    let mut bytes = Zeroizing::new([0; 32]);
    for value in values {
        held = (held << 5) | u32::from(*value);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            *bytes.get_mut(at)? = u8::try_from((held >> bits) & 255).ok()?;
            at += 1;
        }
        held &= (1 << bits) - 1;
    }
    (at == 32 && bits < 5 && held == 0).then_some(bytes)
}

fn checksum(prefix: &str, values: &[u8]) -> u32 {
    let high = prefix.bytes().map(|b| b >> 5);
    let low = prefix.bytes().map(|b| b & 31);
    let all = high.chain([0]).chain(low).chain(values.iter().copied());
    all.fold(1, |sum: u32, value| {
        let top = sum >> 25;
        let next = ((sum & 0x01ff_ffff) << 5) ^ u32::from(value);
        let folded = GENERATOR.iter().enumerate().filter(|(bit, _)| (top >> bit) & 1 == 1);
        folded.fold(next, |next, (_, generator)| next ^ generator)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A key of the tool `age-keygen`, as its pair of texts.
    const PUBLIC: &str = "age1lvyvwawkr0mcnnnncaghunadrqkmuf9e6507x9y920xxpp866cnql7dp2z";

    /// R-CLI-6: what others wrote is read and written alike.
    #[test]
    fn a_known_key_is_read_and_written() {
        let bytes = decode("age", PUBLIC).unwrap();
        assert_eq!(encode("age", &bytes), PUBLIC);
        assert_eq!(decode("age", &PUBLIC.to_ascii_uppercase()).unwrap(), bytes);
    }

    proptest! {
        /// R-CLI-6: every key is read back; one wrong character, another prefix or a mix of cases is refused.
        #[test]
        fn keys_are_read_back_and_typing_errors_are_found(
            bytes in any::<[u8; 32]>(), at in 0_usize..62, other in 0_usize..32,
        ) {
            let text = encode("age", &bytes);
            prop_assert_eq!(*decode("age", &text).unwrap(), bytes);
            prop_assert!(decode("agf", &text).is_none());
            let mut wrong = text.clone().into_bytes();
            wrong[at] = ALPHABET[other];
            let wrong = String::from_utf8(wrong).unwrap();
            prop_assert_eq!(decode("age", &wrong).is_some(), wrong == text);
            let mixed = format!("{}{}", &text[..4], text[4..].to_ascii_uppercase());
            prop_assert!(decode("age", &mixed).is_none());
        }

        /// R-IN-3: any text is read or refused.
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,120}") {
            decode("age", &text);
        }
    }
}

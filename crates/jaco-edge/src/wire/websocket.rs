//! Where the frames of a WebSocket end (RFC 6455, 5.2): a frame of our own fits between two others, nowhere else.

/// A close frame of a server: 1001, going away.
pub const GOING_AWAY: [u8; 4] = [0x88, 2, 0x03, 0xe9];

const CLOSE: u8 = 8;

/// Follows the frames of one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frames {
    /// The bytes of a header that is not complete.
    header: Vec<u8>,
    /// Bytes of the payload that are still to come.
    payload: u64,
    is_closed: bool,
}

impl Frames {
    /// Notes bytes that passed.
    pub fn pass(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            if self.payload > 0 {
                let length = usize::try_from(self.payload).unwrap_or(usize::MAX).min(rest.len());
                self.payload -= length as u64;
                rest = &rest[length..];
                continue;
            }
            self.header.push(*first);
            rest = after;
            if let Some(payload) = payload_of(&self.header) {
                self.is_closed |= self.header[0] & 0xf == CLOSE;
                self.payload = payload;
                self.header.clear();
            }
        }
    }

    /// Whether a frame may be added here: the last one is complete, and none has closed the direction.
    pub fn has_room(&self) -> bool {
        self.header.is_empty() && self.payload == 0 && !self.is_closed
    }
}

/// What follows a header, the mask included, if the header is complete up to that.
fn payload_of(header: &[u8]) -> Option<u64> {
    let [_, second, rest @ ..] = header else { return None };
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    let length = match second & 0x7f {
        126 => u64::from(u16::from_be_bytes(*rest.first_chunk()?)),
        127 => u64::from_be_bytes(*rest.first_chunk()?),
        short => u64::from(short),
    };
    Some(length.saturating_add(mask))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(length: usize, masked: bool) -> Vec<u8> {
        let mut frame = vec![0x82];
        let mask = if masked { 0x80 } else { 0 };
        match length {
            0..126 => frame.push(mask | u8::try_from(length).unwrap()),
            126..65_536 => {
                frame.push(mask | 126);
                frame.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            _ => {
                frame.push(mask | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.resize(frame.len() + length + if masked { 4 } else { 0 }, b'x');
        frame
    }

    proptest! {
        /// Law: there is room at the ends of frames and nowhere else, however they are cut.
        #[test]
        fn there_is_room_between_frames_only(
            lengths in prop::collection::vec((prop_oneof![0_usize..3, 124_usize..130, 65_530_usize..65_540], any::<bool>()), 1..4),
            step in 1_usize..40,
        ) {
            let (mut frames, mut ends, mut bytes) = (Frames::default(), vec![0], Vec::new());
            for (length, masked) in lengths {
                bytes.extend(frame(length, masked));
                ends.push(bytes.len());
            }
            let mut passed = 0;
            for part in bytes.chunks(step) {
                frames.pass(part);
                passed += part.len();
                prop_assert_eq!(frames.has_room(), ends.contains(&passed));
            }
        }
    }

    #[test]
    fn nothing_follows_a_close() {
        let mut frames = Frames::default();
        frames.pass(&GOING_AWAY);
        assert!(!frames.has_room());
    }
}

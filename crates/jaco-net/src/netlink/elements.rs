//! Elements of sets of the packet filter, changed over netlink.
//!
//! The program `nft` reads all that is loaded before it changes one element, and waits as it ends for the memory of those
//! that it removed. With hundreds of elements that is many times what the change itself takes.

use std::io;

use netlink_packet_core::{NLM_F_CREATE, NetlinkPayload, NetlinkSerializable};

use super::socket::Socket;

/// The subsystem of the packet filter, in the upper byte of a message's type.
const SUBSYSTEM: u16 = 10;

/// Kinds of messages, by the numbers of the kernel's interface.
const BEGIN: u16 = 16;
const END: u16 = 17;
const GET_GENERATION: u16 = SUBSYSTEM << 8 | 16;
const NEW_ELEMENTS: u16 = SUBSYSTEM << 8 | 12;
const DELETE_ELEMENTS: u16 = SUBSYSTEM << 8 | 14;

/// Kinds of attributes: of a message about elements, of an element, and of a key.
const TABLE: u16 = 1;
const SET: u16 = 2;
const ELEMENTS: u16 = 3;
const ELEMENT: u16 = 1;
const FIRST: u16 = 1;
const LAST: u16 = 10;
const VALUE: u16 = 1;

/// The number in a message about the generation, and what is before the attributes of any message.
const GENERATION: u16 = 1;
const FAMILY_BYTES: usize = 4;

/// Marks an attribute that holds attributes.
const NESTED: u16 = 1 << 15;

/// So many elements are in one transaction: a message and a transaction must fit into 64 and 200 KiB.
const TOGETHER: usize = 500;

/// A set of the packet filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterSet {
    /// The number of the family that its table is in.
    pub(crate) family: u8,
    pub(crate) table: &'static str,
    pub(crate) name: &'static str,
}

/// An element: a key, or the keys from the first to the last, field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) first: Vec<u8>,
    /// In a set of intervals.
    pub(crate) last: Option<Vec<u8>>,
}

/// What becomes of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementChange {
    /// They are there afterwards, wherever they were before.
    Add,
    /// They are gone; one that was not there refuses the change.
    Remove,
}

impl Socket {
    /// How many transactions have changed the packet filter of this socket's namespace, of whichever process.
    pub(crate) fn filter_generation(&mut self) -> io::Result<u32> {
        let message =
            Message { kind: GET_GENERATION, family: 0, subsystem: 0, attributes: Vec::new() };
        let answer = self.ask(message)?;
        generation(&answer).ok_or_else(|| io::Error::other("the generation has no number"))
    }

    /// Changes the same elements of several sets, and returns in how many transactions. Up to 500 are changed at once as far
    /// as packets see it.
    pub(crate) fn change_elements(
        &mut self,
        change: ElementChange,
        sets: &[FilterSet],
        elements: &[Element],
    ) -> io::Result<u32> {
        let mut transactions = 0;
        for elements in elements.chunks(TOGETHER) {
            let (kind, flags) = match change {
                ElementChange::Add => (NEW_ELEMENTS, NLM_F_CREATE),
                ElementChange::Remove => (DELETE_ELEMENTS, 0),
            };
            let changes = sets.iter().map(|set| (Message::elements(kind, *set, elements), flags));
            let begin = (Message::bound(BEGIN), 0);
            let all: Vec<_> = [begin].into_iter().chain(changes).collect();
            self.transaction(all, (Message::bound(END), 0))?;
            transactions += 1;
        }
        Ok(transactions)
    }
}

/// The number in an answer about the generation.
fn generation(answer: &[u8]) -> Option<u32> {
    let mut rest = answer.get(FAMILY_BYTES..)?;
    loop {
        let (length, after) =
            rest.split_first_chunk().map(|(at, after)| (u16::from_ne_bytes(*at), after))?;
        let (kind, content) = after.split_first_chunk()?;
        if u16::from_ne_bytes(*kind) == GENERATION {
            return Some(u32::from_be_bytes(*content.first_chunk()?));
        }
        let length = usize::from(length).max(FAMILY_BYTES).next_multiple_of(4);
        rest = rest.get(length..)?;
    }
}

/// A message to the packet filter.
#[derive(Debug)]
struct Message {
    kind: u16,
    family: u8,
    /// What the beginning and the end of a transaction are about, else 0.
    subsystem: u16,
    attributes: Vec<u8>,
}

impl Message {
    /// The beginning or the end of a transaction.
    fn bound(kind: u16) -> Self {
        Self { kind, family: 0, subsystem: SUBSYSTEM, attributes: Vec::new() }
    }

    fn elements(kind: u16, set: FilterSet, elements: &[Element]) -> Self {
        let key = |kind: u16, key: &[u8]| attribute(kind | NESTED, &attribute(VALUE, key));
        let elements = elements.iter().flat_map(|element| {
            let mut ends = key(FIRST, &element.first);
            ends.extend(element.last.iter().flat_map(|last| key(LAST, last)));
            attribute(ELEMENT | NESTED, &ends)
        });
        let elements: Vec<u8> = elements.collect();
        let attributes = [
            attribute(TABLE, &terminated(set.table)),
            attribute(SET, &terminated(set.name)),
            attribute(ELEMENTS | NESTED, &elements),
        ];
        Self { kind, family: set.family, subsystem: 0, attributes: attributes.concat() }
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        4 + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let [high, low] = self.subsystem.to_be_bytes();
        buffer[..4].copy_from_slice(&[self.family, 0, high, low]);
        buffer[4..4 + self.attributes.len()].copy_from_slice(&self.attributes);
    }
}

impl From<Message> for NetlinkPayload<Message> {
    fn from(message: Message) -> Self {
        Self::InnerMessage(message)
    }
}

fn terminated(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// Its length, its kind and its content, up to a multiple of four bytes.
fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + content.len()).expect("elements come in small parts");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_encoded_as_the_kernel_reads_them() {
        let set = FilterSet { family: 3, table: "t", name: "set" };
        let element = Element { first: vec![1, 2, 3, 0], last: Some(vec![1, 2, 3, 255]) };
        let message = Message::elements(NEW_ELEMENTS, set, &[element]);
        let mut bytes = vec![0xaa; message.buffer_len()];
        message.serialize(&mut bytes);
        let text: Vec<String> = bytes.chunks(4).map(hex).collect();
        let length = |bytes: u16| hex(&bytes.to_ne_bytes());
        let kind = |kind: u16| hex(&kind.to_ne_bytes());
        let head = |bytes: u16, of: u16| format!("{}{}", length(bytes), kind(of));
        let expected = [
            "03000000".to_owned(),
            head(6, TABLE),
            hex(b"t\0\0\0"),
            head(8, SET),
            hex(b"set\0"),
            head(32, ELEMENTS | NESTED),
            head(28, ELEMENT | NESTED),
            head(12, FIRST | NESTED),
            head(8, VALUE),
            "01020300".to_owned(),
            head(12, LAST | NESTED),
            head(8, VALUE),
            "010203ff".to_owned(),
        ];
        assert_eq!(text, expected);
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_generation_is_found_among_other_attributes() {
        let other = attribute(2, &[1, 2, 3, 4, 5]);
        let number = attribute(GENERATION, &[0, 0, 1, 2]);
        let answer = [&[0, 0, 0, 7], other.as_slice(), &number].concat();
        assert_eq!(generation(&answer), Some(258));
        assert_eq!(generation(&answer[..answer.len() - 1]), None);
        assert_eq!(generation(&[&[0, 0, 0, 7, 0, 0, 2, 0], other.as_slice()].concat()), None);
        assert_eq!(generation(&[]), None);
    }

    #[test]
    fn so_many_elements_fit_into_a_message() {
        let set = FilterSet { family: 1, table: "jaco", name: "scopes" };
        let element = Element { first: vec![0; 24], last: Some(vec![0; 24]) };
        let message = Message::elements(NEW_ELEMENTS, set, &vec![element; TOGETHER]);
        assert!(message.buffer_len() < usize::from(u16::MAX));
    }
}

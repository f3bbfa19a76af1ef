//! Deployments and replicas of a status, encoded in parts: a large answer is made and sent a part at a time, so that neither
//! its maker nor what sends it ever needs memory for a copy of the whole.

use bytes::Bytes;
use jaco_proto::v1;
use prost::Message;

/// About as large is a part. A single entry may be larger.
const PART_BYTES: usize = 256 << 10;

/// Collects them, entry by entry.
#[derive(Debug, Default)]
pub(super) struct Parts {
    part: v1::StatusResponse,
    bytes: usize,
    done: Vec<Bytes>,
}

impl Parts {
    pub(super) fn deployment(&mut self, deployment: v1::DeploymentInfo) {
        self.make_room(&deployment);
        self.part.deployments.push(deployment);
    }

    pub(super) fn replica(&mut self, replica: v1::ReplicaInfo) {
        self.make_room(&replica);
        self.part.replicas.push(replica);
    }

    /// The parts, at least one.
    pub(super) fn end(mut self) -> Vec<Bytes> {
        self.done.push(self.part.encode_to_vec().into());
        self.done
    }

    fn make_room(&mut self, entry: &impl Message) {
        let bytes = entry.encoded_len();
        // With its field's number and its length.
        let bytes = 1 + prost::length_delimiter_len(bytes) + bytes;
        if self.bytes > 0 && self.bytes + bytes > PART_BYTES {
            let part = v1::StatusResponse { more: true, ..std::mem::take(&mut self.part) };
            self.done.push(part.encode_to_vec().into());
            self.bytes = 0;
        }
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(number: usize) -> v1::ReplicaInfo {
        v1::ReplicaInfo { id: format!("shop/web/{number}"), ..Default::default() }
    }

    /// R-FAULT-3: parts of an answer of any size are small, joined they are the whole, and only the last says that it is.
    #[test]
    fn joined_parts_are_the_whole() {
        for count in [0, 1, 10, 50_000] {
            let mut parts = Parts::default();
            parts.deployment(v1::DeploymentInfo { name: "shop".to_owned(), ..Default::default() });
            (0..count).for_each(|number| parts.replica(replica(number)));
            let parts = parts.end();
            assert!(parts.iter().all(|part| part.len() <= PART_BYTES + 2));
            assert_eq!(parts.len() > 1, count == 50_000);
            let mut joined = v1::StatusResponse::default();
            let mut follows = Vec::new();
            for part in &parts {
                joined.merge(part.clone()).unwrap();
                follows.push(v1::StatusResponse::decode(part.clone()).unwrap().more);
            }
            let last = follows.pop();
            assert_eq!(last, Some(false));
            assert!(follows.into_iter().all(|more| more));
            assert_eq!(joined.deployments.len(), 1);
            assert_eq!(joined.replicas, (0..count).map(replica).collect::<Vec<_>>());
        }
    }

    /// An entry that is larger than a part has one of its own.
    #[test]
    fn a_large_entry_does_not_split() {
        let large = v1::ReplicaInfo { id: "x".repeat(2 * PART_BYTES), ..Default::default() };
        let mut parts = Parts::default();
        parts.replica(replica(1));
        parts.replica(large);
        parts.replica(replica(2));
        let counts = parts
            .end()
            .into_iter()
            .map(|part| v1::StatusResponse::decode(part).unwrap().replicas.len());
        assert_eq!(counts.collect::<Vec<_>>(), [1, 1, 1]);
    }
}

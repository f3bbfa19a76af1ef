//! What was promised to clients, and whether the cluster kept it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use jaco_raft::testing::Journal;
use jaco_raft::{Raft, StateMachine as _};

#[derive(Default)]
struct Promises {
    /// Every acknowledged write: its serial number, where it was applied, what it said.
    acknowledged: BTreeMap<u64, (u64, Bytes)>,
    highest_index: u64,
    next_serial: u64,
    unknown: u64,
    reads: u64,
    violation: Option<String>,
}

/// Clones are the same oracle.
#[derive(Clone, Default)]
pub(crate) struct Oracle {
    promises: Arc<Mutex<Promises>>,
}

impl Oracle {
    /// A payload nobody has written before.
    pub(crate) fn payload(&self, filler: usize) -> (u64, Bytes) {
        let mut promises = self.lock();
        promises.next_serial += 1;
        let serial = promises.next_serial;
        let mut payload = serial.to_be_bytes().to_vec();
        payload.resize(8 + filler, b'.');
        (serial, payload.into())
    }

    pub(crate) fn acknowledge(&self, serial: u64, index: u64, payload: Bytes) {
        let mut promises = self.lock();
        promises.highest_index = promises.highest_index.max(index);
        promises.acknowledged.insert(serial, (index, payload));
    }

    pub(crate) fn is_acknowledged(&self, serial: u64) -> bool {
        self.lock().acknowledged.contains_key(&serial)
    }

    pub(crate) fn unknown(&self) {
        self.lock().unknown += 1;
    }

    /// The least index a linearizable read that starts now must see.
    pub(crate) fn must_see(&self) -> u64 {
        self.lock().highest_index
    }

    pub(crate) fn read(&self, node: u64, must_see: u64, applied: u64) {
        self.lock().reads += 1;
        if applied < must_see {
            self.violation(format!(
                "node {node} read at {applied} what was acknowledged at {must_see}"
            ));
        }
    }

    /// Remembers the first violation.
    pub(crate) fn violation(&self, what: String) {
        self.lock().violation.get_or_insert(what);
    }

    pub(crate) fn check_now(&self) -> Result<(), String> {
        match &self.lock().violation {
            Some(what) => Err(what.clone()),
            None => Ok(()),
        }
    }

    /// After everything has healed: every promise on every node, and equal nodes.
    pub(crate) fn check_end(&self, nodes: &BTreeMap<u64, Raft<Journal>>) -> Result<(), String> {
        self.check_now()?;
        let promises = self.lock();
        let mut first: Option<(u64, Vec<u8>)> = None;
        for (id, node) in nodes {
            let (journal, snapshot) = node.with_state(|journal| {
                let mut bytes = Vec::new();
                journal.snapshot().write(&mut bytes).expect("a Vec takes everything");
                let records: BTreeMap<u64, Bytes> = journal.records().cloned().collect();
                (records, bytes)
            });
            for (serial, (index, payload)) in &promises.acknowledged {
                match journal.get(index) {
                    Some(found) if found == payload => {}
                    Some(_) => {
                        return Err(format!("write {serial} at {index} is another on node {id}"));
                    }
                    None => return Err(format!("write {serial} at {index} is lost on node {id}")),
                }
            }
            match &first {
                None => first = Some((*id, snapshot)),
                Some((other, expected)) if *expected != snapshot => {
                    return Err(format!("nodes {other} and {id} have different states"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    pub(crate) fn summary(&self) -> String {
        let promises = self.lock();
        format!(
            "{} acknowledged, {} unknown, {} reads",
            promises.acknowledged.len(),
            promises.unknown,
            promises.reads
        )
    }

    fn lock(&self) -> MutexGuard<'_, Promises> {
        self.promises.lock().unwrap()
    }
}

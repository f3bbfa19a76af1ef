//! The simplest state machine that shows every mistake: it stores each command with its index.

use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;

use crate::machine::StateMachine;
use crate::snapshot::SnapshotSource;

/// One applied command.
pub type Record = (u64, Bytes);

/// Keeps every command with its index, in chunks that a snapshot shares instead of copying.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    full: Vec<Arc<Vec<Record>>>,
    open: Vec<Record>,
    applied: u64,
}

/// Records per shared chunk.
const CHUNK: usize = 1024;

impl Journal {
    /// All commands, in order.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.full.iter().flat_map(|chunk| chunk.iter()).chain(&self.open)
    }

    /// Highest index applied, with or without a command.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Number of commands.
    pub fn len(&self) -> usize {
        self.full.len() * CHUNK + self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, record: Record) {
        self.open.push(record);
        if self.open.len() == CHUNK {
            self.full.push(Arc::new(std::mem::take(&mut self.open)));
        }
    }
}

impl StateMachine for Journal {
    /// Returns the number of commands so far.
    fn apply(&mut self, index: u64, payload: &[u8]) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
        if index <= self.applied && self.applied > 0 {
            return Err(format!("entry {index} applied after {}", self.applied).into());
        }
        self.applied = index;
        self.push((index, Bytes::copy_from_slice(payload)));
        Ok(Bytes::copy_from_slice(&(self.len() as u64).to_be_bytes()))
    }

    fn advance(&mut self, index: u64) {
        self.applied = index;
    }

    fn snapshot(&self) -> Box<dyn SnapshotSource> {
        Box::new(self.clone())
    }

    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
        let mut restored = Self { applied: read_u64(state)?, ..Self::default() };
        for _ in 0..read_u64(state)? {
            let index = read_u64(state)?;
            let len = read_u64(state)?;
            let mut payload = Vec::new();
            state.take(len).read_to_end(&mut payload)?;
            restored.push((index, payload.into()));
        }
        *self = restored;
        Ok(())
    }
}

impl SnapshotSource for Journal {
    fn write(self: Box<Self>, writer: &mut dyn Write) -> io::Result<()> {
        writer.write_all(&self.applied.to_be_bytes())?;
        writer.write_all(&(self.len() as u64).to_be_bytes())?;
        for (index, payload) in self.records() {
            writer.write_all(&index.to_be_bytes())?;
            writer.write_all(&(payload.len() as u64).to_be_bytes())?;
            writer.write_all(payload)?;
        }
        Ok(())
    }
}

fn read_u64(reader: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    reader.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

//! A directory on a simulated disk: bytes and names are lost in a crash unless they were synced.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::random::Random;
use crate::disk::{Disk, ReadSeek, SyncWrite};

#[derive(Debug, Default)]
struct File {
    durable: Vec<u8>,
    visible: Vec<u8>,
}

#[derive(Debug)]
struct State {
    files: BTreeMap<u64, File>,
    next_file: u64,
    durable_names: BTreeMap<String, u64>,
    visible_names: BTreeMap<String, u64>,
    random: Random,
}

/// The snapshot directory of one simulated node. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    pub fn new(seed: u64) -> Self {
        let state = State {
            files: BTreeMap::new(),
            next_file: 0,
            durable_names: BTreeMap::new(),
            visible_names: BTreeMap::new(),
            random: Random::new(seed),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Loses unsynced names, and unsynced bytes except a random prefix.
    pub fn crash(&self) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.visible_names = state.durable_names.clone();
        for file in state.files.values_mut() {
            if file.visible.starts_with(&file.durable) {
                let unsynced = (file.visible.len() - file.durable.len()) as u64;
                let survive = usize::try_from(state.random.below(unsynced + 1)).unwrap_or(0);
                file.visible.truncate(file.durable.len() + survive);
                file.durable = file.visible.clone();
            } else {
                file.visible = file.durable.clone();
            }
        }
        state.forget_unnamed();
    }

    /// Visible names and their contents.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        let names = state.visible_names.iter();
        names.map(|(name, id)| (name.clone(), state.files[id].visible.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, name: &str) -> io::Result<u64> {
        let state = self.lock();
        state.visible_names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn writer(&self, id: u64) -> Box<dyn SyncWrite> {
        Box::new(Writer { disk: self.clone(), id })
    }
}

impl State {
    fn forget_unnamed(&mut self) {
        let named: Vec<u64> =
            self.durable_names.values().chain(self.visible_names.values()).copied().collect();
        self.files.retain(|id, _| named.contains(id));
    }
}

impl Disk for SimDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn SyncWrite>> {
        let mut state = self.lock();
        let id = state.next_file;
        state.next_file += 1;
        state.files.insert(id, File::default());
        state.visible_names.insert(name.to_owned(), id);
        drop(state);
        Ok(self.writer(id))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn SyncWrite>> {
        match self.id(name) {
            Ok(id) => Ok(self.writer(id)),
            Err(_) => self.create(name),
        }
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadSeek>> {
        let id = self.id(name)?;
        Ok(Box::new(Cursor::new(self.lock().files[&id].visible.clone())))
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        let id = self.id(name)?;
        Ok(self.lock().files[&id].visible.len() as u64)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().visible_names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let id = self.id(from)?;
        let mut state = self.lock();
        state.visible_names.remove(from);
        state.visible_names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.id(name)?;
        self.lock().visible_names.remove(name);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.durable_names = state.visible_names.clone();
        state.forget_unnamed();
        Ok(())
    }
}

struct Writer {
    disk: SimDisk,
    id: u64,
}

impl Write for Writer {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        let file = state.files.get_mut(&self.id).ok_or(io::ErrorKind::NotFound)?;
        file.visible.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SyncWrite for Writer {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let file = state.files.get_mut(&self.id).ok_or(io::ErrorKind::NotFound)?;
        file.durable = file.visible.clone();
        Ok(())
    }
}

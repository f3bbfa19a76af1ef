//! A heap of its own for threads that compute and end.
//!
//! A computation frees nearly all that it allocates. In a heap that it shares with threads that stay, what those allocate
//! meanwhile lies between its blocks, and each such block keeps a page for good. So what a computation allocates comes from
//! one range of addresses, and the pages of that range are given back when it has ended.
//!
//! Other threads free blocks of this heap, as they drop results, but never wait for its lock: whoever holds it may have a
//! low priority. A block that is freed while it is held is put on a list, which whoever has the lock next frees.

#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use dlmalloc::Dlmalloc;

/// Addresses that are set aside for the heap. A computation that needs more gets the rest from the heap of everybody.
const RANGE_BYTES: usize = 4 << 30;

/// From which length on a block is left to the heap of everybody, which has pages of its own for it.
const LARGE_BYTES: usize = 128 << 10;

/// The least length of a block: that of an entry of the list of freed blocks.
const ENTRY_BYTES: usize = size_of::<Freed>();

/// An address that no program has on any 64-bit system: user space ends below.
const NOWHERE: usize = 1 << (usize::BITS - 1);

/// Where the range begins, or [`NOWHERE`].
static START: AtomicUsize = AtomicUsize::new(NOWHERE);

/// How much of the range the heap has taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Bytes of blocks that are allocated and not freed.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

static HEAP: Mutex<Dlmalloc<Pages>> = Mutex::new(Dlmalloc::new_with_allocator(Pages));

/// The newest entry of the list of blocks that were freed while the heap was locked.
static FREED: AtomicPtr<Freed> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    static COMPUTES: Cell<bool> = const { Cell::new(false) };
}

/// The allocator of a program that has such a heap: that of the system but for threads that compute.
#[derive(Debug, Clone, Copy)]
pub struct Allocator;

/// Runs this with the heap of its own, where the program has [`Allocator`]. What it returns may live as long as it likes,
/// but is best short-lived: it keeps what is free below it.
pub fn computing<T>(work: impl FnOnce() -> T) -> T {
    struct Computes;
    impl Drop for Computes {
        fn drop(&mut self) {
            COMPUTES.set(false);
            trim();
        }
    }
    reserve();
    COMPUTES.set(true);
    let _computes = Computes;
    work()
}

/// Gives the pages at the end of the heap back to the system.
pub(crate) fn trim() {
    if allocator_was_used() {
        trim_locked(&mut lock());
    }
}

/// Bytes that are allocated in this heap and not freed.
pub(crate) fn allocated_bytes() -> u64 {
    ALLOCATED.load(Ordering::Relaxed).try_into().unwrap_or(u64::MAX)
}

fn allocator_was_used() -> bool {
    TAKEN.load(Ordering::Relaxed) > 0
}

fn lock() -> MutexGuard<'static, Dlmalloc<Pages>> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this block is one of this heap.
fn has(block: *mut u8) -> bool {
    // Relaxed, since whoever knows a block of the heap got it from the thread that wrote the start, or a later one.
    block.addr().wrapping_sub(START.load(Ordering::Relaxed)) < RANGE_BYTES
}

/// Whether a block of this length is one for this heap.
fn is_for(layout: Layout) -> bool {
    COMPUTES.get() && layout.size() < LARGE_BYTES
}

// SAFETY: each block is given to the allocator that it came from, which its address tells; both keep the rules.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_for(layout) {
            let block = allocate(layout);
            if !block.is_null() {
                return block;
            }
        }
        // SAFETY: the caller keeps the rules.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_for(layout) {
            let block = allocate(layout);
            if !block.is_null() {
                // SAFETY: the block is that long.
                unsafe { block.write_bytes(0, layout.size()) };
                return block;
            }
        }
        // SAFETY: the caller keeps the rules.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if has(block) {
            // SAFETY: it is a block of this heap, and the caller keeps the rules.
            unsafe { free(block, layout) }
        } else {
            // SAFETY: it is none of this heap, so it is one of the system, and the caller keeps the rules.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !has(block) {
            // SAFETY: it is none of this heap, so it is one of the system, and the caller keeps the rules.
            return unsafe { System.realloc(block, layout, new_size) };
        }
        // SAFETY: the caller has seen to it that the size, rounded up to the alignment, is no more than an isize.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: the caller keeps the rules, of which one is that the new size is not zero.
        let moved = unsafe { self.alloc(new_layout) };
        if !moved.is_null() {
            let length = layout.size().min(new_size);
            // SAFETY: both are that long, and neither is a part of the other.
            unsafe { ptr::copy_nonoverlapping(block, moved, length) };
            // SAFETY: it is a block of this heap, and the caller does not use it any more.
            unsafe { free(block, layout) };
        }
        moved
    }
}

/// A block of the heap, or null if the range is used up.
fn allocate(layout: Layout) -> *mut u8 {
    let mut heap = lock();
    free_listed(&mut heap);
    // SAFETY: the size is not zero and the alignment a power of two.
    let block = unsafe { heap.c_memalign(layout.align(), layout.size().max(ENTRY_BYTES)) };
    if !block.is_null() {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
    }
    block
}

/// # Safety
/// It must be a block of this heap with this layout that nobody uses any more.
unsafe fn free(block: *mut u8, layout: Layout) {
    let left = ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed) - layout.size();
    let locked = if COMPUTES.get() { Some(lock()) } else { try_lock() };
    let Some(mut heap) = locked else {
        // SAFETY: the caller has seen to it.
        return unsafe { list(block) };
    };
    // SAFETY: the caller has seen to it.
    unsafe { heap.c_free(block) };
    free_listed(&mut heap);
    if left == 0 {
        trim_locked(&mut heap);
    }
}

fn try_lock() -> Option<MutexGuard<'static, Dlmalloc<Pages>>> {
    match HEAP.try_lock() {
        Ok(heap) => Some(heap),
        Err(TryLockError::Poisoned(heap)) => Some(heap.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn trim_locked(heap: &mut Dlmalloc<Pages>) {
    free_listed(heap);
    // SAFETY: it touches free memory only, and this has the heap for itself.
    let _gave = unsafe { heap.trim(0) };
}

/// What is written into a block that was freed while the heap was locked.
struct Freed {
    next: *mut Freed,
}

/// Puts a block on the list of those that were freed.
///
/// # Safety
/// It must be a block of the heap that nobody uses any more.
unsafe fn list(block: *mut u8) {
    let entry = block.cast::<Freed>();
    let mut next = FREED.load(Ordering::Relaxed);
    loop {
        // SAFETY: each block of the heap is long enough for it and aligned to two words, and nobody uses this one.
        unsafe { entry.write(Freed { next }) };
        match FREED.compare_exchange_weak(next, entry, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(newest) => next = newest,
        }
    }
}

/// Frees what was put on the list.
fn free_listed(heap: &mut Dlmalloc<Pages>) {
    if FREED.load(Ordering::Relaxed).is_null() {
        return;
    }
    let mut entry = FREED.swap(ptr::null_mut(), Ordering::Acquire);
    while !entry.is_null() {
        // SAFETY: entries are written before they are listed, and the list was taken as a whole.
        let Freed { next } = unsafe { entry.read() };
        // SAFETY: it is a block of the heap that nobody uses.
        unsafe { heap.c_free(entry.cast()) };
        entry = next;
    }
}

/// Sets the range aside, if there is none yet. Without one all comes from the heap of everybody.
fn reserve() {
    if START.load(Ordering::Relaxed) != NOWHERE {
        return;
    }
    let _one_at_a_time = lock();
    if START.load(Ordering::Relaxed) != NOWHERE {
        return;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the system chooses the place, so nothing that is there is replaced.
    let range = unsafe { libc::mmap(ptr::null_mut(), RANGE_BYTES, protection, flags, -1, 0) };
    if range != libc::MAP_FAILED {
        // SAFETY: the range is that long. A huge page would stay as a whole for one block in it.
        let _set = unsafe { libc::madvise(range, RANGE_BYTES, libc::MADV_NOHUGEPAGE) };
        START.store(range.expose_provenance(), Ordering::Relaxed);
    }
}

/// Where the heap has its pages from: the range, from its start on.
struct Pages;

impl Pages {
    /// Gives back what the heap has from here on.
    fn give_back_from(start: *mut u8) {
        let left = start.addr() - START.load(Ordering::Relaxed);
        let taken = TAKEN.swap(left, Ordering::Relaxed);
        // SAFETY: the heap does not use what is behind this any more; it reads as zeros if it is taken again.
        let _gave = unsafe { libc::madvise(start.cast(), taken - left, libc::MADV_DONTNEED) };
    }
}

// SAFETY: parts of the range are handed out once until they are given back, and the heap is locked meanwhile.
unsafe impl dlmalloc::Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        const NONE: (*mut u8, usize, u32) = (ptr::null_mut(), 0, 0);
        let (start, taken) = (START.load(Ordering::Relaxed), TAKEN.load(Ordering::Relaxed));
        if start == NOWHERE || size > RANGE_BYTES - taken {
            return NONE;
        }
        TAKEN.store(taken + size, Ordering::Relaxed);
        (ptr::with_exposed_provenance_mut(start + taken), size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, segment: *mut u8, _: usize, new_size: usize) -> bool {
        Self::give_back_from(segment.wrapping_add(new_size));
        true
    }

    /// There is one segment, as each part that is taken follows the one before, and the heap keeps its first one.
    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        false
    }

    /// The largest one of any system, and the least that the heap takes.
    fn page_size(&self) -> usize {
        64 << 10
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::tests::{alone, resident_bytes};

    const MIB: u64 = 1 << 20;

    fn computed<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(|| computing(work)).join().expect("it does not panic")
    }

    /// R-FAULT-3: what others allocate and keep while a computation runs keeps no page of it.
    #[test]
    fn what_stays_keeps_nothing_of_a_computation() {
        const BLOCKS: usize = 40_000;
        let _alone = alone();
        let (sender, receiver) = mpsc::sync_channel::<()>(0);
        let stays = thread::spawn(move || {
            let mut kept = Vec::with_capacity(BLOCKS / 10);
            while receiver.recv().is_ok() {
                kept.push(black_box(vec![1_u8; 64]));
            }
            kept
        });
        let before = resident_bytes();
        let used = computed(move || {
            let mut blocks = Vec::with_capacity(BLOCKS);
            for turn in 0..BLOCKS {
                blocks.push(black_box(vec![1_u8; 1000]));
                if turn % 10 == 0 {
                    sender.send(()).expect("it receives");
                }
            }
            assert!(has(blocks[BLOCKS - 1].as_mut_ptr()));
            resident_bytes()
        });
        assert!(used > before + 38 * MIB, "{before} {used}");
        let after = resident_bytes();
        assert!(after < before + 2 * MIB, "{before} {after}");
        assert_eq!(stays.join().expect("it does not panic").len(), BLOCKS / 10);
    }

    /// Blocks of all lengths and alignments hold what was written, on whichever thread they grow, shrink and are freed.
    #[test]
    fn blocks_hold_what_was_written() {
        let _alone = alone();
        let workers: Vec<_> = (1..=4_u64).map(|seed| thread::spawn(move || juggle(seed))).collect();
        for worker in workers {
            worker.join().expect("it does not panic");
        }
        trim();
        assert_eq!(allocated_bytes(), 0);
        assert!(TAKEN.load(Ordering::Relaxed) <= 64 << 10, "{TAKEN:?}");
    }

    struct Block {
        start: *mut u8,
        layout: Layout,
        filled: u8,
    }

    // SAFETY: a block belongs to whoever has this.
    unsafe impl Send for Block {}

    fn juggle(seed: u64) {
        let mut random = seed;
        let mut next = move |below: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).expect("31 bits") % below
        };
        let mut blocks: Vec<Block> = Vec::new();
        for turn in 0..40 {
            let chosen: Vec<(usize, usize, usize)> = (0..500)
                .map(|_| {
                    (
                        next(4),
                        {
                            let bits = 1 + next(18);
                            next(1 << bits)
                        },
                        next(9),
                    )
                })
                .collect();
            let work = move || {
                for (what, number, power) in chosen {
                    step(&mut blocks, what, number, power);
                }
                blocks
            };
            blocks = if turn % 3 == 0 {
                thread::spawn(work).join().expect("ok")
            } else {
                computed(work)
            };
        }
        blocks.into_iter().for_each(give_up);
    }

    fn step(blocks: &mut Vec<Block>, what: usize, number: usize, power: usize) {
        let filled = u8::try_from(number % 251).expect("less than 251");
        let size = number.max(1);
        let which = number % blocks.len().max(1);
        match what {
            0 if !blocks.is_empty() => give_up(blocks.swap_remove(which)),
            1 if !blocks.is_empty() => resize(&mut blocks[which], size),
            _ => blocks.push(take(size, 1 << power, filled, what == 2)),
        }
    }

    fn take(size: usize, align: usize, filled: u8, zeroed: bool) -> Block {
        let layout = Layout::from_size_align(size, align).expect("a power of two");
        let start = if zeroed {
            // SAFETY: the size is not zero.
            unsafe { Allocator.alloc_zeroed(layout) }
        } else {
            // SAFETY: the size is not zero.
            unsafe { Allocator.alloc(layout) }
        };
        assert!(!start.is_null() && start.addr() % align == 0);
        let mut block = Block { start, layout, filled: 0 };
        if zeroed {
            check(&block);
        }
        fill(&mut block, filled);
        block
    }

    fn fill(block: &mut Block, filled: u8) {
        // SAFETY: the block is that long.
        unsafe { block.start.write_bytes(filled, block.layout.size()) };
        block.filled = filled;
    }

    fn check(block: &Block) {
        // SAFETY: the block is that long and was written.
        let bytes = unsafe { std::slice::from_raw_parts(block.start, block.layout.size()) };
        assert!(bytes.iter().all(|byte| *byte == block.filled));
    }

    fn resize(block: &mut Block, size: usize) {
        check(block);
        // SAFETY: it is a block of the allocator with this layout, and the size is not zero.
        block.start = unsafe { Allocator.realloc(block.start, block.layout, size) };
        let kept = block.layout.size().min(size);
        let align = block.layout.align();
        block.layout = Layout::from_size_align(kept, align).expect("a power of two");
        check(block);
        block.layout = Layout::from_size_align(size, align).expect("a power of two");
        let filled = block.filled;
        fill(block, filled);
    }

    fn give_up(block: Block) {
        check(&block);
        // SAFETY: it is a block of the allocator with this layout, which nobody uses any more.
        unsafe { Allocator.dealloc(block.start, block.layout) };
    }

    /// Who frees a result does not wait for a computation that holds the lock, and the block is free afterwards.
    #[test]
    fn freeing_a_result_waits_for_nobody() {
        let _alone = alone();
        let result = computed(|| black_box(vec![7_u8; 5000]));
        assert!(has(result.as_ptr().cast_mut()));
        let held = lock();
        thread::spawn(move || drop(result)).join().expect("it does not panic");
        assert!(!FREED.load(Ordering::Relaxed).is_null(), "it is on the list");
        drop(held);
        trim();
        assert!(FREED.load(Ordering::Relaxed).is_null());
        assert_eq!(allocated_bytes(), 0);
    }
}

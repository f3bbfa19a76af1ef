//! What the allocator of the process keeps and what is mapped of its program, and giving it back to the system.
//!
//! The one crate of the workspace with code that the compiler does not check: glibc offers this to C alone, in a few calls
//! without a pointer, and an allocator cannot be written otherwise. It must have nothing else. With another C library what
//! is asked of glibc does nothing.

mod computing;
mod program;

pub use computing::{Allocator, computing};
pub use program::unmap_program;

/// Bytes that the program has allocated and not freed, large blocks of their own included, touched or not.
///
/// Looks at each free block, of which there are some ten thousand after a burst: about a millisecond.
#[must_use]
pub fn allocated_bytes() -> u64 {
    sys::allocated_bytes().saturating_add(computing::allocated_bytes())
}

/// Gives all whole pages that the program has freed back to the system. Each thread that allocates waits while its part of
/// the heap is gone through: some milliseconds after a burst, and less than one otherwise.
pub fn give_back() {
    computing::trim();
    sys::give_back();
}

/// Has large blocks, and what is freed at the end of a heap, given back at once for good, and no more heaps than there are
/// processors. Otherwise glibc raises both limits with each large block that is freed: after a message of 8 MiB each of its
/// heaps, one for each thread, keeps up to 16 MiB (mallopt(3), "dynamic mmap threshold"); and it makes up to eight heaps for
/// each processor. Call it before there is another thread.
pub fn keep_little() {
    sys::keep_little();
}

#[cfg(target_env = "gnu")]
mod sys {
    /// From which length on a block has pages of its own. What glibc begins with; setting it keeps it there.
    const LARGE_BYTES: libc::c_int = 128 << 10;

    #[expect(unsafe_code, reason = "a call of C")]
    pub(super) fn keep_little() {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let heaps = libc::c_int::try_from(processors).unwrap_or(libc::c_int::MAX);
        for (what, value) in [(libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_ARENA_MAX, heaps)] {
            // SAFETY: it takes numbers, and may be called from any thread at any time: it holds the lock of what it changes.
            let _set = unsafe { libc::mallopt(what, value) };
        }
    }

    #[expect(unsafe_code, reason = "a call of C")]
    pub(super) fn allocated_bytes() -> u64 {
        // SAFETY: it takes nothing, returns numbers by value, and may be called from any thread at any time: it holds the
        // lock of what it reads.
        let found = unsafe { libc::mallinfo2() };
        let bytes = found.uordblks.saturating_add(found.hblkhd);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    #[expect(unsafe_code, reason = "a call of C")]
    pub(super) fn give_back() {
        // SAFETY: it takes a number, touches free blocks only, and may be called from any thread at any time: it holds the
        // lock of what it changes.
        let _gave = unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(target_env = "gnu"))]
mod sys {
    pub(super) fn allocated_bytes() -> u64 {
        0
    }

    pub(super) fn give_back() {}

    pub(super) fn keep_little() {}
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::fs;
    use std::hint::black_box;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    /// The tests measure the process, so they run one after the other.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of this process that is in no file.
    pub(crate) fn resident_bytes() -> u64 {
        let statm = fs::read_to_string("/proc/self/statm").expect("it is there");
        let pages: Vec<u64> =
            statm.split(' ').map(|field| field.trim().parse().expect("a number")).collect();
        (pages[1] - pages[2]) * 4096
    }

    /// R-FAULT-3: what was freed below blocks that are in use is kept by the allocator, and leaves with this.
    #[test]
    fn freed_memory_below_what_is_in_use_is_given_back() {
        let _alone = alone();
        const BLOCKS: usize = 40_000;
        const MIB: u64 = 1 << 20;
        let before = allocated_bytes();
        let mut blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| black_box(vec![1; 1000])).collect();
        assert!(allocated_bytes() > before + 38 * MIB);
        // The newest block is at the top.
        let top = blocks.pop();
        drop(blocks);
        assert!(allocated_bytes() < before + MIB);
        let kept = resident_bytes();
        give_back();
        let after = resident_bytes();
        assert!(after + 30 * MIB < kept, "{kept} {after}");
        drop(top);
    }

    /// R-FAULT-3: a large block that was freed does not have the allocator keep those that are freed later.
    #[test]
    fn large_blocks_are_given_back_at_once() {
        const MIB: usize = 1 << 20;
        let _alone = alone();
        keep_little();
        let in_use = |bytes: usize| drop(black_box(vec![1_u8; bytes]));
        in_use(8 * MIB);
        let before = resident_bytes();
        in_use(4 * MIB);
        let after = resident_bytes();
        assert!(after < before + MIB as u64, "{before} {after}");
    }
}

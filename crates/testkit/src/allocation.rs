//! Counts the bytes that a piece of work allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Per thread, so that tests that run beside a measurement do not count. Constant and without a destructor, so
    // that the allocator may use them at any time.
    static CURRENT: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system allocator with counters. A test binary that measures memory declares it as `#[global_allocator]`.
#[derive(Debug)]
pub struct CountingAllocator;

/// The memory that a piece of work used, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The highest amount in use at once, above what was in use before.
    pub peak: usize,
    /// The amount still in use after the work, above what was in use before: what the result holds.
    pub kept: usize,
}

/// Runs `work` and returns its result with the memory that this thread allocated for it. Without
/// [`CountingAllocator`] as the global allocator, both amounts are 0.
pub fn measure_memory<T>(work: impl FnOnce() -> T) -> (T, Usage) {
    let before = CURRENT.get();
    PEAK.set(before);
    let result = work();
    let above = |bytes: isize| usize::try_from(bytes - before).unwrap_or(0);
    (result, Usage { peak: above(PEAK.get()), kept: above(CURRENT.get()) })
}

fn add(bytes: usize) {
    let current = CURRENT.get().wrapping_add_unsigned(bytes);
    CURRENT.set(current);
    PEAK.set(PEAK.get().max(current));
}

fn subtract(bytes: usize) {
    CURRENT.set(CURRENT.get().wrapping_sub_unsigned(bytes));
}

#[allow(unsafe_code, reason = "only an allocator sees every allocation, and its trait is unsafe")]
// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        subtract(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist while the system copies one into the other.
        add(size);
        subtract(layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }
}

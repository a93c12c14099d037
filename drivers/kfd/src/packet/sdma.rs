//! Words of the SDMA engine: copies, fences, traps, cache control.
//!
//! Source: `amdgpu/sdma_v6_0.c`, `sdma_v7_0.c`, `sdma_v6_0_0_pkt_open.h`; the cache brackets around a copy are those of
//! ROCR-Runtime `core/runtime/amd_blit_sdma.cpp` for gfx10 and later.

use super::pm4::gcr;

/// Most bytes of one linear copy on SDMA 6 and 7.
pub const COPY_BYTES: u64 = 1 << 30;

/// Words of a copy.
pub const COPY_WORDS: usize = 7;

/// Words of a fence.
pub const FENCE_WORDS: usize = 4;

/// Words of a trap.
pub const TRAP_WORDS: usize = 2;

/// Words of a cache control.
pub const CACHE_WORDS: usize = 5;

const fn low(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}

const fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

/// Copies `bytes`, 1 to [`COPY_BYTES`].
pub const fn copy(to: u64, from: u64, bytes: u64) -> [u32; COPY_WORDS] {
    const COPY: u32 = 1;
    [COPY, low(bytes - 1) & 0x3fff_ffff, 0, low(from), high(from), low(to), high(to)]
}

/// Stores a 32-bit value, uncached, after everything before it.
pub const fn fence(va: u64, value: u32) -> [u32; FENCE_WORDS] {
    const FENCE: u32 = 5;
    const UNCACHED: u32 = 3 << 16;
    [FENCE | UNCACHED, low(va), high(va), value]
}

/// Raises the interrupt of an event.
pub const fn trap(event: u32) -> [u32; TRAP_WORDS] {
    const TRAP: u32 = 6;
    [TRAP, event & 0x0fff_ffff]
}

/// Cache control over all addresses.
const fn cache(control: u32) -> [u32; CACHE_WORDS] {
    const GCR: u32 = 17 | 1 << 8;
    [GCR, 0, (control & 0xffff) << 16, control >> 16 & 7, 0]
}

/// Before a copy: write back and forget what kernels left in the caches.
pub const fn before_copy() -> [u32; CACHE_WORDS] {
    let invalidate = gcr::GL2_INV | gcr::GL1_INV | gcr::GLV_INV | gcr::GLK_INV;
    cache(invalidate | gcr::GL2_WB | gcr::GLK_WB)
}

/// After a copy: write back what it left in L2.
pub const fn after_copy() -> [u32; CACHE_WORDS] {
    cache(gcr::GL2_WB | gcr::GLK_WB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_packet_headers() {
        assert_eq!(
            copy(0x7000_1234_5000, 0x6000_8765_4000, COPY_BYTES),
            [1, 0x3fff_ffff, 0, 0x8765_4000, 0x6000, 0x1234_5000, 0x7000]
        );
        assert_eq!(fence(0x1_0000_0008, 9), [0x0003_0005, 8, 1, 9]);
        assert_eq!(trap(17), [6, 17]);
        assert_eq!(before_copy(), [0x111, 0, 0xC3C0_0000, 0, 0]);
        assert_eq!(after_copy(), [0x111, 0, 0x8040_0000, 0, 0]);
    }
}

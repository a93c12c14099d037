//! Moves between lanes through the LDS unit: permute, bpermute, swizzle.
//!
//! Not here: accesses of LDS memory.

use alloc::vec;

use super::super::registers::Lanes;
use super::super::request::Reach;
use super::super::request::{Destination, MemoryKind, Request};
use super::super::step::{Dest, Step};
use super::super::transfer::Transfer;
use super::super::wave::Wave;

/// Source lane of each lane by a swizzle pattern.
fn swizzle(pattern: u32, lane: usize) -> usize {
    let lane32 = lane as u32;
    let from = if pattern >= 0xe000 {
        fft(pattern, lane32)
    } else if pattern >= 0xc000 {
        // Rotation; bits of the mask keep the lane's own number.
        let by = pattern >> 5 & 31;
        let mask = pattern & 31;
        let turned = if pattern >> 10 & 1 != 0 { lane32.wrapping_sub(by) } else { lane32 + by };
        lane32 & mask | turned & !mask & 31
    } else if pattern & 0x8000 != 0 {
        lane32 & !3 | pattern >> (2 * (lane32 & 3)) & 3
    } else {
        (lane32 & pattern & 31 | pattern >> 5 & 31) ^ pattern >> 10 & 31
    };
    (from & 31) as usize
}

/// Bit-reversed order within groups of `2^n` lanes.
fn fft(pattern: u32, lane: u32) -> u32 {
    let mask = pattern & 31;
    let reversed = lane.reverse_bits() >> 27;
    let ones = mask.count_ones();
    if ones == 0 {
        return reversed;
    }
    (reversed >> ones) | (lane & mask)
}

/// The request of a permute, with the permuted lanes as data.
pub(super) fn permute(wave: &Wave, step: &Step) -> Request {
    let exec = wave.exec();
    let register = |index: usize| step.vsrc(index).map_or([0; 32], |first| wave.vgpr[first]);
    let (address, data) = (register(0), register(1));
    let offset = step.inst.memory.offset.cast_unsigned();
    let chosen = |lane: usize| (address[lane].wrapping_add(offset) >> 2 & 31) as usize;
    let active = |lane: usize| exec >> lane & 1 != 0;
    let out: Lanes = match step.row().name {
        "ds_permute_b32" => {
            let mut out = [0; 32];
            for lane in (0..32).filter(|lane| active(*lane)) {
                out[chosen(lane)] = data[lane];
            }
            out
        }
        "ds_bpermute_b32" => core::array::from_fn(|lane| {
            let from = chosen(lane);
            if active(from) { data[from] } else { 0 }
        }),
        _ => core::array::from_fn(|lane| {
            let from = swizzle(offset, lane);
            if active(from) { address[from] } else { 0 }
        }),
    };
    let destination = match step.dst[0] {
        Dest::Vgpr(first) => Destination::Vector(usize::from(first), 1),
        _ => Destination::Nothing,
    };
    Request {
        memory: MemoryKind::Lanes,
        transfer: Transfer::Load(1),
        exec,
        outside: 0,
        address: [0; 32],
        second: 0,
        data: vec![out],
        poison: vec![],
        reach: Reach::default(),
        destination,
    }
}

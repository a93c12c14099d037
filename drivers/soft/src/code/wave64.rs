//! Kernels for waves of 64 lanes that can run as two waves of 32.
//!
//! The copy and fill kernels inside AMD's runtime are such kernels: no lane reads another one, and masks are only used as
//! conditions, so the upper half of a mask does not matter. All other kernels for 64 lanes are refused.

use alloc::vec::Vec;

use doorbell_isa::{Lanes, Target, decode};

use super::Descriptor;
use crate::memory::Space;

/// Prefixes of the names of instructions that such a kernel may use.
const ALLOWED: [&str; 33] = [
    "s_load_b",
    "s_waitcnt",
    "s_wait_",
    "s_endpgm",
    "s_branch",
    "s_cbranch_vcc",
    "s_cbranch_exec",
    "s_mov_b",
    "s_and_b64",
    "s_lshl_b32",
    "s_lshr_b32",
    "s_add_",
    "s_addc_u32",
    "s_sub_",
    "s_subb_u32",
    "s_mul_i32",
    "s_mul_hi_u32",
    "s_nop",
    "s_clause",
    "s_delay_alu",
    "v_add",
    "v_sub",
    "v_mov_b32",
    "v_lshlrev_b",
    "v_lshrrev_b",
    "v_lshl_",
    "v_and_b32",
    "v_or_b32",
    "v_cmp_",
    "v_mul_lo_u32",
    "v_mad_",
    "flat_",
    "global_",
];

/// Longest kernel, in instructions.
const MOST: usize = 4096;
/// Dwords of the longest instruction.
const LONGEST: u64 = 4;

/// The same kernel for waves of 32 lanes, if that is possible.
pub(crate) fn as_wave32(
    descriptor: &Descriptor,
    address: u64,
    target: Target,
    space: &mut Space,
) -> Option<Descriptor> {
    let mut at = address.wrapping_add_signed(descriptor.entry);
    for _ in 0..MOST {
        let words: Vec<u32> = (0..LONGEST).map_while(|word| space.load32(at + 4 * word).ok()).collect();
        let (inst, length) = decode(&words, target).ok()?;
        let name = inst.op.name();
        if inst.lanes != Lanes::Own || !ALLOWED.iter().any(|allowed| name.starts_with(allowed)) {
            return None;
        }
        if name == "s_endpgm" {
            // Registers are counted by fours in waves of 64 lanes, by eights in those of 32.
            let vgprs = ((descriptor.rsrc1 & 63) + 1) * 4;
            let rsrc1 = descriptor.rsrc1 & !63 | (vgprs.div_ceil(8) - 1);
            return Some(Descriptor { rsrc1, properties: descriptor.properties | 1 << 10, ..*descriptor });
        }
        at += 4 * length as u64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVE: u32 = 0x7e00_0280;
    const FIRST_LANE: u32 = 0x7e00_0500;
    const BARRIER: u32 = 0xbfbd_0000;
    const END: u32 = 0xbfb0_0000;

    fn with_code(words: &[u32], rsrc1: u32) -> Option<Descriptor> {
        let mut space = Space::new();
        let memory = space.allocate("code", 4096).expect("memory");
        for (index, word) in words.iter().enumerate() {
            memory.store32(256 + 4 * index, *word);
        }
        let mut bytes = [0; 64];
        bytes[17] = 1;
        bytes[48..52].copy_from_slice(&rsrc1.to_le_bytes());
        bytes[56] = 8;
        let descriptor = Descriptor::parse(&bytes).expect("64 bytes");
        assert!(descriptor.is_wave64());
        as_wave32(&descriptor, memory.address(), Target::Gfx1100, &mut space)
    }

    #[test]
    fn kernels_without_exchange_between_lanes_are_split() {
        for (field, expected) in [(0, 0), (2, 1), (63, 31)] {
            let descriptor = with_code(&[MOVE, END], 0x8c_00c0 | field).expect("a simple kernel");
            assert_eq!((descriptor.rsrc1, descriptor.properties), (0x8c_00c0 | expected, 8 | 1 << 10));
        }
    }

    #[test]
    fn all_other_kernels_are_refused() {
        for code in [[FIRST_LANE, END], [BARRIER, END], [MOVE, 0xffff_ffff], [MOVE, MOVE]] {
            assert_eq!(with_code(&code, 0), None, "{code:x?}");
        }
    }
}

//! Scratch (per-lane private) memory loads and stores.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Scratch;
    scratch_load_u8          [0x10 0x10 0x10] B32 = SADDR SBASE32 , {LOAD}, Vmem;
    scratch_load_i8          [0x11 0x11 0x11] B32 = SADDR SBASE32 , {LOAD}, Vmem;
    scratch_load_u16         [0x12 0x12 0x12] B32 = SADDR SBASE32 , {LOAD}, Vmem;
    scratch_load_i16         [0x13 0x13 0x13] B32 = SADDR SBASE32 , {LOAD}, Vmem;
    scratch_load_b32         [0x14 0x14 0x14] B32 = SADDR SBASE32 , {LOAD}, Vmem;
    scratch_load_b64         [0x15 0x15 0x15] B64 = SADDR SBASE32 , {LOAD}, Vmem;
    scratch_load_b96         [0x16 0x16 0x16] B96 = SADDR SBASE32 , {LOAD}, Vmem;
    scratch_load_b128        [0x17 0x17 0x17] B128 = SADDR SBASE32, {LOAD}, Vmem;
    scratch_store_b8         [0x18 0x18 0x18] = SADDR B32 SBASE32 , {STORE}, Vmem;
    scratch_store_b16        [0x19 0x19 0x19] = SADDR B32 SBASE32 , {STORE}, Vmem;
    scratch_store_b32        [0x1a 0x1a 0x1a] = SADDR B32 SBASE32 , {STORE}, Vmem;
    scratch_store_b64        [0x1b 0x1b 0x1b] = SADDR B64 SBASE32 , {STORE}, Vmem;
    scratch_store_b96        [0x1c 0x1c 0x1c] = SADDR B96 SBASE32 , {STORE}, Vmem;
    scratch_store_b128       [0x1d 0x1d 0x1d] = SADDR B128 SBASE32, {STORE}, Vmem;
    scratch_load_d16_u8      [0x1e 0x1e 0x1e] B32 = SADDR SBASE32 , {LOAD READS_DST}, Vmem;
    scratch_load_d16_i8      [0x1f 0x1f 0x1f] B32 = SADDR SBASE32 , {LOAD READS_DST}, Vmem;
    scratch_load_d16_b16     [0x20 0x20 0x20] B32 = SADDR SBASE32 , {LOAD READS_DST}, Vmem;
    scratch_load_d16_hi_u8   [0x21 0x21 0x21] B32 = SADDR SBASE32 , {LOAD READS_DST}, Vmem;
    scratch_load_d16_hi_i8   [0x22 0x22 0x22] B32 = SADDR SBASE32 , {LOAD READS_DST}, Vmem;
    scratch_load_d16_hi_b16  [0x23 0x23 0x23] B32 = SADDR SBASE32 , {LOAD READS_DST}, Vmem;
    scratch_store_d16_hi_b8  [0x24 0x24 0x24] = SADDR B32 SBASE32 , {STORE}, Vmem;
    scratch_store_d16_hi_b16 [0x25 0x25 0x25] = SADDR B32 SBASE32 , {STORE}, Vmem;
}

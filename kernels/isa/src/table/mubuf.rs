//! Buffer memory: cache control, and plain loads and stores.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Mubuf;
    buffer_load_u8    [0x10 0x10 0x10] B32 = VOFFSET R128 SOFF32 , {LOAD}, Vmem;
    buffer_load_i8    [0x11 0x11 0x11] B32 = VOFFSET R128 SOFF32 , {LOAD}, Vmem;
    buffer_load_u16   [0x12 0x12 0x12] B32 = VOFFSET R128 SOFF32 , {LOAD}, Vmem;
    buffer_load_i16   [0x13 0x13 0x13] B32 = VOFFSET R128 SOFF32 , {LOAD}, Vmem;
    buffer_load_b32   [0x14 0x14 0x14] B32 = VOFFSET R128 SOFF32 , {LOAD}, Vmem;
    buffer_load_b64   [0x15 0x15 0x15] B64 = VOFFSET R128 SOFF32 , {LOAD}, Vmem;
    buffer_load_b96   [0x16 0x16 0x16] B96 = VOFFSET R128 SOFF32 , {LOAD}, Vmem;
    buffer_load_b128  [0x17 0x17 0x17] B128 = VOFFSET R128 SOFF32, {LOAD}, Vmem;
    buffer_store_b8   [0x18 0x18 0x18] = B32 VOFFSET R128 SOFF32 , {STORE}, Vmem;
    buffer_store_b16  [0x19 0x19 0x19] = B32 VOFFSET R128 SOFF32 , {STORE}, Vmem;
    buffer_store_b32  [0x1a 0x1a 0x1a] = B32 VOFFSET R128 SOFF32 , {STORE}, Vmem;
    buffer_store_b64  [0x1b 0x1b 0x1b] = B64 VOFFSET R128 SOFF32 , {STORE}, Vmem;
    buffer_store_b96  [0x1c 0x1c 0x1c] = B96 VOFFSET R128 SOFF32 , {STORE}, Vmem;
    buffer_store_b128 [0x1d 0x1d 0x1d] = B128 VOFFSET R128 SOFF32, {STORE}, Vmem;
    buffer_gl0_inv    [0x2b 0x2b    -] =                         , {INVALIDATES}, Vmem;
    buffer_gl1_inv    [0x2c 0x2c    -] =                         , {INVALIDATES}, Vmem;
}

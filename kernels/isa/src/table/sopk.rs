//! Scalar instructions with a 16-bit constant and one register.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Sopk;
    s_movk_i32         [0x00 0x00 0x00] I32 = HEX16 , {}, Salu;
    s_cmovk_i32        [0x02 0x02 0x02] I32 = HEX16 , {SCC_IN READS_DST}, Salu;
    s_cmpk_eq_i32      [0x03 0x03    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_lg_i32      [0x04 0x04    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_gt_i32      [0x05 0x05    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_ge_i32      [0x06 0x06    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_lt_i32      [0x07 0x07    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_le_i32      [0x08 0x08    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_eq_u32      [0x09 0x09    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_lg_u32      [0x0a 0x0a    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_gt_u32      [0x0b 0x0b    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_ge_u32      [0x0c 0x0c    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_lt_u32      [0x0d 0x0d    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_cmpk_le_u32      [0x0e 0x0e    -] = R32 HEX16 , {SCC_OUT}, Salu;
    s_addk_i32         [0x0f 0x0f    -] I32 = HEX16 , {READS_DST SCC_OUT}, Salu;
    s_mulk_i32         [0x10 0x10 0x10] I32 = HEX16 , {READS_DST}, Salu;
    s_getreg_b32       [0x11 0x11 0x11] B32 = HWREG , {}, Salu;
    s_setreg_b32       [0x12 0x12 0x12] = HWREG R32 , {}, Salu;
    s_setreg_imm32_b32 [0x13 0x13 0x13] = HWREG K32 , {}, Salu;
    s_call_b64         [0x14 0x14 0x14] B64 = BRANCH, {BRANCHES}, Branch;
    s_waitcnt_vscnt    [0x18 0x18    -] = NULL HEX16 , {}, Wait;
    s_waitcnt_vmcnt    [0x19 0x19    -] = NULL HEX16 , {}, Wait;
    s_waitcnt_expcnt   [0x1a 0x1a    -] = NULL HEX16 , {}, Wait;
    s_waitcnt_lgkmcnt  [0x1b 0x1b    -] = NULL HEX16 , {}, Wait;
    s_addk_co_i32      [   -    - 0x0f] I32 = HEX16 , {READS_DST SCC_OUT}, Salu;
}

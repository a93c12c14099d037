//! Program control, waits and hints.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Sopp;
    s_nop                        [0x00 0x00 0x00] = DEC16  , {}, Hint;
    s_sethalt                    [0x02 0x02 0x02] = DEC16  , {}, Hint;
    s_sleep                      [0x03 0x03 0x03] = DEC16  , {}, Hint;
    s_set_inst_prefetch_distance [0x04 0x04    -] = HEX16  , {}, Hint;
    s_clause                     [0x05 0x05 0x05] = HEX16  , {}, Hint;
    s_delay_alu                  [0x07 0x07 0x07] = DELAY  , {}, Hint;
    s_waitcnt_depctr             [0x08 0x08    -] = DEPCTR , {}, Wait;
    s_waitcnt                    [0x09 0x09 0x09] = WAITCNT, {}, Wait;
    s_wait_idle                  [0x0a 0x0a 0x0a] =        , {}, Wait;
    s_trap                       [0x10 0x10 0x10] = DEC16  , {}, Hint;
    s_round_mode                 [0x11 0x11 0x11] = HEX16  , {}, Salu;
    s_denorm_mode                [0x12 0x12 0x12] = DEC16  , {}, Salu;
    s_code_end                   [0x1f 0x1f 0x1f] =        , {}, Hint;
    s_branch                     [0x20 0x20 0x20] = BRANCH , {BRANCHES}, Branch;
    s_cbranch_scc0               [0x21 0x21 0x21] = BRANCH , {BRANCHES SCC_IN}, Branch;
    s_cbranch_scc1               [0x22 0x22 0x22] = BRANCH , {BRANCHES SCC_IN}, Branch;
    s_cbranch_vccz               [0x23 0x23 0x23] = BRANCH , {BRANCHES VCC_IN}, Branch;
    s_cbranch_vccnz              [0x24 0x24 0x24] = BRANCH , {BRANCHES VCC_IN}, Branch;
    s_cbranch_execz              [0x25 0x25 0x25] = BRANCH , {BRANCHES EXEC_IN}, Branch;
    s_cbranch_execnz             [0x26 0x26 0x26] = BRANCH , {BRANCHES EXEC_IN}, Branch;
    s_endpgm                     [0x30 0x30 0x30] = OPT16  , {ENDS}, Branch;
    s_setprio                    [0x35 0x35 0x35] = DEC16  , {}, Hint;
    s_sendmsg                    [0x36 0x36 0x36] = MESSAGE, {}, Message;
    s_icache_inv                 [0x3c 0x3c 0x3c] =        , {}, Hint;
    s_barrier                    [0x3d 0x3d    -] =        , {}, Barrier;
    s_singleuse_vdst             [   - 0x13 0x13] = HEX16  , {}, Hint;
    s_wait_alu                   [   -    - 0x08] = DEPCTR , {}, Wait;
    s_barrier_wait               [   -    - 0x14] = DEC16  , {}, Barrier;
    s_barrier_leave              [   -    - 0x15] =        , {SCC_OUT}, Barrier;
    s_wait_loadcnt               [   -    - 0x40] = HEX16  , {}, Wait;
    s_wait_storecnt              [   -    - 0x41] = HEX16  , {}, Wait;
    s_wait_samplecnt             [   -    - 0x42] = HEX16  , {}, Wait;
    s_wait_bvhcnt                [   -    - 0x43] = HEX16  , {}, Wait;
    s_wait_expcnt                [   -    - 0x44] = HEX16  , {}, Wait;
    s_wait_dscnt                 [   -    - 0x46] = HEX16  , {}, Wait;
    s_wait_kmcnt                 [   -    - 0x47] = HEX16  , {}, Wait;
    s_wait_loadcnt_dscnt         [   -    - 0x48] = HEX16  , {}, Wait;
    s_wait_storecnt_dscnt        [   -    - 0x49] = HEX16  , {}, Wait;
}

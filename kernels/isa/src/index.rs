//! Decoder indexes: opcode of a format and generation to row, computed at compile time from the tables.
//!
//! Not here: the decoder.

use crate::row::{ABSENT, Flags, Op, Table, raw_op};
use crate::table::TABLES;
use crate::target::Target;

/// Opcode to raw [`Op`] per generation; [`ABSENT`] where there is none.
pub(crate) struct Index<const N: usize>([[u16; N]; 3]);

impl<const N: usize> Index<N> {
    const fn build(parts: &[(Table, usize)], long: bool) -> Self {
        let mut map = [[ABSENT; N]; 3];
        let mut part = 0;
        while part < parts.len() {
            let (table, base) = (parts[part].0 as usize, parts[part].1);
            let rows = TABLES[table];
            let mut row = 0;
            while row < rows.len() {
                let mut column = 0;
                while column < 3 {
                    let code = rows[row].opcodes[column];
                    if code != ABSENT && !(long && rows[row].flags.has(Flags::SHORT_ONLY)) {
                        map[column][base + code as usize] = raw_op(table, row);
                    }
                    column += 1;
                }
                row += 1;
            }
            part += 1;
        }
        Self(map)
    }

    /// The instruction with this opcode on a target.
    pub(crate) fn get(&self, target: Target, opcode: u32) -> Option<Op> {
        let raw = *self.0[target.generation().column()].get(usize::try_from(opcode).ok()?)?;
        (raw != ABSENT).then_some(Op::from_raw(raw))
    }
}

/// Distance of the 64-bit opcodes of VOP1 instructions.
pub(crate) const VOP1_LONG: u16 = 0x180;
/// Distance of the 64-bit opcodes of VOP2 instructions.
pub(crate) const VOP2_LONG: u16 = 0x100;

pub(crate) static SOP1: Index<256> = Index::build(&[(Table::SOP1, 0)], false);
pub(crate) static SOP2: Index<128> = Index::build(&[(Table::SOP2, 0)], false);
pub(crate) static SOPC: Index<128> = Index::build(&[(Table::SOPC, 0)], false);
pub(crate) static SOPK: Index<32> = Index::build(&[(Table::SOPK, 0)], false);
pub(crate) static SOPP: Index<128> = Index::build(&[(Table::SOPP, 0)], false);
pub(crate) static SMEM: Index<256> = Index::build(&[(Table::SMEM, 0)], false);
pub(crate) static VOP1: Index<256> = Index::build(&[(Table::VOP1, 0)], false);
pub(crate) static VOP2: Index<64> = Index::build(&[(Table::VOP2, 0)], false);
pub(crate) static VOPC: Index<256> = Index::build(&[(Table::VOPC, 0)], false);
pub(crate) static VOP3: Index<1024> = Index::build(
    &[
        (Table::VOP3, 0),
        (Table::VOP3SD, 0),
        (Table::VOPC, 0),
        (Table::VOP2, VOP2_LONG as usize),
        (Table::VOP1, VOP1_LONG as usize),
    ],
    true,
);
pub(crate) static VOP3P: Index<128> = Index::build(&[(Table::VOP3P, 0)], false);
pub(crate) static VOPD: Index<32> = Index::build(&[(Table::VOPD, 0)], false);
pub(crate) static DS: Index<256> = Index::build(&[(Table::DS, 0)], false);
pub(crate) static GLOBAL: Index<256> = Index::build(&[(Table::GLOBAL, 0)], false);
pub(crate) static SCRATCH: Index<256> = Index::build(&[(Table::SCRATCH, 0)], false);
pub(crate) static FLAT: Index<256> = Index::build(&[(Table::FLAT, 0)], false);
pub(crate) static MUBUF: Index<256> = Index::build(&[(Table::MUBUF, 0)], false);

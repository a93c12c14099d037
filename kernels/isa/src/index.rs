//! Decoder indexes: from the opcode of a format and generation to the row, computed from the tables at compile time.
//!
//! Not here: the decoder.

use crate::chip::Target;
use crate::row::{ABSENT, Flags, Format, Op, raw_op};
use crate::table::TABLES;

/// Opcode to raw [`Op`] per generation; [`ABSENT`] where there is none.
pub(crate) struct Index<const N: usize>([[u16; N]; 3]);

impl<const N: usize> Index<N> {
    const fn build(parts: &[(Format, usize)], long: bool) -> Self {
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

/// First of the 64-bit opcodes of VOP1 instructions.
pub(crate) const VOP1_LONG: u16 = 0x180;
/// First of the 64-bit opcodes of VOP2 instructions.
pub(crate) const VOP2_LONG: u16 = 0x100;

pub(crate) static SOP1: Index<256> = Index::build(&[(Format::Sop1, 0)], false);
pub(crate) static SOP2: Index<128> = Index::build(&[(Format::Sop2, 0)], false);
pub(crate) static SOPC: Index<128> = Index::build(&[(Format::Sopc, 0)], false);
pub(crate) static SOPK: Index<32> = Index::build(&[(Format::Sopk, 0)], false);
pub(crate) static SOPP: Index<128> = Index::build(&[(Format::Sopp, 0)], false);
pub(crate) static SMEM: Index<256> = Index::build(&[(Format::Smem, 0)], false);
pub(crate) static VOP1: Index<256> = Index::build(&[(Format::Vop1, 0)], false);
pub(crate) static VOP2: Index<64> = Index::build(&[(Format::Vop2, 0)], false);
pub(crate) static VOPC: Index<256> = Index::build(&[(Format::Vopc, 0)], false);
pub(crate) static VOP3: Index<1024> = Index::build(
    &[
        (Format::Vop3, 0),
        (Format::Vop3sd, 0),
        (Format::Vopc, 0),
        (Format::Vop2, VOP2_LONG as usize),
        (Format::Vop1, VOP1_LONG as usize),
    ],
    true,
);
pub(crate) static VOP3P: Index<128> = Index::build(&[(Format::Vop3p, 0)], false);
pub(crate) static VOPD: Index<32> = Index::build(&[(Format::Vopd, 0)], false);
pub(crate) static DS: Index<256> = Index::build(&[(Format::Ds, 0)], false);
pub(crate) static GLOBAL: Index<256> = Index::build(&[(Format::Global, 0)], false);
pub(crate) static SCRATCH: Index<256> = Index::build(&[(Format::Scratch, 0)], false);
pub(crate) static FLAT: Index<256> = Index::build(&[(Format::Flat, 0)], false);
pub(crate) static MUBUF: Index<256> = Index::build(&[(Format::Mubuf, 0)], false);

//! Codes of four bits, and the tables in which they are looked up.

use super::run::Run;
use doorbell_compiler::ir::{Alu, Builder, Value};

/// `kvalues_iq4nl`, four codes a dword.
pub(crate) const IQ4_NL_VALUES: [u32; 4] = [0xbfad_9881, 0xf6ea_ddcf, 0x2619_0d01, 0x7159_4535];
/// E2M1 values, doubled.
pub(crate) const E2M1_DOUBLED: [u32; 4] = [0x0302_0100, 0x0c08_0604, 0xfdfe_ff00, 0xf4f8_fafc];

/// Low or high nibbles of four bytes.
pub(crate) fn nibbles(k: &mut Builder, quants: Value, half: u8) -> Value {
    k.eval((quants >> (4 * u32::from(half))) & 0x0f0f_0f0f)
}

/// A run of codes that stand for entries of a table of sixteen bytes.
pub(crate) fn from_table(k: &mut Builder, quants: &[Value], half: u8, table: [u32; 4], scale: Value) -> Run {
    let entries = table.map(|entries| k.int(entries));
    let codes = core::array::from_fn(|index| {
        let numbers = nibbles(k, quants[index], half);
        let within = k.eval(numbers & 0x0707_0707);
        let low = k.alu(Alu::perm, &[entries[1], entries[0], within]);
        let high = k.alu(Alu::perm, &[entries[3], entries[2], within]);
        // Bit 3 of a number takes the byte from `high`.
        let bits = k.eval(numbers >> 1);
        let (four, own) = (k.int(0x0404_0404), k.int(0x0302_0100));
        let choice = k.eval(bits & four | own);
        k.alu(Alu::perm, &[high, low, choice])
    });
    Run { codes, scale, minimum: None }
}

//! The ggml tensor types: ids, names and block sizes, as one table.
//!
//! The meaning of a block is in its format's own file; reading it with SIMD is up to the CPU driver.
//! Source: `ggml/src/ggml.c` type traits and `ggml-common.h` (llama.cpp, 2026).

/// A ggml tensor type, by its id in GGUF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[expect(non_camel_case_types, reason = "the field's own names")]
#[expect(missing_docs, reason = "each is named by the table below")]
#[repr(u8)]
pub enum Type {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q4_2 = 4,
    Q4_3 = 5,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q8_1 = 9,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    Q8_K = 15,
    IQ2_XXS = 16,
    IQ2_XS = 17,
    IQ3_XXS = 18,
    IQ1_S = 19,
    IQ4_NL = 20,
    IQ3_S = 21,
    IQ2_S = 22,
    IQ4_XS = 23,
    I8 = 24,
    I16 = 25,
    I32 = 26,
    I64 = 27,
    F64 = 28,
    IQ1_M = 29,
    BF16 = 30,
    Q4_0_4_4 = 31,
    Q4_0_4_8 = 32,
    Q4_0_8_8 = 33,
    TQ1_0 = 34,
    TQ2_0 = 35,
    IQ4_NL_4_4 = 36,
    IQ4_NL_4_8 = 37,
    IQ4_NL_8_8 = 38,
    MXFP4 = 39,
    NVFP4 = 40,
    Q1_0 = 41,
    Q2_0 = 42,
}

/// One row of the table: type, name, elements per block, bytes per block (0 = removed from ggml).
struct Row(Type, &'static str, u16, u16);

#[rustfmt::skip]
const ROWS: [Row; 43] = [
    Row(Type::F32, "F32", 1, 4),
    Row(Type::F16, "F16", 1, 2),
    Row(Type::Q4_0, "Q4_0", 32, 18),
    Row(Type::Q4_1, "Q4_1", 32, 20),
    Row(Type::Q4_2, "Q4_2", 1, 0),
    Row(Type::Q4_3, "Q4_3", 1, 0),
    Row(Type::Q5_0, "Q5_0", 32, 22),
    Row(Type::Q5_1, "Q5_1", 32, 24),
    Row(Type::Q8_0, "Q8_0", 32, 34),
    Row(Type::Q8_1, "Q8_1", 32, 36),
    Row(Type::Q2_K, "Q2_K", 256, 84),
    Row(Type::Q3_K, "Q3_K", 256, 110),
    Row(Type::Q4_K, "Q4_K", 256, 144),
    Row(Type::Q5_K, "Q5_K", 256, 176),
    Row(Type::Q6_K, "Q6_K", 256, 210),
    Row(Type::Q8_K, "Q8_K", 256, 292),
    Row(Type::IQ2_XXS, "IQ2_XXS", 256, 66),
    Row(Type::IQ2_XS, "IQ2_XS", 256, 74),
    Row(Type::IQ3_XXS, "IQ3_XXS", 256, 98),
    Row(Type::IQ1_S, "IQ1_S", 256, 50),
    Row(Type::IQ4_NL, "IQ4_NL", 32, 18),
    Row(Type::IQ3_S, "IQ3_S", 256, 110),
    Row(Type::IQ2_S, "IQ2_S", 256, 82),
    Row(Type::IQ4_XS, "IQ4_XS", 256, 136),
    Row(Type::I8, "I8", 1, 1),
    Row(Type::I16, "I16", 1, 2),
    Row(Type::I32, "I32", 1, 4),
    Row(Type::I64, "I64", 1, 8),
    Row(Type::F64, "F64", 1, 8),
    Row(Type::IQ1_M, "IQ1_M", 256, 56),
    Row(Type::BF16, "BF16", 1, 2),
    Row(Type::Q4_0_4_4, "Q4_0_4_4", 1, 0),
    Row(Type::Q4_0_4_8, "Q4_0_4_8", 1, 0),
    Row(Type::Q4_0_8_8, "Q4_0_8_8", 1, 0),
    Row(Type::TQ1_0, "TQ1_0", 256, 54),
    Row(Type::TQ2_0, "TQ2_0", 256, 66),
    Row(Type::IQ4_NL_4_4, "IQ4_NL_4_4", 1, 0),
    Row(Type::IQ4_NL_4_8, "IQ4_NL_4_8", 1, 0),
    Row(Type::IQ4_NL_8_8, "IQ4_NL_8_8", 1, 0),
    Row(Type::MXFP4, "MXFP4", 32, 17),
    Row(Type::NVFP4, "NVFP4", 64, 36),
    Row(Type::Q1_0, "Q1_0", 128, 18),
    Row(Type::Q2_0, "Q2_0", 64, 18),
];

impl Type {
    /// Every type by ascending id.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.0)
    }

    /// The type with this GGUF id, removed ones included.
    pub fn from_id(id: u32) -> Option<Self> {
        ROWS.get(usize::try_from(id).ok()?).map(|row| row.0)
    }

    /// The id in GGUF files.
    pub const fn id(self) -> u32 {
        self as u32
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name as ggml prints it, e.g. `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Elements in one block.
    pub fn block_len(self) -> usize {
        usize::from(self.row().2)
    }

    /// Bytes of one block; 0 for a type that ggml has removed.
    pub fn block_bytes(self) -> usize {
        usize::from(self.row().3)
    }

    /// True if ggml has removed this type, so that no file may contain it.
    pub fn is_removed(self) -> bool {
        self.block_bytes() == 0
    }

    /// Bytes of a row of `len` elements; `None` if `len` is no multiple of the block or on overflow.
    pub fn row_bytes(self, len: usize) -> Option<usize> {
        len.is_multiple_of(self.block_len()).then_some(())?;
        (len / self.block_len()).checked_mul(self.block_bytes())
    }
}

impl core::fmt::Display for Type {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_indexed_by_id() {
        for (id, ty) in Type::all().enumerate() {
            assert_eq!(ty.id() as usize, id);
            assert_eq!(Type::from_id(ty.id()), Some(ty));
        }
        assert_eq!(Type::from_id(43), None);
    }
}

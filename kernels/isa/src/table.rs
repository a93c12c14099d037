//! The instruction table, one file per format, and the way from an [`Op`] to its row.
//!
//! Not here: the meaning of kinds and flags (`operand_kind.rs`, `row.rs`), encodings (`encode`).

mod ds;
mod flat;
mod global;
mod mubuf;
mod scratch;
mod smem;
mod sop1;
mod sop2;
mod sopc;
mod sopk;
mod sopp;
mod vop1;
mod vop2;
mod vop3;
mod vop3p;
mod vop3sd;
mod vopc;
mod vopd;

use core::fmt;

use crate::chip::Target;
use crate::row::{Op, Row, raw_op};

/// One opcode of a row: a number, or `-` where the generation lacks the instruction.
macro_rules! opcode {
    (-) => {
        crate::row::ABSENT
    };
    ($number:literal) => {
        $number
    };
}

/// The text name of a row: its own, or the one after `as`.
macro_rules! text_name {
    ($name:ident) => {
        stringify!($name)
    };
    ($name:ident $text:ident) => {
        stringify!($text)
    };
}

/// Turns the lines of a table file into an array of rows and a module of [`Op`] constants.
macro_rules! rows {
    ($format:ident;
     $($name:ident $(as $text:ident)? [$a:tt $b:tt $c:tt] $($dst:ident)* = $($src:ident)*, {$($flag:ident)*},
       $timing:ident;)*) => {
        /// Constants of this table's instructions.
        #[expect(non_upper_case_globals, reason = "mnemonics keep their spelling")]
        pub(super) mod names {
            #[expect(non_camel_case_types, reason = "mnemonics keep their spelling")]
            enum Index { $($name),* }
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: crate::Op = crate::Op::new(crate::row::Format::$format, Index::$name as u16);
            )*
        }

        /// The rows, in the order of their constants.
        pub(super) static ROWS: &[crate::row::Row] = &[
            $(crate::row::Row {
                name: super::text_name!($name $($text)?),
                format: crate::row::Format::$format,
                opcodes: [super::opcode!($a), super::opcode!($b), super::opcode!($c)],
                dst: &[$(crate::operand_kind::$dst),*],
                src: &[$(crate::operand_kind::$src),*],
                flags: crate::row::Flags::NONE$(.with(crate::row::Flags::$flag))*,
                timing: crate::row::Timing::$timing,
            },)*
        ];
    };
}

use {opcode, rows, text_name};

/// Every instruction as an [`Op`] constant, spelled like its mnemonic.
///
/// If one mnemonic has different operand widths per generation, the gfx12 row carries the suffix `_gfx12`.
pub mod op {
    pub use super::ds::names::*;
    pub use super::flat::names::*;
    pub use super::global::names::*;
    pub use super::mubuf::names::*;
    pub use super::scratch::names::*;
    pub use super::smem::names::*;
    pub use super::sop1::names::*;
    pub use super::sop2::names::*;
    pub use super::sopc::names::*;
    pub use super::sopk::names::*;
    pub use super::sopp::names::*;
    pub use super::vop1::names::*;
    pub use super::vop2::names::*;
    pub use super::vop3::names::*;
    pub use super::vop3p::names::*;
    pub use super::vop3sd::names::*;
    pub use super::vopc::names::*;
    pub use super::vopd::names::*;
}

/// All tables, indexed by [`Format`](crate::row::Format).
pub(crate) static TABLES: [&[Row]; 18] = [
    sop1::ROWS,
    sop2::ROWS,
    sopc::ROWS,
    sopk::ROWS,
    sopp::ROWS,
    smem::ROWS,
    vop1::ROWS,
    vop2::ROWS,
    vopc::ROWS,
    vop3::ROWS,
    vop3sd::ROWS,
    vop3p::ROWS,
    vopd::ROWS,
    ds::ROWS,
    global::ROWS,
    scratch::ROWS,
    flat::ROWS,
    mubuf::ROWS,
];

impl Op {
    /// The row.
    pub fn row(self) -> &'static Row {
        let (table, row) = self.position();
        &TABLES[table][row]
    }

    /// The mnemonic without encoding suffix.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Every instruction, table by table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLES
            .iter()
            .enumerate()
            .flat_map(|(table, rows)| (0..rows.len()).map(move |row| Self::from_raw(raw_op(table, row))))
    }

    /// The instruction of this mnemonic that exists on `target`.
    pub fn from_name(name: &str, target: Target) -> Option<Self> {
        Self::all().find(|op| op.name() == name && op.row().opcode(target).is_some())
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Op {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=str}", self.name());
    }
}

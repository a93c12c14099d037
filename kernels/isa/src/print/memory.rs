//! Text of scalar-memory operands, offsets, cache bits and swizzle patterns.

use core::fmt::{self, Display as _};

use super::is_gfx12;
use crate::chip::Target;
use crate::inst::{Cache, Inst, Scope};
use crate::operand::Operand;
use crate::operand_kind::Class;
use crate::row::Flags;

/// Operands and cache bits of a scalar-memory instruction: register and constant offset share one place.
pub(super) fn smem(f: &mut fmt::Formatter<'_>, inst: &Inst, target: Target) -> fmt::Result {
    let mut separator = " ";
    for (kind, operand) in inst.kinds().zip(inst.operands.as_slice()) {
        f.write_str(separator)?;
        separator = ", ";
        match (kind.class, operand) {
            (Class::ScalarOffset, Operand::Off) => match inst.memory.offset {
                0 if !is_gfx12(target) => f.write_str("null")?,
                offset => hex(f, offset)?,
            },
            (Class::ScalarOffset, register) => {
                register.fmt(f)?;
                if inst.memory.offset != 0 || is_gfx12(target) {
                    f.write_str(" offset:")?;
                    hex(f, inst.memory.offset)?;
                }
            }
            (Class::Immediate(crate::operand_kind::Immediate::Offset24), Operand::Immediate(offset)) => {
                hex(f, *offset)?
            }
            (_, operand) => operand.fmt(f)?,
        }
    }
    cache(f, inst)
}

fn hex(f: &mut fmt::Formatter<'_>, value: i32) -> fmt::Result {
    let sign = if value < 0 { "-" } else { "" };
    write!(f, "{sign}0x{:x}", value.unsigned_abs())
}

/// Offset and cache bits of the vector-memory formats.
pub(super) fn modifiers(f: &mut fmt::Formatter<'_>, inst: &Inst) -> fmt::Result {
    let memory = &inst.memory;
    f.write_str(if memory.idxen { " idxen" } else { "" })?;
    f.write_str(if memory.offen { " offen" } else { "" })?;
    if inst.row().has(Flags::TWO_OFFSETS) {
        for (name, offset) in [("offset0", memory.offset & 0xff), ("offset1", (memory.offset >> 8) & 0xff)] {
            if offset != 0 {
                write!(f, " {name}:{offset}")?;
            }
        }
    } else if memory.offset != 0 {
        f.write_str(" offset:")?;
        if inst.row().has(Flags::SWIZZLE) {
            swizzle(f, memory.offset.cast_unsigned())?;
        } else {
            memory.offset.fmt(f)?;
        }
    }
    cache(f, inst)
}

fn cache(f: &mut fmt::Formatter<'_>, inst: &Inst) -> fmt::Result {
    match inst.memory.cache {
        Cache::Gfx11 { glc, slc, dlc } => {
            f.write_str(if glc { " glc" } else { "" })?;
            f.write_str(if slc { " slc" } else { "" })?;
            f.write_str(if dlc { " dlc" } else { "" })
        }
        Cache::Gfx12 { scope, hint } => {
            temporal_hint(f, inst, scope, hint)?;
            f.write_str(match scope {
                Scope::Cu => "",
                Scope::Se => " scope:SCOPE_SE",
                Scope::Device => " scope:SCOPE_DEV",
                Scope::System => " scope:SCOPE_SYS",
            })
        }
    }
}

static LOAD_HINTS: [&str; 7] = ["RT", "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT"];
static STORE_HINTS: [&str; 8] = ["RT", "NT", "HT", "RT_WB", "NT_RT", "RT_NT", "NT_HT", "NT_WB"];
static ATOMIC_HINTS: [&str; 4] = ["", "RETURN", "NT", "NT_RETURN"];

fn temporal_hint(f: &mut fmt::Formatter<'_>, inst: &Inst, scope: Scope, hint: u8) -> fmt::Result {
    if hint == 0 {
        return Ok(());
    }
    let system = scope == Scope::System;
    let row = inst.row();
    let index = usize::from(hint);
    if row.has(Flags::ATOMIC) {
        return match ATOMIC_HINTS.get(index) {
            Some(name) => write!(f, " th:TH_ATOMIC_{name}"),
            None if system => {
                write!(f, " th:TH_ATOMIC_CASCADE_{}", if hint & 2 == 0 { "RT" } else { "NT" })
            }
            None => write!(f, " th:TH_ATOMIC_0x{hint:x}"),
        };
    }
    let store = row.has(Flags::STORE);
    let (kind, names) = if store { ("STORE", &STORE_HINTS[..]) } else { ("LOAD", &LOAD_HINTS[..]) };
    match names.get(index) {
        Some(_) if hint == 3 && system => write!(f, " th:TH_{kind}_BYPASS"),
        Some(name) => write!(f, " th:TH_{kind}_{name}"),
        None => write!(f, " th:0x{hint:x}"),
    }
}

/// Swizzle pattern of `ds_swizzle_b32`: bit 15 selects quad permutation, else and/or/xor masks on the lane.
fn swizzle(f: &mut fmt::Formatter<'_>, pattern: u32) -> fmt::Result {
    if pattern & 0xff00 == 0x8000 {
        let lane = |index: u32| (pattern >> (2 * index)) & 3;
        return write!(f, "swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3));
    }
    if pattern & 0x8000 != 0 {
        return pattern.fmt(f);
    }
    let (and, or, xor) = (pattern & 31, (pattern >> 5) & 31, (pattern >> 10) & 31);
    if and == 31 && or == 0 && xor.is_power_of_two() {
        return write!(f, "swizzle(SWAP,{xor})");
    }
    if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        return write!(f, "swizzle(REVERSE,{})", xor + 1);
    }
    // The group size is the and-mask's complement plus one: 2, 4, 8, 16 or 32 lanes.
    let group = 32 - and;
    if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        return write!(f, "swizzle(BROADCAST,{group},{or})");
    }
    f.write_str("swizzle(BITMASK_PERM,\"")?;
    for bit in (0..5).rev() {
        let of = |mask: u32| (mask >> bit) & 1;
        f.write_str(match (of(and), of(or), of(xor)) {
            (0, 0, 0) | (0, 1, 1) | (1, 1, 1) if of(or) == of(xor) => "0",
            (0, ..) | (1, 1, _) => "1",
            (_, 0, 0) => "p",
            _ => "i",
        })?;
    }
    f.write_str("\")")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Op, op};

    #[test]
    fn scalar_memory_offsets_are_hexadecimal() {
        assert!(Op::all().filter(|op| op.row().format == Format::Smem).count() > 10);
        let load = Inst::new(op::s_load_b32, [crate::s(5), crate::s_range(2, 2), Operand::Off]).offset(-16);
        assert_eq!(std::format!("{}", load.text(Target::Gfx1100)), "s_load_b32 s5, s[2:3], -0x10");
    }
}

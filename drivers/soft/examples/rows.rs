//! Prints one encoding of every arithmetic row of the instruction table: chip, name, dwords.
//!
//! Sources are v2, v4, v6 or s2, s4, s6 (wider ones from there), results go to v16 and up or s16 and up, masks to s20,
//! and a mask source is s8. Input of `tests/goldens/soft/table.py`.

use doorbell_isa::operand_kind::{Class, OperandKind};
use doorbell_isa::{Flags, Format, Inst, Op, Operand, Operands, Target, encode, s_range, v_range};

fn operand(op: Op, kind: OperandKind, position: u8, is_dst: bool, long: bool) -> Option<Operand> {
    let row = op.row();
    let count = kind.ty.dwords();
    let scalar = !row.is_vector();
    let first = if is_dst { 16 } else { 2 + 2 * position };
    let wide = if !is_dst && count > 2 { 2 + 8 * position } else { first };
    Some(match kind.class {
        Class::Mask if is_dst && long => s_range(20, 1),
        Class::Mask if long => s_range(8, 1),
        Class::Mask => Operand::VCC_LO,
        Class::Literal => Operand::Literal(0x3fc0_3e00),
        Class::Scalar | Class::Lane | Class::Register => s_range(first, count),
        Class::Data if scalar => s_range(first, count),
        Class::Data | Class::Vgpr | Class::Accumulator => v_range(wide, count),
        Class::Immediate(_) if row.format == Format::Sopk => Operand::Immediate(0x8123),
        _ => return None,
    })
}

fn inst(op: Op, long: bool) -> Option<Inst> {
    let row = op.row();
    let mut list = Operands::EMPTY;
    for kind in row.dst {
        list.push(operand(op, *kind, 0, true, long)?);
    }
    for (position, kind) in (0..).zip(row.src) {
        list.push(operand(op, *kind, position, false, long)?);
    }
    let inst = Inst::with_operands(op, list);
    Some(if long && row.has_two_forms() { inst.long() } else { inst })
}

fn main() {
    for (target, name) in [(Target::Gfx1100, "gfx1100"), (Target::Gfx1200, "gfx1200")] {
        for op in Op::all() {
            let row = op.row();
            let scalar = matches!(row.format, Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk);
            let arithmetic = (row.is_vector() && row.format != Format::Vopd) || scalar;
            let elsewhere = target == Target::Gfx1200 && row.opcode(Target::Gfx1100).is_some();
            if !arithmetic || elsewhere || row.has(Flags::BRANCHES) {
                continue;
            }
            let forms = [true, false].into_iter().filter_map(|long| inst(op, long));
            if let Some(code) = forms.filter_map(|inst| encode(&inst, target).ok()).next() {
                let words: Vec<String> = code.words().iter().map(|word| format!("{word:x}")).collect();
                println!("{name} {} {}", op.name(), words.join(" "));
            }
        }
    }
}

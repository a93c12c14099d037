//! Wrong operands give typed errors that name the instruction, never wrong bits.

use doorbell_isa::{
    Cache, Inst, Op, Operand, Problem, Scope, Target, Vgpr, encode, op, s, s_range, v, v_range,
};

fn problem(inst: Inst, target: Target) -> Problem {
    let error = encode(&inst, target).expect_err("refused");
    assert!(error.to_string().starts_with(inst.op.name()), "{error}");
    error.problem
}

fn is_operand(inst: Inst, index: usize) -> bool {
    matches!(problem(inst, Target::Gfx1100), Problem::Operand { index: found, .. } if found == index)
}

#[test]
fn wrong_classes_and_widths() {
    assert!(is_operand(Inst::new(op::v_add_f32, [s(0), v(1), v(2)]), 0));
    assert!(is_operand(Inst::new(op::v_add_f32, [v(0), v(1), s(2)]), 2));
    assert!(is_operand(Inst::new(op::s_mov_b64, [s_range(1, 2), s_range(2, 2)]), 0));
    assert!(is_operand(Inst::new(op::s_mov_b32, [s(0), v(2)]), 1));
    assert!(is_operand(Inst::new(op::global_load_b128, [v_range(0, 4), v(4), Operand::Off]), 1));
    let tile = [v_range(0, 8), v_range(8, 4), v_range(16, 8), v_range(0, 8)];
    assert!(is_operand(Inst::new(op::v_wmma_f32_16x16x16_f16, tile), 1));
    assert!(is_operand(Inst::new(op::v_mov_b32, [Operand::Vgpr(Vgpr { first: 255, count: 2 }), v(0)]), 0));
    // 16-bit registers of 32-bit encodings end at v127; the 64-bit form reaches all.
    let high = Inst::new(op::v_add_f16, [v(0), v(200), v(1)]);
    assert!(is_operand(high, 1));
    assert!(encode(&high.long(), Target::Gfx1100).is_ok());
}

#[test]
fn constant_bus_and_literals() {
    let three = Inst::new(op::v_fma_f32, [v(0), s(1), s(2), s(3)]);
    assert_eq!(problem(three, Target::Gfx1100), Problem::ConstantBus { used: 3, limit: 2 });
    let two = Inst::new(op::v_fma_f32, [v(0), Operand::Literal(0x1234), Operand::Literal(0x1235), v(1)]);
    assert_eq!(problem(two, Target::Gfx1100), Problem::TwoLiterals);
    let shift = Inst::new(op::v_lshrrev_b64, [v_range(0, 2), s(1), s_range(2, 2)]);
    assert_eq!(problem(shift, Target::Gfx1100), Problem::ConstantBus { used: 2, limit: 1 });
}

#[test]
fn other_generations() {
    let barrier = Inst::new(op::s_barrier, []);
    assert_eq!(problem(barrier, Target::Gfx1200), Problem::Absent(Target::Gfx1200));
    let scalar_float = Inst::new(op::s_add_f32, [s(0), s(1), s(2)]);
    assert_eq!(problem(scalar_float, Target::Gfx1100), Problem::Absent(Target::Gfx1100));
    assert!(encode(&scalar_float, Target::Gfx1151).is_ok());
    let load = Inst::new(op::global_load_b32, [v(0), v_range(2, 2), Operand::Off]);
    let scoped = load.cache(Cache::Gfx12 { scope: Scope::Device, hint: 0 });
    assert_eq!(problem(scoped, Target::Gfx1100), Problem::Cache);
    assert_eq!(problem(load.offset(4096), Target::Gfx1100), Problem::Offset { found: 4096 });
    assert!(encode(&load.offset(4096), Target::Gfx1200).is_ok());
}

#[test]
fn dual_issue_rules() {
    let dual =
        |x: [Operand; 3], y: [Operand; 3]| Inst::dual((op::v_dual_mul_f32, x), (op::v_dual_add_f32, y));
    assert!(encode(&dual([v(0), v(1), v(2)], [v(3), v(4), v(5)]), Target::Gfx1100).is_ok());
    // Same destination parity, same bank of the first source, same bank of the second.
    for (x, y) in [
        ([v(0), v(1), v(2)], [v(2), v(4), v(5)]),
        ([v(0), v(1), v(2)], [v(3), v(5), v(5)]),
        ([v(0), v(1), v(2)], [v(3), v(4), v(6)]),
    ] {
        assert_eq!(problem(dual(x, y), Target::Gfx1100), Problem::Banks);
    }
    let swapped =
        Inst::dual((op::v_dual_and_b32, [v(0), v(1), v(2)]), (op::v_dual_add_f32, [v(3), v(4), v(5)]));
    assert_eq!(problem(swapped, Target::Gfx1100), Problem::Dual);
}

#[test]
fn names_find_the_row_of_the_generation() {
    let gfx11 = Op::from_name("v_wmma_f32_16x16x16_f16", Target::Gfx1100);
    let gfx12 = Op::from_name("v_wmma_f32_16x16x16_f16", Target::Gfx1200);
    assert_eq!(gfx11, Some(op::v_wmma_f32_16x16x16_f16));
    assert_eq!(gfx12, Some(op::v_wmma_f32_16x16x16_f16_gfx12));
    assert_eq!(Op::from_name("s_barrier", Target::Gfx1200), None);
}

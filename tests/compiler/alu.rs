//! Every arithmetic operation, once on values that differ between lanes and once on uniform ones.

use crate::machine::{Arg, Random, TARGETS, clean};
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value, Width};
use doorbell_compiler::{Options, compile};
use half::f16;

/// Cases per operation.
const CASES: usize = 64;

/// `out[i] = op(a[i], b[i], c[i])`; uniform: one case per workgroup.
fn kernel(alu: Alu, uniform: bool) -> Function {
    let mut k = Builder::new(alu.row().name, 32);
    let inputs = [k.buffer("a"), k.buffer("b"), k.buffer("c")];
    let out = k.buffer("out");
    let (two, item, group) = (k.int(2), k.workitem_id(), k.workgroup_id(Axis::X));
    let index = if uniform {
        group
    } else {
        let five = k.int(5);
        let first = k.shl(group, five);
        k.add(first, item)
    };
    let at = k.shl(index, two);
    let values: Vec<Value> = alu
        .row()
        .args
        .iter()
        .zip(inputs)
        .map(|(elem, input)| {
            let address = k.global(input, at);
            let width = Width::Dwords(1);
            if uniform { k.load_uniform(address, width, *elem) } else { k.load(address, width, *elem) }
        })
        .collect();
    let result = k.alu(alu, &values);
    let (zero, one) = (k.int(0), k.int(1));
    let result = if alu.row().result == Elem::Bool { k.select(result, one, zero) } else { result };
    let leader = if uniform { k.eq(item, zero) } else { k.ge_u(item, zero) };
    k.when(leader, |k| k.store(k.global(out, at), Width::Dwords(1), result));
    k.finish()
}

/// A result and how far off it may be, in last ulps of an f32; half results may leave their high half undefined.
enum Expected {
    Exact(u32),
    Near(f64, f64),
    Low(u16),
}

fn halves(bits: u32) -> [f16; 2] {
    [f16::from_bits(bits as u16), f16::from_bits((bits >> 16) as u16)]
}

fn packed(values: [f16; 2]) -> Expected {
    Expected::Exact(u32::from(values[0].to_bits()) | u32::from(values[1].to_bits()) << 16)
}

fn integers(name: &str, [a, b, c]: [u32; 3]) -> Option<u32> {
    let (x, y, z) = (a.cast_signed(), b.cast_signed(), c.cast_signed());
    let low24 = |value: u32| value & 0xff_ffff;
    let field = |from: u32| (from >> (b & 31)) & ((1 << (c & 31)) - 1);
    Some(match name {
        "add" => a.wrapping_add(b),
        "sub" => a.wrapping_sub(b),
        "mul" => a.wrapping_mul(b),
        // The scalar form multiplies all bits: inputs are kept small.
        "mul24" => low24(a).wrapping_mul(low24(b)),
        "mad24" => low24(a).wrapping_mul(low24(b)).wrapping_add(c),
        "and" => a & b,
        "or" => a | b,
        "xor" => a ^ b,
        "and_or" => (a & b) | c,
        "shl" => a << (b & 31),
        "shr" => a >> (b & 31),
        "sar" => (x >> (b & 31)).cast_unsigned(),
        "shl_add" => (a << (b & 31)).wrapping_add(c),
        "shl_or" => (a << (b & 31)) | c,
        "bfe" => field(a),
        "bfe_i" => {
            // Beyond bit 31 lies the sign.
            let (moved, width) = ((x >> (b & 31)).cast_unsigned(), c & 31);
            let high = (moved << ((32 - width) % 32)).cast_signed();
            if width == 0 { 0 } else { (high >> (32 - width)).cast_unsigned() }
        }
        "bfi" => (a & b) | (!a & c),
        "alignbit" => ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32,
        "add3" => a.wrapping_add(b).wrapping_add(c),
        "perm" => {
            let bytes = u64::from(a) << 32 | u64::from(b);
            let byte = |select: u8| match select {
                0..=7 => (bytes >> (8 * u32::from(select))) as u8,
                8..=11 => {
                    let sign = bytes >> (16 * u32::from(select - 8) + 15) & 1;
                    if sign == 1 { 0xff } else { 0 }
                }
                12 => 0,
                _ => 0xff,
            };
            u32::from_le_bytes(c.to_le_bytes().map(byte))
        }
        "min_u" => a.min(b),
        "max_u" => a.max(b),
        "min_i" => x.min(y).cast_unsigned(),
        "max_i" => x.max(y).cast_unsigned(),
        "med3_i" => x.max(y).min(x.min(y).max(z)).cast_unsigned(),
        "not" => !a,
        "mul_hi" => ((u64::from(a) * u64::from(b)) >> 32) as u32,
        "lt_u" => u32::from(a < b),
        "le_u" => u32::from(a <= b),
        "gt_u" => u32::from(a > b),
        "ge_u" => u32::from(a >= b),
        "lt_i" => u32::from(x < y),
        "le_i" => u32::from(x <= y),
        "gt_i" => u32::from(x > y),
        "ge_i" => u32::from(x >= y),
        "eq" => u32::from(a == b),
        "ne" => u32::from(a != b),
        _ => return None,
    })
}

fn floats(name: &str, bits: [u32; 3]) -> Option<Expected> {
    let [a, b, c] = bits.map(f32::from_bits);
    let wide = f64::from(a);
    let exact = |value: f32| Expected::Exact(value.to_bits());
    let truth = |value: bool| Expected::Exact(value.into());
    Some(match name {
        "fadd" => exact(a + b),
        "fsub" => exact(a - b),
        "fmul" => exact(a * b),
        "fma" => exact(a.mul_add(b, c)),
        "fmax" => exact(a.max(b)),
        "fmin" => exact(a.min(b)),
        "med3" => exact(a.max(b).min(a.min(b).max(c))),
        "rint" => exact(a.round_ties_even()),
        "floor" => exact(a.floor()),
        "trunc" => exact(a.trunc()),
        "ldexp" => exact(a * 2f32.powi(bits[1].cast_signed())),
        "exp2" => Expected::Near(wide.exp2(), 1.0),
        "log2" => Expected::Near(wide.log2(), 2.0),
        "rcp" => Expected::Near(1.0 / wide, 1.0),
        "rsq" => Expected::Near(1.0 / wide.sqrt(), 1.0),
        "sqrt" => Expected::Near(wide.sqrt(), 1.0),
        "sin" => Expected::Near((wide * core::f64::consts::TAU).sin(), 1e4),
        "cos" => Expected::Near((wide * core::f64::consts::TAU).cos(), 1e4),
        "cvt_u_f" => Expected::Exact(a as u32),
        "cvt_i_f" => Expected::Exact((a as i32).cast_unsigned()),
        "cvt_f_u" => exact(bits[0] as f32),
        "cvt_f_i" => exact(bits[0].cast_signed() as f32),
        "cvt_f_u8_0" => exact(f32::from(bits[0] as u8)),
        "cvt_f_u8_1" => exact(f32::from((bits[0] >> 8) as u8)),
        "cvt_f_u8_2" => exact(f32::from((bits[0] >> 16) as u8)),
        "cvt_f_u8_3" => exact(f32::from((bits[0] >> 24) as u8)),
        "flt" => truth(a < b),
        "fle" => truth(a <= b),
        "fgt" => truth(a > b),
        "fge" => truth(a >= b),
        "feq" => truth(a == b),
        "fne" => truth(a != b),
        _ => return None,
    })
}

/// Toward zero.
fn truncated(value: f32) -> f16 {
    let near = f16::from_f32(value);
    if near.to_f32().abs() > value.abs() { f16::from_bits(near.to_bits() - 1) } else { near }
}

fn pairs(name: &str, bits: [u32; 3]) -> Option<Expected> {
    let [x, y, z] = bits.map(halves);
    let [a, b] = [bits[0], bits[1]].map(f32::from_bits);
    let each = |f: &dyn Fn(f64, f64, f64) -> f64| {
        packed([0, 1].map(|at| f16::from_f64(f(x[at].to_f64(), y[at].to_f64(), z[at].to_f64()))))
    };
    Some(match name {
        "cvt_h_f" => Expected::Low(f16::from_f32(a).to_bits()),
        "cvt_f_h" => Expected::Exact(x[0].to_f32().to_bits()),
        "cvt_pk_h" => packed([truncated(a), truncated(b)]),
        "pack_h" => packed([x[0], y[0]]),
        "pk_fma" => each(&|a, b, c| a.mul_add(b, c)),
        "pk_mul" => each(&|a, b, _| a * b),
        "pk_add" => each(&|a, b, _| a + b),
        "dot2" => {
            let products: f64 = x.iter().zip(y).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
            Expected::Near(products + f64::from(f32::from_bits(bits[2])), 2.0)
        }
        _ => return None,
    })
}

fn expected(name: &str, bits: [u32; 3]) -> Expected {
    let whole = integers(name, bits).map(Expected::Exact);
    whole.or_else(|| floats(name, bits)).or_else(|| pairs(name, bits)).unwrap_or_else(|| panic!("{name}"))
}

/// Inputs of an operation's element type.
fn input(alu: Alu, elem: Elem, random: &mut Random) -> u32 {
    let float = |random: &mut Random| f32::from(random.next()) / 1024.0 + 0.25;
    let signed = if random.next().is_multiple_of(2) { 1.0 } else { -1.0 };
    match (alu.row().name, elem) {
        // Domains: positive; small exponents; products below 2^32.
        ("log2" | "rsq" | "sqrt" | "sin" | "cos", _) => float(random).to_bits(),
        ("exp2", _) => (signed * float(random)).to_bits(),
        ("ldexp", Elem::Int) => u32::from(random.next() % 40).wrapping_sub(20),
        ("mul24", _) => random.next().into(),
        ("perm", _) => {
            let bytes = [(); 4].map(|()| (random.next() % 14) as u8);
            u32::from_le_bytes(bytes)
        }
        (_, Elem::Float) => (signed * float(random)).to_bits(),
        (_, Elem::HalfPair) => {
            let [low, high] = [(); 2].map(|()| f16::from_f32(float(random) - 20.0).to_bits());
            u32::from(low) | u32::from(high) << 16
        }
        // Equal and small values as well.
        (_, _) if random.next().is_multiple_of(4) => u32::from(random.next() % 4).wrapping_sub(2),
        _ => u32::from(random.next()) << 16 | u32::from(random.next()),
    }
}

fn agrees(found: u32, expected: &Expected) -> bool {
    match expected {
        Expected::Exact(bits) => found == *bits,
        Expected::Low(bits) => found as u16 == *bits,
        Expected::Near(value, ulps) => {
            let found = f64::from(f32::from_bits(found));
            let ulp = f64::from(f32::EPSILON) * value.abs().max(1e-3);
            (found - value).abs() <= ulps * ulp
        }
    }
}

#[test]
fn every_operation_computes_what_its_name_says() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for alu in Alu::all() {
        let name = alu.row().name;
        let mut random = Random(40);
        let mut cases = vec![[0u32; 3]; CASES];
        for case in &mut cases {
            for (slot, elem) in case.iter_mut().zip(alu.row().args) {
                *slot = input(alu, *elem, &mut random);
            }
        }
        let column = |index: usize| Arg::Buffer(cases.iter().flat_map(|c| c[index].to_le_bytes()).collect());
        for target in TARGETS {
            for uniform in [false, true] {
                let kernel = compile(&kernel(alu, uniform), target, &Options::default()).expect(name);
                let groups = if uniform { CASES as u32 } else { CASES as u32 / 32 };
                let args = [column(0), column(1), column(2), Arg::Fresh(4 * CASES)];
                let outcome = clean(&kernel, [groups, 1], &args);
                for (case, found) in cases.iter().zip(outcome.words(3)) {
                    checked += 1;
                    if !agrees(found, &expected(name, *case)) {
                        wrong.push(format!("{name} {target} uniform {uniform}: {case:x?} gave {found:#x}"));
                        break;
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    println!("{checked} results");
}

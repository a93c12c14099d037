//! The Q4_K dequantise kernel, executed lane by lane against the format's definition.
//!
//! A tiny interpreter for kernels without lane exchange and branches; the software GPU executes the rest elsewhere.

use doorbell_compiler::object::{ArgumentValue, pack_arguments};
use doorbell_compiler::sample::SAMPLES;
use doorbell_compiler::{Kernel, Options, compile};
use doorbell_isa::{Generation, Inst, Op, Operand, Operands, Target, decode};

const KERNARG: usize = 0x100;
const BLOCKS: usize = 0x1000;
const OUT: usize = 0x2000;

/// f16 bits of a normal number to f32.
fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, (bits >> 10) & 31, bits & 1023);
    let value = (1.0 + f32::from(fraction) / 1024.0) * 2f32.powi(i32::from(exponent) - 15);
    if sign == 1 { -value } else { value }
}

/// One lane of a wave.
struct Lane<'a> {
    v: [u32; 256],
    s: [u32; 128],
    memory: &'a mut Vec<u8>,
}

impl Lane<'_> {
    fn read(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Vgpr(reg) => self.v[usize::from(reg.first)],
            Operand::Scalar(reg) => self.s[usize::from(reg.first)],
            Operand::Int(value) => i32::from(value).cast_unsigned(),
            Operand::Float(float) => float.f32_bits(),
            Operand::Literal(value) => value,
            other => panic!("operand {other}"),
        }
    }

    fn write(&mut self, operand: Operand, value: u32) {
        match operand {
            Operand::Vgpr(reg) => self.v[usize::from(reg.first)] = value,
            Operand::Scalar(reg) => self.s[usize::from(reg.first)] = value,
            other => panic!("destination {other}"),
        }
    }

    fn load(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.memory[at..at + 4].try_into().unwrap())
    }

    /// Result of an instruction of the vector or scalar ALU.
    fn compute(&self, op: Op, src: &[Operand]) -> u32 {
        let a = src.first().map_or(0, |operand| self.read(*operand));
        let b = src.get(1).map_or(0, |operand| self.read(*operand));
        let c = src.get(2).map_or(0, |operand| self.read(*operand));
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        match op.name().replace("v_dual_", "v_").as_str() {
            "v_and_b32" => a & b,
            "v_or_b32" => a | b,
            "v_lshlrev_b32" => b << (a & 31),
            "v_lshrrev_b32" => b >> (a & 31),
            "s_lshl_b32" => a << (b & 31),
            "v_add_nc_u32" => a.wrapping_add(b),
            "s_mul_i32" => a.wrapping_mul(b),
            "v_bfe_u32" => (a >> (b & 31)) & ((1 << (c & 31)) - 1),
            "v_mul_f32" => (x * y).to_bits(),
            "v_sub_f32" => (x - y).to_bits(),
            "v_cvt_f32_u32" => (a as f32).to_bits(),
            "v_cvt_f32_f16" => half(a as u16).to_bits(),
            "v_cvt_f32_ubyte0" => f32::from(a as u8).to_bits(),
            "v_cvt_f32_ubyte1" => f32::from((a >> 8) as u8).to_bits(),
            "v_cvt_f32_ubyte2" => f32::from((a >> 16) as u8).to_bits(),
            "v_cvt_f32_ubyte3" => f32::from((a >> 24) as u8).to_bits(),
            "v_cmp_lt_u32" => u32::from(a < b),
            "v_cndmask_b32" => {
                if c & 1 == 1 {
                    b
                } else {
                    a
                }
            }
            "v_mov_b32" | "s_mov_b32" => a,
            other => panic!("{other} is not interpreted"),
        }
    }

    fn address(&self, inst: &Inst, vector: Operand, base: Operand) -> usize {
        let base = self.read(base) as usize;
        base.wrapping_add(self.read(vector) as usize).wrapping_add_signed(inst.memory.offset as isize)
    }

    fn execute(&mut self, inst: &Inst) {
        let name = inst.row().name;
        let operands = inst.operands.as_slice();
        let dwords = |operand: Operand| match operand {
            Operand::Vgpr(reg) => (usize::from(reg.first), usize::from(reg.count)),
            Operand::Scalar(reg) => (usize::from(reg.first), usize::from(reg.count)),
            other => panic!("{other}"),
        };
        if name.starts_with("s_wait") || matches!(name, "s_delay_alu" | "s_clause" | "s_nop" | "s_endpgm") {
        } else if name.starts_with("s_load") {
            let (first, count) = dwords(operands[0]);
            let at = (self.read(operands[1]) as usize).wrapping_add_signed(inst.memory.offset as isize);
            for index in 0..count {
                self.s[first + index] = self.load(at + 4 * index);
            }
        } else if name.starts_with("global_load") {
            let (first, count) = dwords(operands[0]);
            let at = self.address(inst, operands[1], operands[2]);
            for index in 0..count {
                self.v[first + index] = self.load(at + 4 * index);
            }
        } else if name.starts_with("global_store") {
            let (first, count) = dwords(operands[1]);
            let at = self.address(inst, operands[0], operands[2]);
            for index in 0..count {
                let bytes = self.v[first + index].to_le_bytes();
                self.memory[at + 4 * index..at + 4 * index + 4].copy_from_slice(&bytes);
            }
        } else {
            let result = self.compute(inst.op, inst.src());
            let second: Option<(Operands, u32)> =
                inst.second.map(|(op, operands)| (operands, self.compute(op, &operands.as_slice()[1..])));
            self.write(operands[0], result);
            if let Some((operands, result)) = second {
                self.write(operands.as_slice()[0], result);
            }
        }
    }
}

fn run(kernel: &Kernel, group: u32, memory: &mut Vec<u8>) {
    for item in 0..kernel.resources.workgroup {
        let mut lane = Lane { v: [0xdead_beef; 256], s: [0xdead_beef; 128], memory };
        lane.v[0] = item;
        (lane.s[0], lane.s[1]) = (KERNARG as u32, 0);
        let gfx12 = kernel.target.generation() == Generation::Gfx12;
        lane.s[if gfx12 { 117 } else { usize::from(kernel.resources.entry.user_sgprs) }] = group;
        let mut at = 0;
        while at < kernel.words.len() {
            let (inst, length) = decode(&kernel.words[at..], kernel.target).unwrap();
            lane.execute(&inst);
            at += length;
        }
    }
}

/// Scale and minimum of a sub-block, by the definition of the format.
fn scales(bytes: &[u8], sub: usize) -> (u8, u8) {
    if sub < 4 {
        (bytes[sub] & 63, bytes[sub + 4] & 63)
    } else {
        let (low, high) = (bytes[sub + 4] & 15, bytes[sub + 4] >> 4);
        (low | ((bytes[sub - 4] >> 6) << 4), high | ((bytes[sub] >> 6) << 4))
    }
}

fn reference(block: &[u8]) -> Vec<f32> {
    let number = |at: usize| half(u16::from_le_bytes([block[at], block[at + 1]]));
    let (d, dmin) = (number(0), number(2));
    let mut values = Vec::new();
    for sub in 0..8 {
        let (scale, minimum) = scales(&block[4..16], sub);
        let (scale, minimum) = (f32::from(scale) * d, f32::from(minimum) * dmin);
        for index in 0..32 {
            let byte = block[16 + 32 * (sub / 2) + index];
            let nibble = if sub % 2 == 0 { byte & 15 } else { byte >> 4 };
            values.push(f32::from(nibble) * scale - minimum);
        }
    }
    values
}

#[test]
fn dequantised_weights_are_the_formats() {
    let sample = SAMPLES.iter().find(|sample| sample.name == "q4k_dequantise").unwrap();
    for target in [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200] {
        let kernel = compile(&(sample.build)(target), target, &Options::default()).unwrap();
        let mut memory = vec![0u8; 0x4000];
        let mut state = 12345u32;
        for byte in &mut memory[BLOCKS..BLOCKS + 3 * 144] {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        for block in 0..3 {
            // Normal halves: 0.0123 and 0.37.
            memory[BLOCKS + 144 * block..][..4].copy_from_slice(&[0x4c, 0x22, 0xeb, 0x35]);
        }
        let values = [ArgumentValue::Buffer(BLOCKS as u64), ArgumentValue::Buffer(OUT as u64)];
        let arguments = pack_arguments(&kernel.function, &values).unwrap();
        memory[KERNARG..KERNARG + arguments.len()].copy_from_slice(&arguments);
        for group in 0..3usize {
            run(&kernel, group as u32, &mut memory);
            let block = memory[BLOCKS + 144 * group..][..144].to_vec();
            let out = &memory[OUT + 1024 * group..][..1024];
            let found: Vec<f32> =
                out.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
            assert_eq!(found, reference(&block), "{target} block {group}");
        }
    }
}

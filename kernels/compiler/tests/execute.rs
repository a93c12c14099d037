//! The Q4_K kernels, executed by one wave against the format's definition.
//!
//! A tiny interpreter for what these two kernels use; the software GPU executes all others elsewhere.

use doorbell_compiler::object::{ArgumentValue, pack_arguments};
use doorbell_compiler::sample::SAMPLES;
use doorbell_compiler::{Kernel, Options, compile};
use doorbell_isa::{Dpp16, DppControl, Generation, Inst, Lanes, Op, Operand, Operands, Target, decode};

const KERNARG: usize = 0x100;
const BLOCKS: usize = 0x1000;
const OUT: usize = 0x4000;

/// f16 bits of a normal number to f32.
fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, (bits >> 10) & 31, bits & 1023);
    let value = (1.0 + f32::from(fraction) / 1024.0) * 2f32.powi(i32::from(exponent) - 15);
    if sign == 1 { -value } else { value }
}

/// One wave.
struct Wave<'a> {
    v: Vec<[u32; 256]>,
    s: [u32; 128],
    scc: bool,
    memory: &'a mut Vec<u8>,
}

/// Number of EXEC.
const EXEC: usize = 126;

/// First register and count.
fn span(operand: Operand) -> (usize, usize) {
    match operand {
        Operand::Vgpr(reg) => (usize::from(reg.first), usize::from(reg.count)),
        Operand::Scalar(reg) => (usize::from(reg.first), usize::from(reg.count)),
        other => panic!("{other}"),
    }
}

/// Result of an instruction on 32-bit operands; `signed` marks dot-product operands.
fn compute(op: Op, [a, b, c]: [u32; 3], old: u32, signed: u8) -> u32 {
    let [x, y, z] = [a, b, c].map(f32::from_bits);
    match op.name().replace("v_dual_", "v_").as_str() {
        "v_and_b32" => a & b,
        "v_or_b32" => a | b,
        "v_lshlrev_b32" => b << (a & 31),
        "v_lshrrev_b32" => b >> (a & 31),
        "s_lshl_b32" => a << (b & 31),
        "v_add_nc_u32" | "s_add_u32" | "s_add_co_u32" => a.wrapping_add(b),
        "s_mul_i32" | "v_mul_lo_u32" => a.wrapping_mul(b),
        "v_mul_u32_u24" => (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff),
        "v_bfe_u32" => (a >> (b & 31)) & ((1 << (c & 31)) - 1),
        "v_add_f32" => (x + y).to_bits(),
        "v_mul_f32" => (x * y).to_bits(),
        "v_sub_f32" => (x - y).to_bits(),
        "v_fma_f32" => x.mul_add(y, z).to_bits(),
        "v_fmac_f32" => x.mul_add(y, f32::from_bits(old)).to_bits(),
        "v_cvt_f32_u32" => (a as f32).to_bits(),
        "v_cvt_f32_i32" => (a.cast_signed() as f32).to_bits(),
        "v_cvt_f32_f16" => half(a as u16).to_bits(),
        "v_cvt_f32_ubyte0" => f32::from(a as u8).to_bits(),
        "v_cvt_f32_ubyte1" => f32::from((a >> 8) as u8).to_bits(),
        "v_cvt_f32_ubyte2" => f32::from((a >> 16) as u8).to_bits(),
        "v_cvt_f32_ubyte3" => f32::from((a >> 24) as u8).to_bits(),
        "v_cmp_lt_u32" | "s_cmp_lt_u32" => u32::from(a < b),
        "v_cmp_eq_u32" => u32::from(a == b),
        "v_cndmask_b32" => {
            if c & 1 == 1 {
                b
            } else {
                a
            }
        }
        "v_mov_b32" | "s_mov_b32" | "v_permlanex16_b32" => a,
        "v_dot4_i32_iu8" => dot4(a, b, c, signed),
        other => panic!("{other} is not interpreted"),
    }
}

fn dot4(a: u32, b: u32, c: u32, signed: u8) -> u32 {
    let byte =
        |value: u8, signed: bool| if signed { i32::from(value.cast_signed()) } else { i32::from(value) };
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    let sum: i32 = products.map(|(a, b)| byte(a, signed & 1 != 0) * byte(b, signed & 2 != 0)).sum();
    c.wrapping_add(sum.cast_unsigned())
}

impl Wave<'_> {
    fn read(&self, operand: Operand, lane: usize) -> u32 {
        match operand {
            Operand::Vgpr(reg) => self.v[lane][usize::from(reg.first)],
            Operand::Scalar(reg) => self.s[usize::from(reg.first)],
            Operand::Int(value) => i32::from(value).cast_unsigned(),
            Operand::Float(float) => float.f32_bits(),
            Operand::Literal(value) => value,
            Operand::Immediate(_) | Operand::Off => 0,
            other => panic!("operand {other}"),
        }
    }

    fn dword(&self, at: usize) -> u32 {
        let bytes = &self.memory[at..at + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn active(&self) -> Vec<usize> {
        (0..32).filter(|lane| self.s[EXEC] >> lane & 1 == 1).collect()
    }

    /// One half of a vector instruction in all active lanes: destination and results.
    fn vector(&self, inst: &Inst, op: Op, operands: &Operands) -> (Operand, Vec<(usize, u32)>) {
        let operands = operands.as_slice();
        let mask = op.name() == "v_cndmask_b32";
        let mut results = Vec::new();
        for lane in self.active() {
            let from = match (inst.lanes, op.name()) {
                (Lanes::Dpp16(Dpp16 { control: DppControl::RowXmask(mask), .. }), _) => {
                    lane ^ usize::from(mask)
                }
                (_, "v_permlanex16_b32") => lane ^ 16,
                _ => lane,
            };
            let mut sources = [0; 3];
            for (index, operand) in operands.iter().skip(1).take(3).enumerate() {
                let value = self.read(*operand, if index == 0 { from } else { lane });
                sources[index] = if mask && index == 2 { value >> lane } else { value };
            }
            let old = self.read(operands[0], lane);
            results.push((lane, compute(op, sources, old, inst.modifiers.neg)));
        }
        (operands[0], results)
    }

    fn commit(&mut self, (to, results): (Operand, Vec<(usize, u32)>)) {
        let (first, _) = span(to);
        if let Operand::Scalar(_) = to {
            self.s[first] = results.iter().fold(0, |mask, (lane, bit)| mask | (bit << lane));
        } else {
            for (lane, value) in results {
                self.v[lane][first] = value;
            }
        }
    }

    fn global(&mut self, inst: &Inst) {
        let operands = inst.operands.as_slice();
        let store = inst.row().name.contains("store");
        let (data, address) = if store { (operands[1], operands[0]) } else { (operands[0], operands[1]) };
        let (first, count) = span(data);
        for lane in self.active() {
            let base = self.read(operands[2], lane) as usize + self.read(address, lane) as usize;
            let at = base.wrapping_add_signed(inst.memory.offset as isize);
            for index in 0..count {
                let place = at + 4 * index;
                if store {
                    let bytes = self.v[lane][first + index].to_le_bytes();
                    self.memory[place..place + 4].copy_from_slice(&bytes);
                } else {
                    self.v[lane][first + index] = self.dword(place);
                }
            }
        }
    }

    /// Executes an instruction; the result says whether a branch is taken.
    fn execute(&mut self, inst: &Inst) -> bool {
        let name = inst.row().name;
        let operands = inst.operands.as_slice();
        let hint =
            name.starts_with("s_wait") || matches!(name, "s_delay_alu" | "s_clause" | "s_nop" | "s_endpgm");
        match name {
            _ if hint => {}
            "s_cbranch_scc1" => return self.scc,
            "s_cbranch_execz" => return self.s[EXEC] == 0,
            "s_and_saveexec_b32" => {
                let old = self.s[EXEC];
                self.s[EXEC] &= self.read(operands[1], 0);
                self.s[span(operands[0]).0] = old;
            }
            "s_cmp_lt_u32" => self.scc = self.read(operands[0], 0) < self.read(operands[1], 0),
            _ if name.starts_with("s_load") => {
                let (first, count) = span(operands[0]);
                let base = self.read(operands[1], 0) as usize + self.read(operands[2], 0) as usize;
                let at = base.wrapping_add_signed(inst.memory.offset as isize);
                for index in 0..count {
                    self.s[first + index] = self.dword(at + 4 * index);
                }
            }
            _ if name.starts_with("global_") => self.global(inst),
            _ if name.starts_with("s_") => {
                let mut sources = [0; 3];
                for (slot, operand) in sources.iter_mut().zip(inst.src()) {
                    *slot = self.read(*operand, 0);
                }
                self.s[span(operands[0]).0] = compute(inst.op, sources, 0, 0);
            }
            _ => {
                // Both halves of a dual-issue instruction read before either writes.
                let first = self.vector(inst, inst.op, &inst.operands);
                let second = inst.second.map(|(op, operands)| self.vector(inst, op, &operands));
                self.commit(first);
                if let Some(second) = second {
                    self.commit(second);
                }
            }
        }
        false
    }
}

fn run(kernel: &Kernel, group: u32, memory: &mut Vec<u8>) {
    let mut wave = Wave { v: vec![[0xdead_beef; 256]; 32], s: [0xdead_beef; 128], scc: false, memory };
    for (item, lane) in (0..).zip(&mut wave.v) {
        lane[0] = item;
    }
    (wave.s[0], wave.s[1], wave.s[EXEC]) = (KERNARG as u32, 0, u32::MAX);
    let gfx12 = kernel.target.generation() == Generation::Gfx12;
    wave.s[if gfx12 { 117 } else { usize::from(kernel.resources.entry.user_sgprs) }] = group;
    let mut at = 0;
    while at < kernel.words.len() {
        let (inst, length) = decode(&kernel.words[at..], kernel.target).expect("checked code");
        at += length;
        if wave.execute(&inst)
            && let [Operand::Immediate(distance)] = inst.operands.as_slice()
        {
            at = at.wrapping_add_signed(*distance as isize);
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
        let mut memory = vec![0u8; 0x8000];
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

#[test]
fn matrix_rows_times_activations() {
    const ACTIVATIONS: usize = 0x8000;
    let sample = SAMPLES.iter().find(|sample| sample.name == "q4k_q8_gemv").unwrap();
    for target in [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200] {
        let kernel = compile(&(sample.build)(target), target, &Options::default()).unwrap();
        let (rows, blocks) = (2usize, 8usize);
        let mut memory = vec![0u8; 0x10000];
        let mut state = 99u32;
        for byte in &mut memory[BLOCKS..] {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        for block in 0..rows * blocks {
            memory[BLOCKS + 144 * block..][..4].copy_from_slice(&[0x4c, 0x22, 0xeb, 0x35]);
        }
        for block in 0..8 * blocks {
            memory[ACTIVATIONS + 36 * block..][..2].copy_from_slice(&[0x66, 0x2e]);
        }
        let values = [
            ArgumentValue::Buffer(BLOCKS as u64),
            ArgumentValue::Buffer(ACTIVATIONS as u64),
            ArgumentValue::Buffer(OUT as u64),
            ArgumentValue::Scalar(blocks as u32),
        ];
        let arguments = pack_arguments(&kernel.function, &values).unwrap();
        memory[KERNARG..KERNARG + arguments.len()].copy_from_slice(&arguments);
        for row in 0..rows {
            let mut expected = 0f64;
            let mut magnitude = 0f64;
            for block in 0..blocks {
                let weights = reference(&memory[BLOCKS + 144 * (row * blocks + block)..][..144]);
                for (index, weight) in weights.iter().enumerate() {
                    let at = ACTIVATIONS + 36 * (8 * block + index / 32);
                    let scale = half(u16::from_le_bytes([memory[at], memory[at + 1]]));
                    let x = f64::from(memory[at + 4 + index % 32].cast_signed()) * f64::from(scale);
                    expected += f64::from(*weight) * x;
                    magnitude += (f64::from(*weight) * x).abs();
                }
            }
            run(&kernel, row as u32, &mut memory);
            let found = &memory[OUT + 4 * row..][..4];
            let found = f64::from(f32::from_le_bytes([found[0], found[1], found[2], found[3]]));
            assert!((found - expected).abs() < 1e-5 * magnitude, "{target} row {row}: {found}, {expected}");
        }
    }
}

//! Random instructions of one row: operands of every class the row takes, modifiers, lane moves, offsets.
//!
//! The result may not exist on a chip; then the encoder refuses it and the caller tries again.

use doorbell_isa::operand_kind::{Class, Immediate, OperandKind, Type};
use doorbell_isa::{
    Cache, Dpp16, DppControl, Flags, Form, Format, Generation, InlineFloat, Inst, Lanes, Op, Operand,
    Operands, OutputModifier, Scalar, Scope, Special, Target, encode, s_range, v_range,
};

/// SplitMix64: a counter-based generator whose results do not depend on the machine.
pub(super) struct Random(u64);

impl Random {
    /// A generator for a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        (self.bits() % u64::from(limit)) as u32
    }

    fn byte(&mut self, limit: u32) -> u8 {
        self.below(limit) as u8
    }

    /// True `percent` times in a hundred.
    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u32) as usize]
    }
}

/// A random instruction of a row that the encoder accepts for the target; `None` after too many refusals.
pub(super) fn instruction(op: Op, target: Target, random: &mut Random) -> Option<Inst> {
    (0..2000).map(|_| attempt(op, target, random)).find(|inst| encode(inst, target).is_ok())
}

fn attempt(op: Op, target: Target, random: &mut Random) -> Inst {
    let row = op.row();
    let mut inst = Inst::with_operands(op, Operands::EMPTY);
    if row.has_two_forms() && random.chance(60) {
        inst.form = Form::Long;
    }
    if row.has(Flags::DPP) && random.chance(30) {
        inst.lanes = lanes(random);
    }
    modifiers(&mut inst, random);
    memory(&mut inst, target, random);
    let literal = random.bits() as u32;
    let base_off = random.chance(50);
    for (index, kind) in inst.kinds().enumerate() {
        let source = index >= if inst.has_dst() { row.dst.len() } else { 0 };
        let mut context = Slot { inst: &inst, literal, base_off, source, random };
        let operand = context.operand(kind);
        inst.operands.push(operand);
    }
    if row.format == Format::Vopd {
        inst.second = Some(second_half(literal, target, random));
    }
    inst
}

fn second_half(literal: u32, target: Target, random: &mut Random) -> (Op, Operands) {
    let halves: Vec<Op> =
        Op::all().filter(|op| op.row().format == Format::Vopd && op.row().opcode(target).is_some()).collect();
    let op = random.pick(&halves);
    let mut inst = Inst::with_operands(op, Operands::EMPTY);
    for (index, kind) in inst.kinds().enumerate() {
        let mut context = Slot { inst: &inst, literal, base_off: false, source: index > 0, random };
        let operand = context.operand(kind);
        inst.operands.push(operand);
    }
    (op, inst.operands)
}

fn lanes(random: &mut Random) -> Lanes {
    if random.chance(50) {
        let select = core::array::from_fn(|_| random.byte(8));
        return Lanes::Dpp8 { select, fetch_inactive: random.chance(50) };
    }
    let control = match random.below(8) {
        0 => DppControl::QuadPerm(core::array::from_fn(|_| random.byte(4))),
        1 => DppControl::RowShl(1 + random.byte(15)),
        2 => DppControl::RowShr(1 + random.byte(15)),
        3 => DppControl::RowRor(1 + random.byte(15)),
        4 => DppControl::RowMirror,
        5 => DppControl::RowHalfMirror,
        6 => DppControl::RowShare(random.byte(16)),
        _ => DppControl::RowXmask(random.byte(16)),
    };
    Lanes::Dpp16(Dpp16 {
        control,
        row_mask: random.byte(16),
        bank_mask: random.byte(16),
        bound_ctrl: random.chance(50),
        fetch_inactive: random.chance(50),
    })
}

/// Modifiers that the row may take; the encoder refuses what the form does not.
fn modifiers(inst: &mut Inst, random: &mut Random) {
    let row = inst.row();
    let signed = row.src.iter().any(|kind| kind.ty.takes_sign()) || row.format == Format::Vop3p;
    if signed && random.chance(40) {
        let first = if row.src.first().is_some_and(|kind| kind.ty.takes_sign()) { 0 } else { 2 };
        for (bit, kind) in row.src.iter().enumerate() {
            let takes = kind.ty.takes_sign()
                || (row.has(Flags::NEG.with(Flags::NEG_C).with(Flags::SIGNED))
                    && (bit >= first || row.has(Flags::NEG.with(Flags::SIGNED))));
            if takes && random.chance(50) {
                inst.modifiers.neg |= 1 << bit;
            }
            if takes && random.chance(30) {
                inst.modifiers.abs |= 1 << bit;
            }
        }
    }
    if row.has(Flags::OPSEL) && random.chance(60) {
        inst.modifiers.op_sel = random.byte(16);
        if row.format == Format::Vop3p {
            inst.modifiers.op_sel &= 7;
            inst.modifiers.op_sel_hi = random.byte(8);
        }
    }
    inst.modifiers.clamp = row.has(Flags::CLAMP) && random.chance(25);
    if row.has(Flags::OMOD) && random.chance(25) {
        inst.modifiers.omod =
            random.pick(&[OutputModifier::Double, OutputModifier::Quadruple, OutputModifier::Half]);
    }
}

fn memory(inst: &mut Inst, target: Target, random: &mut Random) {
    let row = inst.row();
    let gfx12 = target.generation() == Generation::Gfx12;
    let bits = match row.format {
        Format::Ds => 16,
        Format::Global | Format::Scratch | Format::Flat => 24,
        Format::Smem => 24,
        Format::Mubuf => 23,
        _ => return,
    };
    if random.chance(60) && !row.src.is_empty() && !row.has(Flags::PREFETCH) {
        // A random width makes every range likely, whatever the target allows.
        let width = random.below(bits + 1);
        let mut offset = (random.bits() & ((1 << width) - 1)) as i32;
        if row.has(Flags::SWIZZLE) {
            offset = swizzle(random);
        }
        inst.memory.offset = if row.format != Format::Ds && random.chance(40) { -offset } else { offset };
    }
    if random.chance(50) && row.format != Format::Ds {
        let hint = random.byte(8);
        inst.memory.cache = if gfx12 {
            let scope = random.pick(&[Scope::Cu, Scope::Se, Scope::Device, Scope::System]);
            Cache::Gfx12 { scope, hint }
        } else {
            Cache::Gfx11 { glc: random.chance(50), slc: random.chance(30), dlc: random.chance(50) }
        };
        if inst.memory.cache.is_plain() {
            inst.memory.cache = Cache::PLAIN;
        }
    }
    if row.format == Format::Mubuf && !row.src.is_empty() {
        inst.memory.offen = random.chance(50);
        inst.memory.idxen = random.chance(50);
    }
}

/// A swizzle pattern as the assembler writes it: per bit of the lane number keep, invert, clear or set.
fn swizzle(random: &mut Random) -> i32 {
    if random.chance(30) {
        return 0x8000 | random.below(0x100).cast_signed();
    }
    let bit = |random: &mut Random| random.pick(&[0, 1 << 5, 1, 1 | (1 << 10)]);
    (0..5).fold(0, |pattern, shift| pattern | (bit(random) << shift))
}

/// One operand slot of an instruction that is being generated.
struct Slot<'a> {
    inst: &'a Inst,
    /// The literal all slots share.
    literal: u32,
    /// No scalar base register.
    base_off: bool,
    source: bool,
    random: &'a mut Random,
}

impl Slot<'_> {
    fn operand(&mut self, kind: OperandKind) -> Operand {
        let count = kind.ty.dwords();
        let format = self.inst.row().format;
        match kind.class {
            Class::Data => match format {
                Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp => {
                    if self.source && self.random.chance(50) {
                        self.constant(kind.ty)
                    } else {
                        self.scalar(count)
                    }
                }
                Format::Smem => self.scalar(count),
                Format::Ds | Format::Global | Format::Scratch | Format::Flat | Format::Mubuf => {
                    self.vgpr(count)
                }
                _ if !self.source || self.random.chance(60) => self.vgpr(count),
                _ if self.random.chance(50) => self.scalar(count),
                _ => self.constant(kind.ty),
            },
            Class::Vgpr => self.vgpr(count),
            Class::Accumulator if self.random.chance(20) => self.inline(),
            Class::Accumulator => self.vgpr(count),
            Class::Scalar if self.source && self.random.chance(30) => self.constant(kind.ty),
            Class::Lane if self.random.chance(30) => self.inline(),
            Class::Mask if self.random.chance(50) || self.inst.form == Form::Short => {
                if self.inst.row().has_two_forms() && self.inst.form == Form::Short {
                    Operand::VCC_LO
                } else {
                    self.scalar(1)
                }
            }
            Class::Scalar | Class::Lane | Class::Mask | Class::Register => self.scalar(count),
            Class::Null => Operand::NULL,
            Class::Literal => Operand::Literal(self.literal_of(kind.ty)),
            Class::GlobalAddress => self.vgpr(if self.base_off { 2 } else { 1 }),
            Class::ScratchAddress if self.random.chance(40) => Operand::Off,
            Class::ScratchAddress => self.vgpr(1),
            Class::BufferAddress => {
                match u8::from(self.inst.memory.offen) + u8::from(self.inst.memory.idxen) {
                    0 => Operand::Off,
                    count => self.vgpr(count),
                }
            }
            Class::Base | Class::ScalarOffset if self.base_off => Operand::Off,
            Class::Base | Class::ScalarOffset => self.scalar(count),
            Class::BufferOffset => self.scalar(1),
            Class::Barrier if self.random.chance(30) => Operand::Scalar(Scalar::M0),
            Class::Barrier => Operand::Int(self.random.byte(16).cast_signed() - 4),
            Class::Immediate(immediate) => Operand::Immediate(self.immediate(immediate)),
        }
    }

    fn vgpr(&mut self, count: u8) -> Operand {
        let reach = if self.random.chance(50) { 256 } else { 128 };
        v_range(self.random.byte(reach - u32::from(count) + 1), count)
    }

    fn scalar(&mut self, count: u8) -> Operand {
        if self.random.chance(80) {
            let align = match count {
                1 => 1,
                2 => 2,
                _ => 4,
            };
            let first = self.random.below((106 - u32::from(count)) / align + 1) * align;
            return s_range(first as u8, count);
        }
        let choice = match count {
            1 => self.random.pick(&[
                Scalar::VCC_LO,
                Scalar::VCC_HI,
                Scalar::M0,
                Scalar::EXEC_LO,
                Scalar::EXEC_HI,
                Scalar::NULL,
                Scalar::ttmp(5, 1),
                Scalar::ttmp(15, 1),
            ]),
            2 => self.random.pick(&[Scalar::VCC, Scalar::EXEC, Scalar::NULL, Scalar::ttmp(6, 2)]),
            4 => Scalar::ttmp(8, 4),
            8 => Scalar::ttmp(4, 8),
            _ => Scalar::ttmp(0, count),
        };
        Operand::Scalar(choice)
    }

    fn inline(&mut self) -> Operand {
        if self.random.chance(60) {
            return Operand::Int(self.random.byte(81).cast_signed() - 16);
        }
        let floats: Vec<InlineFloat> = InlineFloat::all().collect();
        Operand::Float(self.random.pick(&floats))
    }

    fn constant(&mut self, ty: Type) -> Operand {
        match self.random.below(10) {
            0..=4 => self.inline(),
            5 if matches!(ty.dwords(), 1 | 2) && !ty.is_half() => {
                let specials: Vec<Special> = Special::all().collect();
                Operand::Special(self.random.pick(&specials))
            }
            _ => Operand::Literal(self.literal_of(ty)),
        }
    }

    /// A literal that is not an inline constant of the slot's type; the assembler would choose the shorter form.
    fn literal_of(&self, ty: Type) -> u32 {
        let wide = self.literal | 0x0001_0100;
        if ty.is_half() { (self.literal & 0x7fff) | 0x0101 } else { wide }
    }

    fn immediate(&mut self, immediate: Immediate) -> i32 {
        let word = (self.random.bits() & 0xffff) as u16;
        match immediate {
            Immediate::WaitCount => i32::from(word & 0xfff7),
            Immediate::Delay => {
                let ids = [self.random.below(12), self.random.below(6), self.random.below(12)];
                (ids[0] | (ids[1] << 4) | (ids[2] << 7)).cast_signed()
            }
            Immediate::Message => self.random.pick(&[1, 2, 3, 9, 0x80, 0x83]),
            Immediate::MessageReturn => self.random.pick(&[0x80, 0x81, 0x82, 0x83, 0x84, 0x85]),
            Immediate::Branch => i32::from(word.cast_signed()),
            Immediate::Length => i32::from(word & 31),
            Immediate::Offset24 => {
                let value = (self.random.bits() & 0xff_ffff) as i32;
                (value << 8) >> 8
            }
            _ => i32::from(word),
        }
    }
}

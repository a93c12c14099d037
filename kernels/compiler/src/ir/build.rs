//! Building functions: methods named like the mathematics, uniformity inferred from operands.
//!
//! The builder makes no checks of its own: `verify` reports what is wrong with the result.

use super::{
    Address, Alu, Argument, ArgumentKind, AtomicOp, Axis, Elem, Expr, Fence, Fragment, Function, Location,
    Logic, MatrixOp, Node, Op, Region, Scope, Space, Type, Value, Width,
};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

/// Builds one function.
#[derive(Debug)]
pub struct Builder {
    pub(super) function: Function,
    pub(super) current: Region,
}

macro_rules! binary {
    ($($name:ident)*) => {$(
        #[doc = concat!("Arithmetic `", stringify!($name), "`.")]
        pub fn $name(&mut self, a: impl Into<Expr>, b: impl Into<Expr>) -> Value {
            let (a, b) = (self.eval(a), self.eval(b));
            self.alu(Alu::$name, &[a, b])
        }
    )*};
}

macro_rules! unary {
    ($($name:ident)*) => {$(
        #[doc = concat!("Arithmetic `", stringify!($name), "`.")]
        pub fn $name(&mut self, a: impl Into<Expr>) -> Value {
            let a = self.eval(a);
            self.alu(Alu::$name, &[a])
        }
    )*};
}

impl Builder {
    /// A kernel with `workgroup` work items per workgroup.
    pub fn new(name: &str, workgroup: u32) -> Self {
        let function = Function {
            name: name.to_string(),
            arguments: Vec::new(),
            types: Vec::new(),
            body: Region::default(),
            lds_bytes: 0,
            workgroup,
        };
        Self { function, current: Region::default() }
    }

    /// The finished function.
    pub fn finish(mut self) -> Function {
        self.function.body = self.current;
        self.function
    }

    pub(super) fn value(&mut self, ty: Type) -> Value {
        self.function.types.push(ty);
        Value(self.function.types.len() as u32 - 1)
    }

    pub(super) fn ty(&self, value: Value) -> Type {
        self.function.ty(value).unwrap_or(Type::of(Elem::Int, false))
    }

    fn emit(&mut self, ty: Type, op: Op) -> Value {
        let value = self.value(ty);
        self.current.nodes.push(Node::Op(Some(value), op));
        value
    }

    fn effect(&mut self, op: Op) {
        self.current.nodes.push(Node::Op(None, op));
    }

    pub(super) fn all_uniform(&self, values: &[Value]) -> bool {
        values.iter().all(|value| self.ty(*value).uniform)
    }

    /// A buffer argument: its 64-bit address.
    pub fn buffer(&mut self, name: &str) -> Value {
        self.argument(name, ArgumentKind::Buffer, Elem::Wide)
    }

    /// A 32-bit argument.
    pub fn scalar(&mut self, name: &str, elem: Elem) -> Value {
        self.argument(name, ArgumentKind::Scalar, elem)
    }

    fn argument(&mut self, name: &str, kind: ArgumentKind, elem: Elem) -> Value {
        let align = if kind == ArgumentKind::Buffer { 8 } else { 4 };
        let offset = self.function.kernarg_bytes().next_multiple_of(align);
        self.function.arguments.push(Argument { name: name.to_string(), kind, offset });
        self.emit(Type::of(elem, true), Op::Argument { offset })
    }

    /// Reserves LDS; the result is its byte offset.
    pub fn local(&mut self, bytes: u32) -> u32 {
        let offset = self.function.lds_bytes.next_multiple_of(16);
        self.function.lds_bytes = offset.saturating_add(bytes);
        offset
    }

    /// An integer constant.
    pub fn int(&mut self, value: u32) -> Value {
        self.emit(Type::of(Elem::Int, true), Op::Constant(value))
    }

    /// An f32 constant.
    pub fn float(&mut self, value: f32) -> Value {
        self.emit(Type::of(Elem::Float, true), Op::Constant(value.to_bits()))
    }

    /// Workgroup number.
    pub fn workgroup_id(&mut self, axis: Axis) -> Value {
        self.emit(Type::of(Elem::Int, true), Op::WorkgroupId(axis))
    }

    /// Work item number along X.
    pub fn workitem_id(&mut self) -> Value {
        self.emit(Type::of(Elem::Int, false), Op::WorkitemId)
    }

    /// Any arithmetic operation.
    pub fn alu(&mut self, alu: Alu, args: &[Value]) -> Value {
        let uniform = self.all_uniform(args);
        self.emit(Type::of(alu.row().result, uniform), Op::Alu(alu, args.to_vec()))
    }

    binary! { add sub mul mul24 and or xor shl shr sar min_u max_u min_i max_i mul_hi fadd fsub fmul fmax fmin
    cvt_pk_h pack_h pk_mul pk_add ldexp lt_u le_u gt_u ge_u lt_i le_i gt_i ge_i eq ne flt fle fgt fge feq fne }
    unary! { not rint floor trunc exp2 log2 rcp rsq sqrt sin cos cvt_f_u cvt_f_i cvt_f_h cvt_u_f cvt_i_f cvt_h_f }

    /// `-a`, by its sign bit.
    pub fn fneg(&mut self, a: impl Into<Expr>) -> Value {
        let a = self.eval(a);
        self.sign(Alu::xor, 1 << 31, a)
    }

    /// `|a|`, by its sign bit.
    pub fn fabs(&mut self, a: impl Into<Expr>) -> Value {
        let a = self.eval(a);
        self.sign(Alu::and, !(1 << 31), a)
    }

    fn sign(&mut self, alu: Alu, mask: u32, a: Value) -> Value {
        let mask = self.int(mask);
        let bits = self.bits(a, Elem::Int);
        let bits = self.alu(alu, &[bits, mask]);
        self.bits(bits, Elem::Float)
    }

    /// `a` limited to `low ..= high`; NaN gives `low`.
    pub fn clamp(&mut self, a: impl Into<Expr>, low: impl Into<Expr>, high: impl Into<Expr>) -> Value {
        let (a, low, high) = (self.eval(a), self.eval(low), self.eval(high));
        self.alu(Alu::med3, &[a, low, high])
    }

    /// `a` rounded to the nearest integer, ties to even, as a signed integer; saturates, NaN gives 0.
    pub fn round_to_int(&mut self, a: impl Into<Expr>) -> Value {
        let a = self.eval(a);
        let rounded = self.rint(a);
        self.cvt_i_f(rounded)
    }

    /// Two floats as a pair of f16, each rounded to nearest even (`cvt_h_f` of one float leaves the high half
    /// undefined, which `Width::U16` stores do not see; `cvt_pk_h` rounds toward zero).
    pub fn half_pair(&mut self, low: impl Into<Expr>, high: impl Into<Expr>) -> Value {
        let (low, high) = (self.eval(low), self.eval(high));
        let (low, high) = (self.cvt_h_f(low), self.cvt_h_f(high));
        self.pack_h(low, high)
    }

    /// The high half of a pair of bf16 as a float.
    pub fn bf16_high(&mut self, pair: impl Into<Expr>) -> Value {
        let pair = self.eval(pair);
        let mask = self.int(0xffff_0000);
        let bits = self.and(pair, mask);
        self.bits(bits, Elem::Float)
    }

    /// The low half of a pair of bf16 as a float.
    pub fn bf16_low(&mut self, pair: impl Into<Expr>) -> Value {
        let pair = self.eval(pair);
        let sixteen = self.int(16);
        let bits = self.shl(pair, sixteen);
        self.bits(bits, Elem::Float)
    }

    /// Both conditions.
    pub fn both(&mut self, a: impl Into<Expr>, b: impl Into<Expr>) -> Value {
        let (a, b) = (self.eval(a), self.eval(b));
        self.logic(Logic::And, &[a, b])
    }

    /// Either condition.
    pub fn either(&mut self, a: impl Into<Expr>, b: impl Into<Expr>) -> Value {
        let (a, b) = (self.eval(a), self.eval(b));
        self.logic(Logic::Or, &[a, b])
    }

    /// The condition's opposite.
    pub fn negate(&mut self, a: impl Into<Expr>) -> Value {
        let a = self.eval(a);
        self.logic(Logic::Not, &[a])
    }

    fn logic(&mut self, logic: Logic, values: &[Value]) -> Value {
        let uniform = self.all_uniform(values);
        self.emit(Type::of(Elem::Bool, uniform), Op::Logic(logic, values.to_vec()))
    }

    /// Uniform 64-bit base moved by a uniform offset: 32 bits unsigned, or a 64-bit value (`wide_mul`).
    pub fn wide_add(&mut self, base: impl Into<Expr>, offset: impl Into<Expr>) -> Value {
        let (base, offset) = (self.eval(base), self.eval(offset));
        self.emit(Type::of(Elem::Wide, true), Op::WideAdd(base, offset))
    }

    /// 64-bit product of uniform unsigned values, as an offset for `wide_add` in buffers over 4 GiB.
    pub fn wide_mul(&mut self, a: impl Into<Expr>, b: impl Into<Expr>) -> Value {
        let (a, b) = (self.eval(a), self.eval(b));
        self.emit(Type::of(Elem::Wide, true), Op::WideMul(a, b))
    }

    /// `a * b + c`, one rounding.
    pub fn fma(&mut self, a: impl Into<Expr>, b: impl Into<Expr>, c: impl Into<Expr>) -> Value {
        let (a, b, c) = (self.eval(a), self.eval(b), self.eval(c));
        self.alu(Alu::fma, &[a, b, c])
    }

    /// `(a << b) + c`.
    pub fn shl_add(&mut self, a: impl Into<Expr>, b: impl Into<Expr>, c: impl Into<Expr>) -> Value {
        let (a, b, c) = (self.eval(a), self.eval(b), self.eval(c));
        self.alu(Alu::shl_add, &[a, b, c])
    }

    /// `count` bits of `a` from bit `low`.
    pub fn bfe(&mut self, a: impl Into<Expr>, low: u32, count: u32) -> Value {
        let a = self.eval(a);
        let (low, count) = (self.int(low), self.int(count));
        self.alu(Alu::bfe, &[a, low, count])
    }

    /// Byte `index` of `a` as a float.
    pub fn byte_to_float(&mut self, a: impl Into<Expr>, index: u8) -> Value {
        let a = self.eval(a);
        let rows = [Alu::cvt_f_u8_0, Alu::cvt_f_u8_1, Alu::cvt_f_u8_2, Alu::cvt_f_u8_3];
        self.alu(rows[usize::from(index & 3)], &[a])
    }

    /// The same bits as another 32-bit element type.
    pub fn bits(&mut self, a: impl Into<Expr>, elem: Elem) -> Value {
        let a = self.eval(a);
        let ty = Type { elem, ..self.ty(a) };
        self.emit(ty, Op::Pack(vec![a]))
    }

    /// `a` where the condition holds, else `b`.
    pub fn select(&mut self, condition: impl Into<Expr>, a: impl Into<Expr>, b: impl Into<Expr>) -> Value {
        let (condition, a, b) = (self.eval(condition), self.eval(a), self.eval(b));
        let uniform = self.all_uniform(&[condition, a, b]);
        let ty = Type { uniform, ..self.ty(a) };
        self.emit(ty, Op::Select(condition, a, b))
    }

    /// One element.
    pub fn extract(&mut self, a: impl Into<Expr>, index: u8) -> Value {
        let a = self.eval(a);
        let ty = Type { count: 1, ..self.ty(a) };
        self.emit(ty, Op::Extract(a, index))
    }

    /// One register of an accumulator.
    pub fn accumulator(&mut self, a: Value, register: u8) -> Value {
        let float = self.ty(a).elem == Elem::Fragment(Fragment::FloatAcc);
        let elem = if float { Elem::Float } else { Elem::Int };
        self.emit(Type::of(elem, false), Op::Extract(a, register))
    }

    /// Elements to one value.
    pub fn pack(&mut self, values: &[Value]) -> Value {
        let elem = values.first().map_or(Elem::Int, |value| self.ty(*value).elem);
        let ty = Type { elem, count: values.len() as u8, uniform: false };
        self.emit(ty, Op::Pack(values.to_vec()))
    }

    /// Registers of vector data as a matrix fragment.
    pub fn fragment(&mut self, values: &[Value], fragment: Fragment) -> Value {
        self.emit(Type::of(Elem::Fragment(fragment), false), Op::Pack(values.to_vec()))
    }

    /// Address in a global buffer.
    pub fn global(&self, base: Value, offset: Value) -> Address {
        Address { space: Space::Global, base: Some(base), offset: Some(offset), constant: 0 }
    }

    /// Address in LDS.
    pub fn lds(&self, offset: Value) -> Address {
        Address { space: Space::Lds, base: None, offset: Some(offset), constant: 0 }
    }

    /// Reads memory through the vector caches, whatever the address; elements of 32 bits each.
    pub fn load(&mut self, address: impl Into<Location>, width: Width, elem: Elem) -> Value {
        let address = self.address(address);
        let ty = Type { elem, count: width.dwords(), uniform: false };
        self.emit(ty, Op::Load(address, width))
    }

    /// Reads memory through the scalar cache, the same for all lanes. Only for memory that nothing in the same dispatch
    /// writes: the start of a dispatch empties this cache, fences and barriers do not.
    pub fn load_uniform(&mut self, address: impl Into<Location>, width: Width, elem: Elem) -> Value {
        let address = self.address(address);
        let ty = Type { elem, count: width.dwords(), uniform: true };
        self.emit(ty, Op::Load(address, width))
    }

    /// Writes memory.
    pub fn store(&mut self, address: impl Into<Location>, width: Width, value: impl Into<Expr>) {
        let address = self.address(address);
        let value = self.eval(value);
        self.effect(Op::Store(address, width, value));
    }

    /// Atomic update.
    pub fn atomic(&mut self, op: AtomicOp, scope: Scope, address: Address, value: Value) {
        self.effect(Op::Atomic(op, scope, address, value));
    }

    /// Reads 32 bits through the vector caches at an address that is the same for all lanes: for memory that the same
    /// dispatch writes, after an acquire. The result is uniform.
    pub fn load_uniform_fresh(&mut self, address: impl Into<Location>, elem: Elem) -> Value {
        let address = self.address(address);
        let value = self.load(address, Width::Dwords(1), elem);
        self.first_lane(value)
    }

    /// Atomic update; the result is the old content.
    pub fn atomic_old(&mut self, op: AtomicOp, scope: Scope, address: Address, value: Value) -> Value {
        let ty = Type { uniform: false, ..self.ty(value) };
        self.emit(ty, Op::Atomic(op, scope, address, value))
    }

    /// Orders this wave's global memory accesses: `Release` before signalling other waves, `Acquire` after waiting for them.
    pub fn fence(&mut self, fence: Fence, scope: Scope) {
        self.effect(Op::Fence(fence, scope));
    }

    /// True in the last of `total` workgroups that get here; the counter starts at zero. What the others wrote
    /// before is visible afterwards to vector loads (not to `load_uniform`). Needs 4 bytes of LDS at `slot`.
    pub fn last_arrival(&mut self, counter: Address, total: Value, slot: u32) -> Value {
        self.barrier(true);
        let item = self.workitem_id();
        let (none, one) = (self.int(0), self.int(1));
        let leader = self.eq(item, none);
        let slot = Address { space: Space::Lds, base: None, offset: None, constant: slot.cast_signed() };
        self.when(leader, |k| {
            k.fence(Fence::Release, Scope::Device);
            let arrived = k.atomic_old(AtomicOp::AddInt, Scope::Device, counter, one);
            k.fence(Fence::Acquire, Scope::Device);
            k.store(slot, Width::Dwords(1), arrived);
        });
        self.barrier(true);
        let arrived = self.load(slot, Width::Dwords(1), Elem::Int);
        let arrived = self.first_lane(arrived);
        let arrived = self.add(arrived, one);
        self.eq(arrived, total)
    }

    /// Workgroup barrier.
    pub fn barrier(&mut self, global: bool) {
        self.effect(Op::Barrier { global });
    }

    /// The value of lane `lane xor mask`.
    pub fn lane_xor(&mut self, a: impl Into<Expr>, mask: u8) -> Value {
        let a = self.eval(a);
        let ty = Type { uniform: false, ..self.ty(a) };
        self.emit(ty, Op::LaneXor(a, mask))
    }

    /// The first active lane's value.
    pub fn first_lane(&mut self, a: impl Into<Expr>) -> Value {
        let a = self.eval(a);
        let ty = Type { uniform: true, ..self.ty(a) };
        self.emit(ty, Op::FirstLane(a))
    }

    /// The value of the lane with a uniform number, uniform; that lane must be active.
    pub fn read_lane(&mut self, a: Value, lane: Value) -> Value {
        let ty = Type { uniform: true, ..self.ty(a) };
        self.emit(ty, Op::ReadLane(a, lane))
    }

    /// Each lane gets the value of the lane whose number (modulo 32) it names; inactive lanes give 0.
    pub fn lane_gather(&mut self, a: Value, lane: Value) -> Value {
        let ty = Type { uniform: false, ..self.ty(a) };
        self.emit(ty, Op::LaneGather(a, lane))
    }

    /// Combines the values of all 32 lanes; every lane gets the result.
    pub fn reduce_wave(&mut self, a: impl Into<Expr>, combine: Alu) -> Value {
        let mut a = self.eval(a);
        for mask in [1, 2, 4, 8, 16] {
            let other = self.lane_xor(a, mask);
            a = self.alu(combine, &[a, other]);
        }
        a
    }

    /// Dot product of two pairs of f16 plus `c`, in f32.
    pub fn dot2(&mut self, a: impl Into<Expr>, b: impl Into<Expr>, c: impl Into<Expr>) -> Value {
        let (a, b, c) = (self.eval(a), self.eval(b), self.eval(c));
        self.alu(Alu::dot2, &[a, b, c])
    }

    /// Dot product of signed or unsigned bytes.
    pub fn dot4(&mut self, signed_a: bool, signed_b: bool, values: [Value; 3]) -> Value {
        self.emit(Type::of(Elem::Int, false), Op::Dot4 { signed_a, signed_b, values })
    }

    /// Accumulator of zeros.
    pub fn zero_fragment(&mut self, fragment: Fragment) -> Value {
        self.emit(Type::of(Elem::Fragment(fragment), false), Op::ZeroFragment)
    }

    /// Matrix multiply-add.
    pub fn matrix(&mut self, op: MatrixOp, a: Value, b: Value, c: Value) -> Value {
        let ty = self.ty(c);
        self.emit(ty, Op::Matrix(op, [a, b, c]))
    }
}

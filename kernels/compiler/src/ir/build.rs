//! Building functions: methods named like the mathematics, uniformity inferred from operands.
//!
//! The builder makes no checks of its own: `verify` reports what is wrong with the result.

use super::{
    Address, Alu, Argument, ArgumentKind, AtomicOp, Axis, Carried, Elem, Fragment, Function, MatrixOp,
    Merged, Node, Op, Region, Scope, Space, Type, Value, Width,
};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

/// Builds one function.
#[derive(Debug)]
pub struct Builder {
    function: Function,
    current: Region,
}

macro_rules! binary {
    ($($name:ident)*) => {$(
        #[doc = concat!("Arithmetic `", stringify!($name), "`.")]
        pub fn $name(&mut self, a: Value, b: Value) -> Value {
            self.alu(Alu::$name, &[a, b])
        }
    )*};
}

macro_rules! unary {
    ($($name:ident)*) => {$(
        #[doc = concat!("Arithmetic `", stringify!($name), "`.")]
        pub fn $name(&mut self, a: Value) -> Value {
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

    fn value(&mut self, ty: Type) -> Value {
        self.function.types.push(ty);
        Value(self.function.types.len() as u32 - 1)
    }

    fn ty(&self, value: Value) -> Type {
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

    fn all_uniform(&self, values: &[Value]) -> bool {
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

    binary! { add sub mul mul24 and or xor shl shr sar min_u max_i fadd fsub fmul fmax fmin cvt_pk_h pk_mul pk_add
    lt_u ge_u lt_i eq ne flt fgt }
    unary! { exp2 log2 rcp rsq sqrt cvt_f_u cvt_f_i cvt_f_h }

    /// `a * b + c`, one rounding.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.alu(Alu::fma, &[a, b, c])
    }

    /// `(a << b) + c`.
    pub fn shl_add(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.alu(Alu::shl_add, &[a, b, c])
    }

    /// `count` bits of `a` from bit `low`.
    pub fn bfe(&mut self, a: Value, low: u32, count: u32) -> Value {
        let (low, count) = (self.int(low), self.int(count));
        self.alu(Alu::bfe, &[a, low, count])
    }

    /// Byte `index` of `a` as a float.
    pub fn byte_to_float(&mut self, a: Value, index: u8) -> Value {
        let rows = [Alu::cvt_f_u8_0, Alu::cvt_f_u8_1, Alu::cvt_f_u8_2, Alu::cvt_f_u8_3];
        self.alu(rows[usize::from(index & 3)], &[a])
    }

    /// The same bits as another 32-bit element type.
    pub fn bits(&mut self, a: Value, elem: Elem) -> Value {
        let ty = Type { elem, ..self.ty(a) };
        self.emit(ty, Op::Pack(vec![a]))
    }

    /// `a` where the condition holds, else `b`.
    pub fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        let uniform = self.all_uniform(&[condition, a, b]);
        let ty = Type { uniform, ..self.ty(a) };
        self.emit(ty, Op::Select(condition, a, b))
    }

    /// One element.
    pub fn extract(&mut self, a: Value, index: u8) -> Value {
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

    /// Reads memory; elements of 32 bits each.
    pub fn load(&mut self, address: Address, width: Width, elem: Elem) -> Value {
        let ty = Type { elem, count: width.dwords(), uniform: false };
        self.emit(ty, Op::Load(address, width))
    }

    /// Reads memory that no kernel writes, the same for all lanes, through the scalar cache.
    pub fn load_uniform(&mut self, address: Address, width: Width, elem: Elem) -> Value {
        let ty = Type { elem, count: width.dwords(), uniform: true };
        self.emit(ty, Op::Load(address, width))
    }

    /// Writes memory.
    pub fn store(&mut self, address: Address, width: Width, value: Value) {
        self.effect(Op::Store(address, width, value));
    }

    /// Atomic update.
    pub fn atomic(&mut self, op: AtomicOp, scope: Scope, address: Address, value: Value) {
        self.effect(Op::Atomic(op, scope, address, value));
    }

    /// Workgroup barrier.
    pub fn barrier(&mut self, global: bool) {
        self.effect(Op::Barrier { global });
    }

    /// The value of lane `lane xor mask`.
    pub fn lane_xor(&mut self, a: Value, mask: u8) -> Value {
        let ty = Type { uniform: false, ..self.ty(a) };
        self.emit(ty, Op::LaneXor(a, mask))
    }

    /// The first active lane's value.
    pub fn first_lane(&mut self, a: Value) -> Value {
        let ty = Type { uniform: true, ..self.ty(a) };
        self.emit(ty, Op::FirstLane(a))
    }

    /// Combines the values of all 32 lanes; every lane gets the result.
    pub fn reduce_wave(&mut self, mut a: Value, combine: Alu) -> Value {
        for mask in [1, 2, 4, 8, 16] {
            let other = self.lane_xor(a, mask);
            a = self.alu(combine, &[a, other]);
        }
        a
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

    fn region(&mut self, build: impl FnOnce(&mut Self)) -> Region {
        let outer = mem::take(&mut self.current);
        build(self);
        mem::replace(&mut self.current, outer)
    }

    /// Runs `then` in the lanes where the condition holds.
    pub fn when(&mut self, condition: Value, then: impl FnOnce(&mut Self)) {
        let then = self.region(then);
        let node = Node::If { condition, then, otherwise: Region::default(), merged: Vec::new() };
        self.current.nodes.push(node);
    }

    /// Values of `then` where the condition holds, of `otherwise` elsewhere.
    pub fn choose(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut Self) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let then = self.region(|b| first = then(b));
        let otherwise = self.region(|b| second = otherwise(b));
        let mut merged = Vec::new();
        for (then, otherwise) in first.into_iter().zip(second) {
            let uniform = self.all_uniform(&[condition, then, otherwise]);
            let ty = Type { uniform, ..self.ty(then) };
            let result = self.value(ty);
            merged.push(Merged { then, otherwise, result });
        }
        let results = merged.iter().map(|merge| merge.result).collect();
        self.current.nodes.push(Node::If { condition, then, otherwise, merged });
        results
    }

    /// Runs the body for `i = start, start + step, ...` while `i < end`, at least once. The body gets `i` and the
    /// carried values and returns their next ones; the results are the values after the last trip. Carried values
    /// are uniform only where `initial` is and `varying` does not say otherwise.
    pub fn for_range(
        &mut self,
        range: [Value; 3],
        initial: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let [start, end, step] = range;
        let counter = self.value(Type::of(Elem::Int, true));
        let inside: Vec<Value> = initial
            .iter()
            .map(|value| {
                let ty = Type { uniform: false, ..self.ty(*value) };
                self.value(ty)
            })
            .collect();
        let (mut next, mut again, mut counter_next) = (Vec::new(), counter, counter);
        let body = self.region(|b| {
            next = body(b, counter, &inside);
            counter_next = b.add(counter, step);
            again = b.lt_u(counter_next, end);
        });
        let mut carried = Vec::new();
        let last = self.value(Type::of(Elem::Int, true));
        carried.push(Carried { inside: counter, initial: start, next: counter_next, result: last });
        for ((inside, initial), next) in inside.iter().zip(initial).zip(&next) {
            let ty = self.ty(*inside);
            let result = self.value(ty);
            carried.push(Carried { inside: *inside, initial: *initial, next: *next, result });
        }
        let results = carried.iter().skip(1).map(|value| value.result).collect();
        self.current.nodes.push(Node::Loop { carried, body, again });
        results
    }
}

//! Verify: whether a function is well formed. Everything after this pass relies on it.
//!
//! Checks definitions before uses, types, conditions, addresses, sizes. Not here: uniformity (`uniformity`).

use crate::ir::{Address, AtomicOp, Elem, Fragment, Function, Logic, Node, Op, Region, Space, Type, Value};
use crate::pass::legalize;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// LDS that a workgroup can have.
pub const MAX_LDS: u32 = 64 * 1024;

/// A fault of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum VerifyError {
    /// A value is used where it is not defined.
    Undefined {
        /// The value.
        value: Value,
        /// The operation that uses it.
        operation: String,
    },
    /// A value is defined twice, or has no type.
    Redefined {
        /// The value.
        value: Value,
    },
    /// An operand or result has the wrong type.
    Type {
        /// The operation.
        operation: String,
    },
    /// An operation that all lanes must reach stands where only some may be active.
    Divergent {
        /// The operation.
        operation: String,
    },
    /// More LDS than a workgroup can have.
    Lds {
        /// Bytes asked for.
        bytes: u32,
    },
    /// A workgroup size that is no multiple of 32 up to 1024.
    Workgroup {
        /// Work items asked for.
        size: u32,
    },
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined { value, operation } => write!(f, "{operation}: {value} is not defined here"),
            Self::Redefined { value } => write!(f, "{value} is defined twice or has no type"),
            Self::Type { operation } => write!(f, "{operation}: operand or result of the wrong type"),
            Self::Divergent { operation } => write!(f, "{operation}: not all lanes may get here"),
            Self::Lds { bytes } => write!(f, "{bytes} bytes of LDS, at most {MAX_LDS} exist"),
            Self::Workgroup { size } => {
                write!(f, "workgroup of {size}, expected a multiple of 32 up to 1024")
            }
        }
    }
}

impl core::error::Error for VerifyError {}

/// Checks a function.
///
/// # Errors
///
/// The first thing found wrong, in program order.
pub fn verify(function: &Function) -> Result<(), VerifyError> {
    if function.lds_bytes > MAX_LDS {
        return Err(VerifyError::Lds { bytes: function.lds_bytes });
    }
    let size = function.workgroup;
    if size == 0 || !size.is_multiple_of(32) || size > 1024 {
        return Err(VerifyError::Workgroup { size });
    }
    let count = function.types.len();
    let mut check =
        Check { function, visible: vec![false; count], defined: vec![false; count], depth: 0, divergent: 0 };
    check.region(&function.body)
}

/// Deepest nesting of regions that the passes walk.
const MAX_DEPTH: u32 = 64;

struct Check<'a> {
    function: &'a Function,
    visible: Vec<bool>,
    defined: Vec<bool>,
    depth: u32,
    /// Branches around that mask lanes.
    divergent: u32,
}

impl Check<'_> {
    fn region(&mut self, region: &Region) -> Result<(), VerifyError> {
        let own = self.inside(region)?;
        own.into_iter().for_each(|value| self.hide(value));
        Ok(())
    }

    /// Checks a region; the values that it defines, which are still visible.
    fn inside(&mut self, region: &Region) -> Result<Vec<Value>, VerifyError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(VerifyError::Type { operation: "regions nested too deep".to_string() });
        }
        let mut own = Vec::new();
        for node in &region.nodes {
            match node {
                Node::Op(result, op) => {
                    self.operation(*result, op)?;
                    if let Some(value) = result {
                        self.define(*value)?;
                        own.push(*value);
                    }
                }
                Node::If { condition, then, otherwise, merged } => {
                    self.used(*condition, "if")?;
                    self.elem(*condition, Elem::Bool, "if")?;
                    let masks = !self.ty(*condition).is_some_and(|ty| ty.uniform);
                    self.divergent += u32::from(masks);
                    self.nested(then, &merged.iter().map(|merge| merge.then).collect::<Vec<Value>>())?;
                    self.nested(
                        otherwise,
                        &merged.iter().map(|merge| merge.otherwise).collect::<Vec<Value>>(),
                    )?;
                    self.divergent -= u32::from(masks);
                    for merge in merged {
                        self.same(merge.then, merge.result, "merge")?;
                        self.same(merge.otherwise, merge.result, "merge")?;
                        self.define(merge.result)?;
                        own.push(merge.result);
                    }
                }
                Node::Loop { .. } => self.repeat(node, &mut own)?,
            }
        }
        self.depth -= 1;
        Ok(own)
    }

    fn repeat(&mut self, node: &Node, own: &mut Vec<Value>) -> Result<(), VerifyError> {
        let Node::Loop { first, carried, body, again } = node else { return Ok(()) };
        if let Some(first) = first {
            self.used(*first, "loop")?;
            self.elem(*first, Elem::Bool, "loop")?;
        }
        let varies = |value: Value| !self.ty(value).is_some_and(|ty| ty.uniform);
        let masks = u32::from(varies(*again) || first.is_some_and(varies));
        for value in carried {
            self.used(value.initial, "loop")?;
            self.same(value.initial, value.inside, "loop")?;
            self.same(value.next, value.inside, "loop")?;
            self.same(value.result, value.inside, "loop")?;
            self.define(value.inside)?;
        }
        let mut ends: Vec<Value> = carried.iter().map(|value| value.next).collect();
        ends.push(*again);
        self.divergent += masks;
        self.nested(body, &ends)?;
        self.divergent -= masks;
        self.elem(*again, Elem::Bool, "loop")?;
        for value in carried {
            self.hide(value.inside);
            self.define(value.result)?;
            own.push(value.result);
        }
        Ok(())
    }

    /// A region whose `ends` must be visible at its end.
    fn nested(&mut self, region: &Region, ends: &[Value]) -> Result<(), VerifyError> {
        let own = self.inside(region)?;
        // The ends are uses by an imaginary last operation.
        for value in ends {
            self.used(*value, "end of a region")?;
        }
        own.into_iter().for_each(|value| self.hide(value));
        Ok(())
    }

    fn hide(&mut self, value: Value) {
        if let Some(slot) = self.visible.get_mut(value.index()) {
            *slot = false;
        }
    }

    fn define(&mut self, value: Value) -> Result<(), VerifyError> {
        match self.defined.get_mut(value.index()) {
            Some(slot) if !*slot => *slot = true,
            _ => return Err(VerifyError::Redefined { value }),
        }
        self.visible[value.index()] = true;
        Ok(())
    }

    fn used(&self, value: Value, operation: &str) -> Result<(), VerifyError> {
        if self.visible.get(value.index()).copied().unwrap_or(false) {
            Ok(())
        } else {
            Err(VerifyError::Undefined { value, operation: operation.to_string() })
        }
    }

    fn ty(&self, value: Value) -> Option<Type> {
        self.function.ty(value)
    }

    fn wrong(operation: &str) -> VerifyError {
        VerifyError::Type { operation: operation.to_string() }
    }

    fn elem(&self, value: Value, elem: Elem, operation: &str) -> Result<(), VerifyError> {
        match self.ty(value) {
            Some(ty) if ty.elem == elem && ty.count == 1 => Ok(()),
            _ => Err(Self::wrong(operation)),
        }
    }

    /// Same shape, uniformity aside; conditions cannot be merged or carried.
    fn same(&self, a: Value, b: Value, operation: &str) -> Result<(), VerifyError> {
        match (self.ty(a), self.ty(b)) {
            (Some(a), Some(b)) if a.elem == b.elem && a.count == b.count && a.elem != Elem::Bool => Ok(()),
            _ => Err(Self::wrong(operation)),
        }
    }

    fn address(&self, address: &Address, text: &str) -> Result<(), VerifyError> {
        match (address.space, address.base) {
            (Space::Global, Some(base)) => {
                self.elem(base, Elem::Wide, text)?;
                if !self.ty(base).is_some_and(|ty| ty.uniform) {
                    return Err(Self::wrong(text));
                }
            }
            (Space::Lds, None) => {}
            _ => return Err(Self::wrong(text)),
        }
        address.offset.map_or(Ok(()), |offset| self.elem(offset, Elem::Int, text))
    }

    /// A value of `dwords` registers of plain data.
    fn data(&self, value: Value, dwords: u8, text: &str) -> Result<(), VerifyError> {
        match self.ty(value) {
            Some(ty) if ty.count == dwords && matches!(ty.elem, Elem::Int | Elem::Float | Elem::HalfPair) => {
                Ok(())
            }
            _ => Err(Self::wrong(text)),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per operation")]
    fn operation(&self, result: Option<Value>, op: &Op) -> Result<(), VerifyError> {
        let text = op.to_string();
        for value in legalize::operands(op) {
            self.used(value, &text)?;
        }
        if self.divergent > 0 && matches!(op, Op::Matrix(..) | Op::Barrier { .. }) {
            return Err(VerifyError::Divergent { operation: text });
        }
        let elem = |value: Value, elem: Elem| self.elem(value, elem, &text);
        let wrong = || Err(Self::wrong(&text));
        match (op, result) {
            (Op::Store(address, width, value), None) => {
                self.address(address, &text)?;
                return self.data(*value, width.dwords(), &text);
            }
            (Op::Atomic(_, _, address, value), None) => {
                self.address(address, &text)?;
                return self.data(*value, 1, &text);
            }
            (Op::Barrier { .. } | Op::Fence(..), None) => return Ok(()),
            // The imaginary last operation of a nested region.
            (Op::Pack(_), None) => return Ok(()),
            _ => {}
        }
        let Some(value) = result else { return wrong() };
        let Some(ty) = self.ty(value) else { return Err(VerifyError::Redefined { value }) };
        match op {
            Op::Constant(_) => self.data(value, 1, &text),
            Op::Argument { offset } => {
                let known = self.function.arguments.iter().any(|argument| argument.offset == *offset);
                if known && ty.uniform && ty.count == 1 { Ok(()) } else { wrong() }
            }
            Op::WorkgroupId(_) | Op::WorkitemId => elem(value, Elem::Int),
            Op::Alu(alu, values) => {
                let row = alu.row();
                if values.len() != row.args.len() {
                    return wrong();
                }
                for (value, expected) in values.iter().zip(row.args) {
                    elem(*value, *expected)?;
                }
                elem(value, row.result)
            }
            Op::Select(condition, a, b) => {
                elem(*condition, Elem::Bool)?;
                self.same(*a, value, &text)?;
                self.same(*b, value, &text)?;
                self.data(value, 1, &text)
            }
            Op::Extract(a, index) => {
                let from = self.ty(*a).unwrap_or(ty);
                let elem = match from.elem {
                    Elem::Fragment(Fragment::FloatAcc) if *index < 8 => Elem::Float,
                    Elem::Fragment(Fragment::IntAcc) if *index < 8 => Elem::Int,
                    elem if *index < from.count => elem,
                    _ => return wrong(),
                };
                if elem == ty.elem && ty.count == 1 { self.data(value, 1, &text) } else { wrong() }
            }
            Op::Pack(values) => self.pack(ty, values, &text),
            Op::Load(address, width) => {
                self.address(address, &text)?;
                let uniform_ok =
                    !ty.uniform || address.offset.is_none_or(|o| self.ty(o).is_some_and(|t| t.uniform));
                if uniform_ok { self.data(value, width.dwords(), &text) } else { wrong() }
            }
            Op::LaneXor(a, mask) => {
                self.same(*a, value, &text)?;
                if *mask == 0 || *mask > 31 { wrong() } else { self.data(value, 1, &text) }
            }
            Op::Atomic(atomic, _, address, data) => {
                self.address(address, &text)?;
                let float = *atomic == AtomicOp::AddFloat;
                elem(*data, if float { Elem::Float } else { Elem::Int })?;
                self.same(*data, value, &text)
            }
            Op::LaneGather(a, lane) | Op::ReadLane(a, lane) => {
                elem(*lane, Elem::Int)?;
                self.same(*a, value, &text)?;
                let uniform = self.ty(*lane).is_some_and(|ty| ty.uniform);
                if matches!(op, Op::ReadLane(..)) && !uniform {
                    return wrong();
                }
                self.data(value, 1, &text)
            }
            Op::Logic(logic, values) => {
                if values.len() != if *logic == Logic::Not { 1 } else { 2 } {
                    return wrong();
                }
                for operand in values {
                    elem(*operand, Elem::Bool)?;
                }
                elem(value, Elem::Bool)
            }
            Op::WideAdd(a, b) | Op::WideMul(a, b) => {
                let short = |value: Value| self.elem(value, Elem::Int, &text);
                match op {
                    Op::WideAdd(..) => {
                        elem(*a, Elem::Wide)?;
                        short(*b).or_else(|_| elem(*b, Elem::Wide))?;
                    }
                    _ => {
                        short(*a)?;
                        short(*b)?;
                    }
                }
                let uniform = [*a, *b].into_iter().all(|value| self.ty(value).is_some_and(|ty| ty.uniform));
                elem(value, Elem::Wide)?;
                if uniform && ty.uniform { Ok(()) } else { wrong() }
            }
            Op::FirstLane(a) => {
                self.same(*a, value, &text)?;
                self.data(value, 1, &text)
            }
            Op::Dot4 { values, .. } => {
                for operand in values {
                    elem(*operand, Elem::Int)?;
                }
                elem(value, Elem::Int)
            }
            Op::Matrix(matrix, values) => self.matrix(*matrix, values, ty, &text),
            Op::ZeroFragment => {
                if matches!(ty.elem, Elem::Fragment(_)) && ty.count == 1 {
                    Ok(())
                } else {
                    wrong()
                }
            }
            Op::Store(..) | Op::Fence(..) | Op::Barrier { .. } => wrong(),
        }
    }

    fn pack(&self, ty: Type, values: &[Value], text: &str) -> Result<(), VerifyError> {
        let types: Option<Vec<Type>> = values.iter().map(|value| self.ty(*value)).collect();
        let Some(types) = types else { return Err(Self::wrong(text)) };
        let plain = |ty: &Type| matches!(ty.elem, Elem::Int | Elem::Float | Elem::HalfPair);
        let total: u32 = types.iter().map(|ty| u32::from(ty.count)).sum();
        let fits = match ty.elem {
            // How many dwords is the target's affair: `legalize` compares.
            Elem::Fragment(_) => ty.count == 1,
            _ if types.len() == 1 => plain(&ty) && types[0].count == ty.count,
            _ => plain(&ty) && total == u32::from(ty.count) && (1..=4).contains(&total),
        };
        if fits && !types.is_empty() && types.iter().all(plain) { Ok(()) } else { Err(Self::wrong(text)) }
    }

    fn matrix(
        &self,
        matrix: crate::ir::MatrixOp,
        values: &[Value; 3],
        ty: Type,
        text: &str,
    ) -> Result<(), VerifyError> {
        use crate::ir::MatrixOp;
        let (input, accumulator) = match matrix {
            MatrixOp::Half => (Fragment::Half, Fragment::FloatAcc),
            MatrixOp::Byte { .. } => (Fragment::Byte, Fragment::IntAcc),
        };
        for (value, fragment) in values.iter().zip([input, input, accumulator]) {
            self.elem(*value, Elem::Fragment(fragment), text)?;
        }
        if ty.elem == Elem::Fragment(accumulator) { Ok(()) } else { Err(Self::wrong(text)) }
    }
}

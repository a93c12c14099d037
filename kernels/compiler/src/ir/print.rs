//! IR text, one operation a line. For people and golden files.

use super::{Address, Elem, Function, Node, Op, Region, Space, Type, Value, Width};
use core::fmt;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.uniform { "uniform " } else { "" })?;
        match self.elem {
            Elem::Bool => f.write_str("bool")?,
            Elem::Int => f.write_str("i32")?,
            Elem::Float => f.write_str("f32")?,
            Elem::HalfPair => f.write_str("2xf16")?,
            Elem::Wide => f.write_str("i64")?,
            Elem::Fragment(fragment) => write!(f, "{fragment:?}")?,
        }
        if self.count > 1 { write!(f, "x{}", self.count) } else { Ok(()) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.space == Space::Lds { "lds[" } else { "global[" })?;
        for value in self.base.iter().chain(&self.offset) {
            write!(f, "{value} + ")?;
        }
        write!(f, "{}]", self.constant)
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U8 => f.write_str("u8"),
            Self::I8 => f.write_str("i8"),
            Self::U16 => f.write_str("u16"),
            Self::Dwords(count) => write!(f, "b{}", 32 * u32::from(*count)),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, values: &[Value]) -> fmt::Result {
    for (index, value) in values.iter().enumerate() {
        write!(f, "{}{value}", if index == 0 { " " } else { ", " })?;
    }
    Ok(())
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(bits) => write!(f, "constant 0x{bits:x}"),
            Self::Argument { offset } => write!(f, "argument {offset}"),
            Self::WorkgroupId(axis) => write!(f, "workgroup_id {axis:?}"),
            Self::WorkitemId => f.write_str("workitem_id"),
            Self::Alu(alu, values) => {
                f.write_str(alu.row().name)?;
                list(f, values)
            }
            Self::Select(condition, a, b) => write!(f, "select {condition}, {a}, {b}"),
            Self::Extract(value, index) => write!(f, "extract {value}, {index}"),
            Self::Pack(values) => {
                f.write_str("pack")?;
                list(f, values)
            }
            Self::Load(address, width) => write!(f, "load.{width} {address}"),
            Self::Store(address, width, value) => write!(f, "store.{width} {address}, {value}"),
            Self::Atomic(op, scope, address, value) => {
                write!(f, "atomic.{op:?}.{scope:?} {address}, {value}")
            }
            Self::Fence(fence, scope) => write!(f, "fence.{fence:?}.{scope:?}"),
            Self::Barrier { global } => f.write_str(if *global { "barrier global" } else { "barrier" }),
            Self::LaneXor(value, mask) => write!(f, "lane_xor {value}, {mask}"),
            Self::FirstLane(value) => write!(f, "first_lane {value}"),
            Self::ReadLane(value, lane) => write!(f, "read_lane {value}, {lane}"),
            Self::LaneGather(value, lane) => write!(f, "lane_gather {value}, {lane}"),
            Self::Logic(logic, values) => {
                write!(f, "logic.{logic:?}")?;
                list(f, values)
            }
            Self::WideAdd(a, b) => write!(f, "wide_add {a}, {b}"),
            Self::WideMul(a, b) => write!(f, "wide_mul {a}, {b}"),
            Self::Dot4 { signed_a, signed_b, values } => {
                write!(f, "dot4.{}{}", if *signed_a { "i" } else { "u" }, if *signed_b { "i" } else { "u" })?;
                list(f, values)
            }
            Self::Matrix(op, values) => {
                write!(f, "matrix.{op:?}")?;
                list(f, values)
            }
            Self::ZeroFragment => f.write_str("zero"),
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}(", self.name)?;
        for (index, argument) in self.arguments.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}: {:?} @{}", argument.name, argument.kind, argument.offset)?;
        }
        writeln!(f, ") workgroup {} lds {}", self.workgroup, self.lds_bytes)?;
        self.region(f, &self.body, 1)
    }
}

impl Function {
    fn typed(&self, f: &mut fmt::Formatter<'_>, value: Value) -> fmt::Result {
        match self.ty(value) {
            Some(ty) => write!(f, "{value}: {ty}"),
            None => write!(f, "{value}: ?"),
        }
    }

    fn region(&self, f: &mut fmt::Formatter<'_>, region: &Region, depth: usize) -> fmt::Result {
        let indent = 2 * depth;
        for node in &region.nodes {
            write!(f, "{:indent$}", "")?;
            match node {
                Node::Op(result, op) => {
                    if let Some(result) = result {
                        self.typed(f, *result)?;
                        f.write_str(" = ")?;
                    }
                    writeln!(f, "{op}")?;
                }
                Node::If { condition, then, otherwise, merged } => {
                    writeln!(f, "if {condition}")?;
                    self.region(f, then, depth + 1)?;
                    writeln!(f, "{:indent$}else", "")?;
                    self.region(f, otherwise, depth + 1)?;
                    for merge in merged {
                        write!(f, "{:indent$}merge ", "")?;
                        self.typed(f, merge.result)?;
                        writeln!(f, " = {} | {}", merge.then, merge.otherwise)?;
                    }
                }
                Node::Loop { first, carried, body, again } => {
                    f.write_str("loop")?;
                    if let Some(first) = first {
                        write!(f, " if {first}")?;
                    }
                    for value in carried {
                        f.write_str(" ")?;
                        self.typed(f, value.inside)?;
                        write!(f, " = {} -> {} => {};", value.initial, value.next, value.result)?;
                    }
                    writeln!(f)?;
                    self.region(f, body, depth + 1)?;
                    writeln!(f, "{:indent$}again {again}", "")?;
                }
            }
        }
        Ok(())
    }
}

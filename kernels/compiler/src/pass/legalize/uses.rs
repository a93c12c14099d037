//! Definitions and uses of values, and which of them may share registers.

use crate::ir::{Carried, Elem, Function, Node, Op, Region, Value};
use alloc::vec;
use alloc::vec::Vec;

/// Uses of every value, in order of execution without branches.
pub(super) struct Uses {
    /// Position of the definition and the region it stands in directly.
    defined: Vec<Option<(u32, u32)>>,
    /// Last position of a use.
    last: Vec<u32>,
    /// Number of uses.
    count: Vec<u32>,
    /// The pack that is the only user of a value, and the first dword in it.
    pub(super) packed: Vec<Option<(Value, u8)>>,
    /// Axes whose workgroup number is read.
    pub(super) workgroup_ids: [bool; 3],
    /// Operands of uniform comparisons, which are computed where they are used.
    compared: Vec<Vec<Value>>,
    /// The value whose registers a value names.
    alias: Vec<Option<Value>>,
    /// True if an operation puts its result into registers of its own.
    own: Vec<bool>,
    /// Results in such registers that a loop of the same region begins with.
    starts: Vec<bool>,
    position: u32,
    regions: u32,
}

impl Uses {
    /// Collects the uses of a function.
    pub(super) fn of(function: &Function) -> Self {
        let count = function.types.len();
        let mut uses = Self {
            defined: vec![None; count],
            last: vec![0; count],
            count: vec![0; count],
            packed: vec![None; count],
            workgroup_ids: [true, false, false],
            compared: vec![Vec::new(); count],
            alias: vec![None; count],
            own: vec![false; count],
            starts: vec![false; count],
            position: 0,
            regions: 0,
        };
        uses.region(&function.body);
        uses.packs(function, &function.body, &mut 0);
        uses
    }

    fn used(&mut self, value: Value) {
        if let Some(count) = self.count.get_mut(value.index()) {
            *count += 1;
            self.last[value.index()] = self.position;
            for operand in self.compared[value.index()].clone() {
                self.used(operand);
            }
        }
        let mut named = self.alias.get(value.index()).copied().flatten();
        while let Some(value) = named {
            self.last[value.index()] = self.position;
            named = self.alias[value.index()];
        }
    }

    fn region(&mut self, region: &Region) {
        let number = self.regions;
        self.regions += 1;
        for node in &region.nodes {
            self.position += 1;
            match node {
                Node::Op(result, op) => {
                    for value in operands(op) {
                        self.used(value);
                    }
                    if let Op::WorkgroupId(axis) = op {
                        self.workgroup_ids[*axis as usize] = true;
                    }
                    if let (Some(value), Op::Alu(alu, values)) = (result, op)
                        && alu.row().result == Elem::Bool
                    {
                        self.compared[value.index()].clone_from(values);
                    }
                    if let Some(slot) = result.and_then(|value| self.defined.get_mut(value.index())) {
                        *slot = Some((self.position, number));
                    }
                    if let (Some(value), Some(of)) = (result, named(op)) {
                        self.alias[value.index()] = Some(of);
                    }
                    if let Some(value) = result {
                        self.own[value.index()] = named(op).is_none() && !is_elsewhere(op);
                    }
                }
                Node::If { condition, then, otherwise, merged } => {
                    self.used(*condition);
                    self.region(then);
                    self.region(otherwise);
                    self.position += 1;
                    for merge in merged {
                        self.used(merge.then);
                        self.used(merge.otherwise);
                    }
                }
                Node::Loop { first, carried, body, again } => {
                    for value in carried {
                        self.used(value.initial);
                        let initial = value.initial.index();
                        let here = self.defined[initial].is_some_and(|(_, region)| region == number);
                        self.starts[initial] |= here && self.own[initial];
                    }
                    if let Some(first) = first {
                        self.used(*first);
                    }
                    self.region(body);
                    self.position += 1;
                    self.used(*again);
                    for value in carried {
                        self.used(value.next);
                    }
                }
            }
        }
    }

    /// Finds values whose only use is a pack in the same region.
    fn packs(&mut self, function: &Function, region: &Region, regions: &mut u32) {
        let number = *regions;
        *regions += 1;
        for node in &region.nodes {
            match node {
                Node::Op(Some(pack), Op::Pack(values)) if values.len() > 1 => {
                    let mut offset = 0;
                    for value in values {
                        let here = self.defined[value.index()].is_some_and(|(_, region)| region == number);
                        let plain = |elem| matches!(elem, Elem::Int | Elem::Float | Elem::HalfPair);
                        let count = function.ty(*value).filter(|ty| plain(ty.elem)).map_or(0, |ty| ty.count);
                        if here && count > 0 && self.count[value.index()] == 1 {
                            self.packed[value.index()] = Some((*pack, offset));
                        }
                        offset += count;
                    }
                }
                Node::Op(..) => {}
                Node::If { then, otherwise, .. } => {
                    self.packs(function, then, regions);
                    self.packs(function, otherwise, regions);
                }
                Node::Loop { body, .. } => self.packs(function, body, regions),
            }
        }
    }

    /// True if a loop may take over the registers of a value it begins with: nothing else reads them, and they are
    /// written anew whenever the loop is entered.
    pub(super) fn begins(&self, value: Value) -> bool {
        self.starts[value.index()] && self.count[value.index()] == 1
    }

    /// The first write to a value's registers: those of a pack with its first element.
    fn written(&self, value: Value) -> Option<u32> {
        let (position, _) = self.defined[value.index()]?;
        let elements = self.packed.iter().zip(&self.defined);
        let elements = elements.filter(|(pack, _)| pack.is_some_and(|(pack, _)| pack == value));
        Some(elements.filter_map(|(_, defined)| defined.map(|(at, _)| at)).fold(position, u32::min))
    }

    /// True if the next value of a carried one may be defined in the register of the current: the current is not
    /// needed afterwards, and the next is computed directly in the body (`region` is the body's number).
    pub(super) fn in_place(&self, value: &Carried, all: &[Carried], body: &Region) -> bool {
        let Some(position) = self.written(value.next) else { return false };
        let direct =
            body.nodes.iter().any(|node| matches!(node, Node::Op(Some(result), _) if *result == value.next));
        let shared =
            all.iter().filter(|other| other.next == value.next || other.next == value.inside).count() > 1;
        let crossed = all.iter().any(|other| other.next == value.inside);
        direct && !shared && !crossed && self.last[value.inside.index()] <= position
    }
}

/// The value whose registers the result of an operation names.
fn named(op: &Op) -> Option<Value> {
    match op {
        Op::Extract(of, _) => Some(*of),
        Op::Pack(values) if values.len() == 1 => Some(values[0]),
        _ => None,
    }
}

/// True if the result of an operation is no register, or one that other results share.
fn is_elsewhere(op: &Op) -> bool {
    matches!(op, Op::Constant(_) | Op::Argument { .. } | Op::WorkgroupId(_))
}

/// Values that an operation reads.
pub(crate) fn operands(op: &Op) -> Vec<Value> {
    let address = |address: &crate::ir::Address| address.base.into_iter().chain(address.offset);
    match op {
        Op::Constant(_) | Op::Argument { .. } | Op::WorkgroupId(_) | Op::WorkitemId => Vec::new(),
        Op::Barrier { .. } | Op::Fence(..) | Op::ZeroFragment => Vec::new(),
        Op::Alu(_, values) | Op::Pack(values) | Op::Logic(_, values) => values.clone(),
        Op::ReadLane(a, b) | Op::LaneGather(a, b) | Op::WideAdd(a, b) | Op::WideMul(a, b) => vec![*a, *b],
        Op::Select(a, b, c) => vec![*a, *b, *c],
        Op::Extract(a, _) | Op::LaneXor(a, _) | Op::FirstLane(a) => vec![*a],
        Op::Load(from, _) => address(from).collect(),
        Op::Store(to, _, value) | Op::Atomic(_, _, to, value) => address(to).chain([*value]).collect(),
        Op::Dot4 { values, .. } | Op::Matrix(_, values) => values.to_vec(),
    }
}

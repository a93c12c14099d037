//! Effects of an instruction: registers and condition codes that it reads and writes, wait counters that it increments.
//!
//! Derived from the row and the operands. Not here: values (doorbell-soft), hazards (doorbell-compiler).

use crate::chip::{Generation, Target};
use crate::inst::Inst;
use crate::operand::{Operand, Scalar, Special, Vgpr};
use crate::row::{Flags, Format, Op};

/// Direction of an access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// Read.
    Read,
    /// Written.
    Write,
}

/// Something an instruction reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resource {
    /// Vector registers.
    Vgpr(Vgpr),
    /// Scalar registers, VCC and EXEC among them.
    Scalar(Scalar),
    /// Scalar condition code.
    Scc,
}

/// Most accesses one instruction makes.
const MAX_EFFECTS: usize = 16;

/// The accesses of one instruction, sources before destinations.
#[derive(Clone, Copy, Debug)]
pub struct Effects {
    items: [(Access, Resource); MAX_EFFECTS],
    len: usize,
}

impl Effects {
    /// Registers and condition codes that `inst` reads and writes.
    pub fn of(inst: &Inst) -> Self {
        let mut effects = Self { items: [(Access::Read, Resource::Scc); MAX_EFFECTS], len: 0 };
        let row = inst.row();
        effects.operands(inst.op, inst.operands.as_slice(), inst.dst().len());
        if let Some((op, operands)) = &inst.second {
            effects.operands(*op, operands.as_slice(), op.row().dst.len());
        }
        let lanes = row.is_vector()
            || matches!(
                row.format,
                Format::Ds | Format::Global | Format::Scratch | Format::Flat | Format::Mubuf
            );
        if row.has(Flags::EXEC_IN) || lanes {
            effects.push(Access::Read, Resource::Scalar(Scalar::EXEC_LO));
        }
        if row.has(Flags::EXEC_OUT) {
            effects.push(Access::Write, Resource::Scalar(Scalar::EXEC_LO));
        }
        if row.has(Flags::SCC_OUT) {
            effects.push(Access::Write, Resource::Scc);
        }
        effects
    }

    fn operands(&mut self, op: Op, operands: &[Operand], destinations: usize) {
        let row = op.row();
        for operand in operands.iter().skip(destinations) {
            self.operand(Access::Read, *operand);
        }
        if row.has(Flags::SCC_IN) {
            self.push(Access::Read, Resource::Scc);
        }
        if row.has(Flags::VCC_IN) {
            self.push(Access::Read, Resource::Scalar(Scalar::VCC_LO));
        }
        let swaps = row.name == "v_swap_b32";
        for operand in operands.iter().take(destinations) {
            if row.has(Flags::READS_DST) || swaps {
                self.operand(Access::Read, *operand);
            }
        }
        // v_swap_b32 writes its source as well.
        for operand in operands.iter().take(if swaps { 2 } else { destinations }) {
            self.operand(Access::Write, *operand);
        }
    }

    fn operand(&mut self, access: Access, operand: Operand) {
        match operand {
            Operand::Vgpr(reg) => self.push(access, Resource::Vgpr(reg)),
            Operand::Scalar(reg) if reg != Scalar::NULL => self.push(access, Resource::Scalar(reg)),
            Operand::Special(Special::Scc) => self.push(access, Resource::Scc),
            _ => {}
        }
    }

    fn push(&mut self, access: Access, resource: Resource) {
        if let Some(slot) = self.items.get_mut(self.len) {
            *slot = (access, resource);
            self.len += 1;
        }
    }

    /// All accesses.
    pub fn iter(&self) -> impl Iterator<Item = (Access, Resource)> + '_ {
        self.items[..self.len].iter().copied()
    }

    /// The reads.
    pub fn reads(&self) -> impl Iterator<Item = Resource> + '_ {
        self.iter().filter(|(access, _)| *access == Access::Read).map(|(_, resource)| resource)
    }

    /// The writes.
    pub fn writes(&self) -> impl Iterator<Item = Resource> + '_ {
        self.iter().filter(|(access, _)| *access == Access::Write).map(|(_, resource)| resource)
    }
}

/// A counter of outstanding memory operations. gfx11 names first: vmcnt and loadcnt are the same counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Counter {
    /// Vector-memory loads and returning atomics: vmcnt, loadcnt.
    Load,
    /// Vector-memory stores and other atomics: vscnt, storecnt.
    Store,
    /// LDS: part of lgkmcnt on gfx11, dscnt on gfx12.
    Lds,
    /// Scalar memory and messages: part of lgkmcnt on gfx11, kmcnt on gfx12.
    Scalar,
}

/// A set of counters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Counters(u8);

impl Counters {
    /// No counter.
    pub const NONE: Self = Self(0);

    /// Adds a counter.
    pub const fn with(self, counter: Counter) -> Self {
        Self(self.0 | (1 << counter as u8))
    }

    /// True if a counter is in the set.
    pub const fn has(self, counter: Counter) -> bool {
        self.0 & (1 << counter as u8) != 0
    }

    /// True if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Inst {
    /// Counters that issuing this instruction increments (RDNA manuals: memory counters by class).
    pub fn counters(&self, target: Target) -> Counters {
        let row = self.row();
        let gfx12 = target.generation() == Generation::Gfx12;
        let store = row.has(Flags::STORE) || (row.has(Flags::ATOMIC) && !self.memory.cache.returns());
        let vector = match (row.has(Flags::INVALIDATES), row.has(Flags::WRITEBACK)) {
            (true, _) if gfx12 => Counters::NONE.with(Counter::Load),
            (true, _) => Counters::NONE,
            (_, true) => Counters::NONE.with(Counter::Store),
            _ if store => Counters::NONE.with(Counter::Store),
            _ => Counters::NONE.with(Counter::Load),
        };
        match row.format {
            Format::Global | Format::Scratch | Format::Mubuf => vector,
            Format::Flat => vector.with(Counter::Lds),
            Format::Ds if row.name != "ds_nop" => Counters::NONE.with(Counter::Lds),
            Format::Smem if !row.has(Flags::PREFETCH) => Counters::NONE.with(Counter::Scalar),
            Format::Sop1 | Format::Sopp if row.name.starts_with("s_sendmsg") => {
                Counters::NONE.with(Counter::Scalar)
            }
            Format::Sop1 | Format::Sopp
                if gfx12 && matches!(row.name, "s_barrier_signal_isfirst" | "s_barrier_leave") =>
            {
                Counters::NONE.with(Counter::Scalar)
            }
            _ => Counters::NONE,
        }
    }
}

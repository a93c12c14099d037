//! Loads, stores, atomics and barriers with their ordering.

use super::{LegalizeError, Location, Lower, whole};
use crate::ir::{Address, AtomicOp, Fence, Op, Scope, Space, Value, Width};
use crate::machine::{Arg, Bank, Instr, Item, Part, Release};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::{self as isa, Cache, Generation, Operand, op};

/// Load instructions: width, global, LDS.
static LOADS: [(Width, isa::Op, isa::Op); 7] = [
    (Width::U8, op::global_load_u8, op::ds_load_u8),
    (Width::I8, op::global_load_i8, op::ds_load_i8),
    (Width::U16, op::global_load_u16, op::ds_load_u16),
    (Width::Dwords(1), op::global_load_b32, op::ds_load_b32),
    (Width::Dwords(2), op::global_load_b64, op::ds_load_b64),
    (Width::Dwords(3), op::global_load_b96, op::ds_load_b96),
    (Width::Dwords(4), op::global_load_b128, op::ds_load_b128),
];

/// Store instructions: width, global, LDS.
static STORES: [(Width, isa::Op, isa::Op); 6] = [
    (Width::U8, op::global_store_b8, op::ds_store_b8),
    (Width::U16, op::global_store_b16, op::ds_store_b16),
    (Width::Dwords(1), op::global_store_b32, op::ds_store_b32),
    (Width::Dwords(2), op::global_store_b64, op::ds_store_b64),
    (Width::Dwords(3), op::global_store_b96, op::ds_store_b96),
    (Width::Dwords(4), op::global_store_b128, op::ds_store_b128),
];

/// Atomic instructions: operation, global, LDS, LDS with result.
static ATOMICS: [(AtomicOp, isa::Op, isa::Op, isa::Op); 3] = [
    (AtomicOp::AddInt, op::global_atomic_add_u32, op::ds_add_u32, op::ds_add_rtn_u32),
    (AtomicOp::AddFloat, op::global_atomic_add_f32, op::ds_add_f32, op::ds_add_rtn_f32),
    (AtomicOp::MaxUnsigned, op::global_atomic_max_u32, op::ds_max_u32, op::ds_max_rtn_u32),
];

impl Lower<'_> {
    pub(super) fn memory_operation(
        &mut self,
        result: Option<Value>,
        operation: &Op,
    ) -> Result<(), LegalizeError> {
        match operation {
            Op::Load(address, width) => {
                let Some(value) = result else { return Ok(()) };
                if self.ty(value).uniform {
                    return self.scalar_load(value, address, *width, operation);
                }
                let Some((_, global, lds)) = LOADS.iter().find(|row| row.0 == *width) else {
                    return Err(Self::misplaced(operation));
                };
                let op = if address.space == Space::Global { *global } else { *lds };
                let part = self.result(value, Bank::Vector);
                let mut instr = Instr::new(op, vec![Arg::Reg(part)]);
                self.access(&mut instr, None, address, operation)?;
                self.set(value, Location::Part(part));
                Ok(())
            }
            Op::Store(address, width, value) => {
                let arg = self.arg(*value, operation)?;
                let data = self.in_vector(arg);
                let width = if *width == Width::I8 { Width::U8 } else { *width };
                let Some((_, global, lds)) = STORES.iter().find(|row| row.0 == width) else {
                    return Err(Self::misplaced(operation));
                };
                let op = if address.space == Space::Global { *global } else { *lds };
                self.access(&mut Instr::new(op, Vec::new()), Some(data), address, operation)
            }
            Op::Atomic(atomic, scope, address, data) => {
                let arg = self.arg(*data, operation)?;
                let data = self.in_vector(arg);
                let Some((_, global, lds, lds_old)) = ATOMICS.iter().find(|row| row.0 == *atomic) else {
                    return Err(Self::misplaced(operation));
                };
                let op = match (address.space, result) {
                    (Space::Global, _) => *global,
                    (Space::Lds, None) => *lds,
                    (Space::Lds, Some(_)) => *lds_old,
                };
                let mut instr = Instr::new(op, Vec::new());
                if address.space == Space::Global {
                    instr.memory.cache = self.atomic_cache(*scope, result.is_some());
                }
                let part = result.map(|value| self.result(value, Bank::Vector));
                instr.args.extend(part.map(Arg::Reg));
                self.access(&mut instr, Some(data), address, operation)?;
                if let (Some(value), Some(part)) = (result, part) {
                    self.set(value, Location::Part(part));
                }
                Ok(())
            }
            Op::Fence(fence, scope) => {
                self.fence(*fence, *scope);
                Ok(())
            }
            Op::Barrier { global } => {
                self.barrier(*global);
                Ok(())
            }
            other => Err(Self::misplaced(other)),
        }
    }

    /// Cache bits of a global atomic: its scope where the target encodes one, and whether it returns the old value.
    fn atomic_cache(&self, scope: Scope, returns: bool) -> Cache {
        if self.target.generation() != Generation::Gfx12 {
            return Cache::Gfx11 { glc: returns, slc: false, dlc: false };
        }
        Cache::Gfx12 { scope: encoded(scope), hint: u8::from(returns) }
    }

    /// Release: waits for what is outstanding. Acquire: that, then discards cached lines.
    fn fence(&mut self, fence: Fence, scope: Scope) {
        self.block().push(Item::Release(Release { global: true, lds: true }));
        if fence == Fence::Acquire {
            self.invalidate(scope);
        }
    }

    /// Discards lines of the vector caches inside a scope.
    fn invalidate(&mut self, scope: Scope) {
        if self.target.generation() == Generation::Gfx12 {
            let mut instr = Instr::new(op::global_inv, Vec::new());
            instr.memory.cache = Cache::Gfx12 { scope: encoded(scope), hint: 0 };
            self.block().push(Item::Instr(instr));
            return;
        }
        if scope == Scope::Device {
            self.push(op::buffer_gl1_inv, Vec::new());
        }
        self.push(op::buffer_gl0_inv, Vec::new());
    }

    /// A vector-memory or LDS access: adds address and data to an instruction that has its result, if any.
    fn access(
        &mut self,
        instr: &mut Instr,
        data: Option<Part>,
        address: &Address,
        operation: &Op,
    ) -> Result<(), LegalizeError> {
        let mut constant = address.constant;
        let mut offset = match address.offset {
            Some(value) => self.arg(value, operation)?,
            None => Arg::Reg(self.zero()),
        };
        if let Arg::Fixed(Operand::Int(value)) = offset {
            constant = constant.saturating_add(i32::from(value));
            offset = Arg::Reg(self.zero());
        }
        let offset = self.in_vector(offset);
        let address_at = instr.args.len();
        instr.args.push(Arg::Reg(offset));
        instr.args.extend(data.map(Arg::Reg));
        if let Some(base) = address.base {
            let base = self.arg(base, operation)?;
            instr.args.push(self.in_scalar(base));
        }
        instr.memory.offset = constant;
        if !self.encodes(instr) && constant != 0 {
            // The constant is out of the field's range: add it to the register.
            let reg = self.machine.reg(Bank::Vector, 1);
            let sum = Arg::Reg(whole(&self.machine, reg));
            let add = vec![sum, Arg::Fixed(Operand::int(constant)), Arg::Reg(offset)];
            self.emit(Instr::new(op::v_add_nc_u32, add), true)?;
            instr.args[address_at] = sum;
            instr.memory.offset = 0;
        }
        self.emit(instr.clone(), false)
    }

    /// A load through the scalar cache.
    fn scalar_load(
        &mut self,
        value: Value,
        address: &Address,
        width: Width,
        operation: &Op,
    ) -> Result<(), LegalizeError> {
        let op = match width {
            Width::Dwords(1) => op::s_load_b32,
            Width::Dwords(2) => op::s_load_b64,
            Width::Dwords(4) => op::s_load_b128,
            _ => return Err(Self::misplaced(operation)),
        };
        let Some(base) = address.base else { return Err(Self::misplaced(operation)) };
        let base = self.arg(base, operation)?;
        let mut constant = address.constant;
        let mut offset = match address.offset {
            Some(value) => {
                let arg = self.arg(value, operation)?;
                self.in_scalar(arg)
            }
            None => Arg::Fixed(Operand::Off),
        };
        match offset {
            Arg::Fixed(Operand::Int(value)) => {
                constant = constant.saturating_add(i32::from(value));
                offset = Arg::Fixed(Operand::Off);
            }
            Arg::Fixed(Operand::Literal(_)) => {
                let reg = self.machine.reg(Bank::Scalar, 1);
                let part = Arg::Reg(whole(&self.machine, reg));
                self.push(op::s_mov_b32, vec![part, offset]);
                offset = part;
            }
            _ => {}
        }
        let part = self.result(value, Bank::Scalar);
        let mut instr = Instr::new(op, vec![Arg::Reg(part), base, offset]);
        instr.memory.offset = constant;
        self.emit(instr, false)?;
        self.set(value, Location::Part(part));
        Ok(())
    }

    /// Release, barrier, acquire at workgroup scope (WGP mode: two vector caches).
    fn barrier(&mut self, global: bool) {
        self.block().push(Item::Release(Release { global, lds: true }));
        let gfx12 = self.target.generation() == Generation::Gfx12;
        if gfx12 {
            self.push(op::s_barrier_signal, vec![Arg::Fixed(Operand::Int(-1))]);
            self.push(op::s_barrier_wait, vec![Arg::Fixed(Operand::Immediate(0xffff))]);
        } else {
            self.push(op::s_barrier, Vec::new());
        }
        if !global {
            return;
        }
        self.invalidate(Scope::Workgroup);
    }
}

/// A scope as gfx12 encodes it (WGP mode: a workgroup spans two vector caches).
fn encoded(scope: Scope) -> isa::Scope {
    match scope {
        Scope::Workgroup => isa::Scope::Se,
        Scope::Device => isa::Scope::Device,
    }
}

//! Memory instructions: addresses at issue, data when the memory answers.
//!
//! An instruction becomes a [`Request`]; the queue of the wave decides when it is performed. Not here: that decision
//! (`tracker.rs`), caches.

mod address;
mod alu;
mod lds;
mod quick;
mod request;
mod scalar;
mod transfer;

use doorbell_isa::{Format, Op};

pub(crate) use quick::base;
pub(crate) use request::{Destination, Place, Request};
pub(crate) use transfer::{Transfer, find as transfer_of};

use super::fault::Cause;
use super::step::{Next, Run, Step};
use super::unit::Core;

/// Issues a vector memory or LDS instruction.
fn issue(core: &mut Core<'_>, step: &Step) -> Result<Next, Cause> {
    if core.is_unwatched() && quick::vector(core, step) {
        return Ok(Next::Following);
    }
    let Some(request) = address::request(core.wave, step)? else { return Ok(Next::Following) };
    core.submit(step, request)?;
    Ok(Next::Following)
}

/// Issues a scalar load.
fn issue_scalar(core: &mut Core<'_>, step: &Step) -> Result<Next, Cause> {
    if core.is_unwatched() && quick::scalar_load(core, step) {
        return Ok(Next::Following);
    }
    let request = scalar::request(core.wave, step)?;
    core.submit(step, request)?;
    Ok(Next::Following)
}

/// Neither data nor caches are touched.
fn hint(_: &mut Core<'_>, _: &Step) -> Result<Next, Cause> {
    Ok(Next::Following)
}

/// Cache maintenance moves no data.
fn maintenance(core: &mut Core<'_>, step: &Step) -> Result<Next, Cause> {
    core.maintain(step);
    Ok(Next::Following)
}

fn permute(core: &mut Core<'_>, step: &Step) -> Result<Next, Cause> {
    let request = lds::permute(core.wave, step);
    core.submit(step, request)?;
    Ok(Next::Following)
}

/// The handler of a memory instruction.
pub(crate) fn find(op: Op) -> Option<Run> {
    use doorbell_isa::Flags;
    let row = op.row();
    let moves = row.has(Flags::LOAD) || row.has(Flags::STORE) || row.has(Flags::ATOMIC);
    Some(Run::Special(match row.format {
        Format::Smem if row.has(Flags::LOAD) => issue_scalar,
        Format::Ds if row.has(Flags::PERMUTES) => permute,
        Format::Ds | Format::Global | Format::Flat | Format::Scratch | Format::Mubuf if moves => {
            transfer::find(row)?;
            issue
        }
        Format::Smem if row.has(Flags::PREFETCH) => hint,
        Format::Ds if row.name == "ds_nop" => hint,
        Format::Smem | Format::Global | Format::Mubuf => maintenance,
        _ => return None,
    }))
}

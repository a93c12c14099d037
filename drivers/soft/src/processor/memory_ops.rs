//! Memory instructions: addresses at issue, data when the memory answers.
//!
//! An instruction becomes a [`Request`](super::request::Request). Not here: the time when it is performed
//! (`operations.rs`), caches.

mod address;
mod lds;
mod fast_path;
mod scalar;

use doorbell_isa::{Flags, Format, Op};

use super::context::Context;
use super::fault::Cause;
use super::handler::Run;
use super::step::{Next, Step};
use super::transfer::transfer_of;

/// Issues a vector memory or LDS instruction.
fn issue(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    if context.is_unwatched() && fast_path::vector(context, step) {
        return Ok(Next::Following);
    }
    let Some(request) = address::request(context.wave, step)? else { return Ok(Next::Following) };
    context.submit(step, request)?;
    Ok(Next::Following)
}

/// Issues a scalar load.
fn issue_scalar(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    if context.is_unwatched() && fast_path::scalar_load(context, step) {
        return Ok(Next::Following);
    }
    let request = scalar::request(context.wave, step)?;
    context.submit(step, request)?;
    Ok(Next::Following)
}

/// Neither data nor caches are touched.
fn hint(_: &mut Context<'_>, _: &Step) -> Result<Next, Cause> {
    Ok(Next::Following)
}

/// Cache maintenance moves no data.
fn maintenance(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    context.maintain(step);
    Ok(Next::Following)
}

fn permute(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let request = lds::permute(context.wave, step);
    context.submit(step, request)?;
    Ok(Next::Following)
}

/// The handler of a memory instruction.
pub(crate) fn find(op: Op) -> Option<Run> {
    let row = op.row();
    let moves = row.has(Flags::LOAD) || row.has(Flags::STORE) || row.has(Flags::ATOMIC);
    Some(Run::Special(match row.format {
        Format::Smem if row.has(Flags::LOAD) => issue_scalar,
        Format::Ds if row.has(Flags::PERMUTES) => permute,
        Format::Ds | Format::Global | Format::Flat | Format::Scratch | Format::Mubuf if moves => {
            transfer_of(row)?;
            issue
        }
        Format::Smem if row.has(Flags::PREFETCH) => hint,
        Format::Ds if row.name == "ds_nop" => hint,
        Format::Smem | Format::Global | Format::Mubuf => maintenance,
        _ => return None,
    }))
}

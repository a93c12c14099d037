//! Tensor declarations: shape, type, and offset of the data.

use super::cursor::Cursor;
use super::{Fault, GgufError, Label, Subject};
use crate::heap::{self, Heap};
use crate::quant::Type;

/// Most tensors of a file.
pub(super) const TENSOR_LIMIT: u64 = 1 << 18;

/// Least bytes of a declaration, without name and dimensions.
pub(super) const TENSOR_BYTES: u64 = 8 + 4 + 4 + 8;

/// Most bytes of a name.
const NAME_LIMIT: u64 = 63;

/// A tensor, borrowed from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// The name, at most 63 bytes.
    pub name: &'a [u8],
    /// Elements along each axis, fastest first: `dims[0]` is the row length. Missing axes are 1.
    pub dims: [u64; 4],
    /// The number of axes that the file declares, 0 to 4.
    pub rank: u8,
    /// The type of the elements.
    pub ty: Type,
    /// The data, of the length that follows from shape and type.
    pub data: &'a [u8],
    /// Offset of the data in its file, in bytes.
    pub at: u64,
    /// Index of the file in a split set, from 0.
    pub part: usize,
}

impl<'a> Tensor<'a> {
    /// The name if it is UTF-8.
    pub fn name_str(&self) -> Option<&'a str> {
        core::str::from_utf8(self.name).ok()
    }

    /// The number of elements.
    pub fn elements(&self) -> u64 {
        count(&self.dims)
    }

    /// The number of rows of `dims[0]` elements; saturated, since there can be more empty rows than a u64 holds.
    pub fn rows(&self) -> u64 {
        count(&self.dims[1..])
    }
}

/// A product that is zero if a factor is, however large the others are.
fn count(dims: &[u64]) -> u64 {
    if dims.contains(&0) { 0 } else { dims.iter().fold(1, |product, dim| product.saturating_mul(*dim)) }
}

/// Bytes of data of a shape; `None` beyond 63 bits. The row length is a multiple of the block.
fn data_bytes(ty: Type, dims: [u64; 4]) -> Option<u64> {
    // A product with a zero in it is zero, however large the other factors are.
    let elements = match dims {
        _ if dims.contains(&0) => 0,
        _ => dims.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim))?,
    };
    let blocks = elements / ty.block_len() as u64;
    let bytes = blocks.checked_mul(ty.block_bytes() as u64)?;
    (elements.max(bytes) <= i64::MAX as u64).then_some(bytes)
}

/// Bytes of data if id 42 means 128 elements in 34 bytes, as in a fork, and not 64 in 18.
fn private_bytes(tensor: &Tensor<'_>) -> Option<u64> {
    let fits = tensor.ty == Type::Q2_0 && tensor.dims[0].is_multiple_of(128);
    fits.then(|| tensor.elements() / 128 * 34)
}

fn refuse(tensor: &Tensor<'_>, at: u64, fault: Fault) -> GgufError {
    Subject::Tensor(Label::new(tensor.name)).fault(at, fault)
}

/// Reads `count` declarations, which the caller has checked against the limit and the bytes left, and finds
/// their data in `file`.
pub(super) fn read<'a>(
    cursor: &mut Cursor<'a>,
    count: u64,
    alignment: u64,
    file: &'a [u8],
    heap: Heap<'a>,
) -> Result<heap::Vec<'a, Tensor<'a>>, GgufError> {
    // Each declaration has at least a quarter of its size in the file.
    let room = usize::try_from(count).unwrap_or(usize::MAX);
    let mut tensors =
        heap::with_capacity(heap, room).map_err(|error| Subject::Header.fault(cursor.at(), error.into()))?;
    let mut end = 0;
    for index in 0..count {
        let at = cursor.at();
        let (tensor, bytes) = declaration(cursor, index)?;
        if tensor.at != end {
            return Err(misplaced(tensors.last(), &tensor, end, alignment, at));
        }
        end = bytes
            .checked_next_multiple_of(alignment)
            .and_then(|padded| end.checked_add(padded))
            .filter(|end| *end <= i64::MAX as u64)
            .ok_or_else(|| refuse(&tensor, at, Fault::SizeOverflow))?;
        heap::push(&mut tensors, tensor)
            .map_err(|error| Subject::Declaration(index).fault(at, error.into()))?;
    }
    // Below 2^64: the cursor is inside the file, the alignment is a u32 and `end` has 63 bits.
    let start = cursor.at().next_multiple_of(alignment);
    for tensor in &mut tensors {
        locate(tensor, start, alignment, file)?;
    }
    Ok(tensors)
}

/// One declaration, with the offset in the data section for `at`, and its bytes of data.
fn declaration<'a>(cursor: &mut Cursor<'a>, index: u64) -> Result<(Tensor<'a>, u64), GgufError> {
    let at = cursor.at();
    let nameless = |fault| Subject::Declaration(index).fault(at, fault);
    let mut ahead = *cursor;
    let length = ahead.u64().map_err(nameless)?;
    if length > NAME_LIMIT {
        return Err(nameless(Fault::NameLength { found: length }));
    }
    let name = cursor.string().map_err(nameless)?;
    shape(cursor, name).map_err(|fault| Subject::Tensor(Label::new(name)).fault(cursor.at(), fault))
}

fn shape<'a>(cursor: &mut Cursor<'a>, name: &'a [u8]) -> Result<(Tensor<'a>, u64), Fault> {
    let found = cursor.u32()?;
    let rank = u8::try_from(found).ok().filter(|rank| *rank <= 4).ok_or(Fault::Rank { found })?;
    let mut dims = [1; 4];
    for (axis, dim) in (0..rank).zip(&mut dims) {
        *dim = cursor.u64()?;
        let found = dim.cast_signed();
        if found < 0 {
            return Err(Fault::Dimension { axis, found });
        }
    }
    let found = cursor.u32()?;
    let ty = Type::from_id(found).ok_or(Fault::TensorType { found })?;
    if ty.is_removed() {
        return Err(Fault::RemovedType { ty });
    }
    if !dims[0].is_multiple_of(ty.block_len() as u64) {
        return Err(Fault::RowLength { ty, found: dims[0] });
    }
    let bytes = data_bytes(ty, dims).ok_or(Fault::SizeOverflow)?;
    Ok((Tensor { name, dims, rank, ty, data: &[], at: cursor.u64()?, part: 0 }, bytes))
}

/// The fault of a `tensor` that is not at `end`: its own offset, or an unusual layout of the tensor before it.
fn misplaced(
    before: Option<&Tensor<'_>>,
    tensor: &Tensor<'_>,
    end: u64,
    alignment: u64,
    at: u64,
) -> GgufError {
    if let Some(before) = before
        && let Some(bytes) = private_bytes(before)
        && before.at.checked_add(bytes.next_multiple_of(alignment)) == Some(tensor.at)
    {
        return refuse(before, at, Fault::PrivateQ2_0);
    }
    refuse(tensor, at, Fault::Offset { expected: end, found: tensor.at })
}

/// Converts the offset in the data section at `start` to an offset in `file`, and gets the data.
fn locate<'a>(tensor: &mut Tensor<'a>, start: u64, alignment: u64, file: &'a [u8]) -> Result<(), GgufError> {
    let needed = data_bytes(tensor.ty, tensor.dims).unwrap_or(u64::MAX);
    tensor.at += start;
    if needed == 0 {
        return Ok(());
    }
    let rest = usize::try_from(tensor.at).ok().and_then(|at| file.get(at..)).unwrap_or_default();
    let data = usize::try_from(needed).ok().and_then(|needed| rest.get(..needed));
    let Some(data) = data else {
        let present = rest.len() as u64;
        let private = private_bytes(tensor);
        let fault =
            if private.is_some_and(|bytes| (bytes..=bytes.next_multiple_of(alignment)).contains(&present)) {
                Fault::PrivateQ2_0
            } else {
                Fault::DataPastEnd { needed, present }
            };
        return Err(refuse(tensor, tensor.at, fault));
    };
    tensor.data = data;
    Ok(())
}

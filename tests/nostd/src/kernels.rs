//! The CPU driver's kernels without an operating system: the best instruction set by CPUID, on a matrix of the model.

use crate::arena::Arena;
use crate::system::line;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{self, Heap, OutOfMemory, Vec};
use doorbell_core::quant;
use doorbell_cpu::activations::{Layout, Quantize};
use doorbell_cpu::features::Isa;
use doorbell_cpu::product::{OUT_COLS, Products, Scratch, Selection, Weights};

/// Multiplies a matrix of the model by a vector on every instruction set of the processor, and prints the largest
/// difference from core's products as a share of the largest of them.
pub(crate) fn print<const N: usize>(file: &[u8], arena: &'static Arena<N>) -> bool {
    match compare(file, arena.heap()) {
        Ok(Some(())) => true,
        Ok(None) => {
            line!("kernels: no such matrix");
            false
        }
        Err(error) => {
            line!("kernels: {error}");
            false
        }
    }
}

fn compare<'a>(file: &'a [u8], heap: Heap<'a>) -> Result<Option<()>, OutOfMemory> {
    let Ok(gguf) = Gguf::parse(file, heap) else { return Ok(None) };
    let Some(tensor) = gguf.tensor("output.weight") else { return Ok(None) };
    let cols = tensor.dims[0] as usize;
    let Ok(weights) = Weights::new(tensor.ty, cols, tensor.data) else { return Ok(None) };
    let mut x = heap::filled(heap, cols, 0_f32)?;
    x.iter_mut().zip(0_i16..).for_each(|(x, index)| *x = f32::from(index * 37 % 101 - 50) / 16.0);
    let Some(expected) = expected(tensor.ty, tensor.data, &x, heap)? else { return Ok(None) };
    let largest = expected.iter().fold(0_f32, |largest, y| largest.max(y.abs()));
    for isa in Isa::available() {
        let Some(found) = products(isa, &weights, &x, heap)? else { return Ok(None) };
        let worst = found.iter().zip(&expected).fold(0_f32, |worst, (a, b)| worst.max((a - b).abs()));
        line!("kernels {isa:?} {:e}", worst / largest);
    }
    Ok(Some(()))
}

/// The products by core, weights dequantized and activations as they are.
fn expected<'h>(
    ty: quant::Type,
    data: &[u8],
    x: &[f32],
    heap: Heap<'h>,
) -> Result<Option<Vec<'h, f32>>, OutOfMemory> {
    let Some(row_bytes) = ty.row_bytes(x.len()) else { return Ok(None) };
    let mut weights = heap::filled(heap, x.len(), 0_f32)?;
    let mut products = heap::with_capacity(heap, data.len() / row_bytes)?;
    for row in data.chunks_exact(row_bytes) {
        if quant::dequantize(ty, row, &mut weights).is_err() {
            return Ok(None);
        }
        let product = weights.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>();
        heap::push(&mut products, product as f32)?;
    }
    Ok(Some(products))
}

/// The products by the driver.
fn products<'h>(
    isa: Isa,
    weights: &Weights<'_>,
    x: &[f32],
    heap: Heap<'h>,
) -> Result<Option<Vec<'h, f32>>, OutOfMemory> {
    let Some(layout) = Layout::new(weights.activation(), x.len()) else { return Ok(None) };
    let mut panel = heap::filled(heap, layout.stride, 0_u8)?;
    isa.run(Quantize::new(&layout, x, &mut panel));
    let mut scratch = Scratch::new(heap);
    scratch.reserve(x.len(), weights.row_bytes())?;
    let selection = Selection::Range { first: 0, count: 1 };
    let mut all = heap::with_capacity(heap, weights.strips() * OUT_COLS / 2)?;
    for strip in (0..weights.strips()).step_by(2) {
        let right = (strip + 1 < weights.strips()).then(|| weights.strip(strip + 1));
        let mut out = [0_f32; OUT_COLS];
        Products::new(isa, &layout, &panel, selection).pair(
            weights.strip(strip),
            right,
            &mut scratch,
            &mut out,
        );
        heap::extend(&mut all, &out)?;
    }
    Ok(Some(all))
}

//! Keys and values in the device's layout, one element at a time.

use alloc::vec::Vec;
use doorbell_core::backend::KvType;
use doorbell_core::plan::{KvSlot, PAGE_TOKENS, PageId};
use doorbell_core::quant::{self, Activation, Type};
use doorbell_core::reference::{Cache, Cached};
use doorbell_kernels::KvLayout;
use doorbell_kfd::memory::Buffer;
use half::f16;

/// The keys and values of one sequence in one layer.
pub(crate) struct Slot<'s> {
    pub(crate) buffers: [&'s Buffer; 2],
    pub(crate) layouts: [KvLayout; 2],
    pub(crate) slot: KvSlot,
    pub(crate) pages: &'s [PageId],
}

impl Slot<'_> {
    /// The buffer, and the byte at which a head's vector starts.
    fn place(&self, which: Cached, position: u32, head: usize) -> (&Buffer, KvLayout, u64) {
        let index = usize::from(which == Cached::Value);
        let layout = self.layouts[index];
        let (page, within) = (position as usize / PAGE_TOKENS, position as usize % PAGE_TOKENS);
        // The batch has been checked: the page is there.
        let page = self.pages.get(page).map_or(0, |page| u64::from(page.0));
        let at = page * layout.page_bytes()
            + u64::from(self.slot.layer) * layout.layer_bytes()
            + head as u64 * layout.head_bytes()
            + within as u64 * layout.row_bytes();
        (self.buffers[index], layout, at)
    }

    /// Where a vector goes and what its bytes are.
    pub(crate) fn encoded(
        &self,
        which: Cached,
        position: u32,
        head: usize,
        values: &[f32],
    ) -> (&Buffer, u64, Vec<u8>) {
        let (buffer, layout, at) = self.place(which, position, head);
        let bytes = match layout.kv {
            KvType::F32 => bytemuck::cast_slice(values).to_vec(),
            KvType::F16 => values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect(),
            KvType::Q8_0 => {
                let mut bytes = alloc::vec![0; layout.row_bytes() as usize];
                // The vector is whole blocks and the bytes are theirs.
                let _ = Activation::Q8_0.quantize(values, &mut bytes);
                bytes
            }
        };
        (buffer, at, bytes)
    }
}

impl Cache for Slot<'_> {
    fn read(&self, which: Cached, position: u32, head: usize, to: &mut [f32]) {
        let (buffer, layout, at) = self.place(which, position, head);
        let mut bytes = alloc::vec![0; layout.row_bytes() as usize];
        if let Some(window) = buffer.window() {
            window.read(at as usize, &mut bytes);
        }
        match layout.kv {
            KvType::F32 => {
                let words = bytes.as_chunks().0;
                to.iter_mut().zip(words).for_each(|(to, word)| *to = f32::from_le_bytes(*word));
            }
            KvType::F16 => {
                let words = bytes.as_chunks().0;
                to.iter_mut().zip(words).for_each(|(to, word)| *to = f16::from_le_bytes(*word).to_f32());
            }
            KvType::Q8_0 => {
                // As above.
                let _ = quant::dequantize(Type::Q8_0, &bytes, to);
            }
        }
    }
}

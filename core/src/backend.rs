//! The seam between core and its drivers: who executes plans, and what comes back.

use crate::model::Model;
use crate::plan::{Batch, Op, PageId, Plan};
use crate::quant::Type;
use crate::token::TokenId;
use core::fmt;
use core::str::FromStr;

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum KvType {
    /// Half precision.
    #[default]
    F16,
    /// Single precision.
    F32,
    /// Blocks of 32 elements of a head as signed bytes under a scale, as [`Activation::Q8_0`] quantizes them:
    /// keys after they are rotated, values as they are.
    ///
    /// [`Activation::Q8_0`]: crate::quant::Activation::Q8_0
    Q8_0,
}

impl KvType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F16, Self::F32, Self::Q8_0];

    /// The format of a key or a value.
    pub const fn format(self) -> Type {
        match self {
            Self::F16 => Type::F16,
            Self::F32 => Type::F32,
            Self::Q8_0 => Type::Q8_0,
        }
    }

    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::Q8_0 => "q8_0",
        }
    }

    /// Elements of a block; heads are a whole number of them.
    pub fn block_len(self) -> usize {
        self.format().block_len()
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.format().block_bytes()
    }

    /// Bytes of a key or value of `dim` elements; `None` when that is no whole number of blocks, or overflows.
    pub fn row_bytes(self, dim: usize) -> Option<usize> {
        self.format().row_bytes(dim)
    }

    /// Whether keys and values of a model can be kept so.
    ///
    /// # Errors
    /// [`KvError`] when a head is no whole number of blocks.
    pub fn check(self, model: &Model<'_>) -> Result<(), KvError> {
        let dims = model.groups.iter().flat_map(|group| [group.key_dim, group.value_dim]);
        match dims.into_iter().find(|&dim| self.row_bytes(dim as usize).is_none()) {
            Some(dim) => Err(KvError { kv: self, dim }),
            None => Ok(()),
        }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KvType {
    type Err = UnknownKvType;

    fn from_str(name: &str) -> Result<Self, UnknownKvType> {
        Self::ALL.into_iter().find(|kv| kv.name() == name).ok_or(UnknownKvType)
    }
}

/// A name that is none of [`KvType::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownKvType;

impl fmt::Display for UnknownKvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys and values can be kept as f16, f32 or q8_0")
    }
}

impl core::error::Error for UnknownKvType {}

/// Heads that cannot be kept in a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct KvError {
    /// The type.
    pub kv: KvType,
    /// Elements of the head.
    pub dim: u32,
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kv, dim } = self;
        let len = kv.block_len();
        write!(f, "heads of {dim} elements are not blocks of {len}, in which {kv} keeps them; use f16")
    }
}

impl core::error::Error for KvError {}

/// What a step of a chain picks where a logit is NaN or plus infinity, or all are minus infinity: no token. The chain
/// goes on, for the sake of the other rows.
pub const UNPICKED: TokenId = TokenId(u32::MAX - 1);

/// What one step delivers, one entry per output row of the batch.
#[derive(Clone, Copy, Debug)]
pub enum Output<'b> {
    /// `[outputs, vocab]`
    Logits(&'b [f32]),
    /// `[outputs]`; in a chain [`UNPICKED`] where there is none
    Tokens(&'b [TokenId]),
    /// `[outputs, width]`
    Hidden(&'b [f32]),
}

/// What a page of keys and values looks like outside its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFormat {
    /// Which backend's order of elements it is; pages of equal form can be exchanged.
    pub layout: &'static str,
    /// The type of keys and values.
    pub kv: KvType,
    /// Bytes of a page, all groups together.
    pub bytes: usize,
}

impl PageFormat {
    /// Whether there is such a page among `pages`, and `found` bytes are those of one.
    ///
    /// # Errors
    /// [`PageError::Page`] or [`PageError::Length`].
    pub fn check(&self, page: PageId, pages: u32, found: usize) -> Result<(), PageError> {
        let expected = self.bytes;
        if page.0 >= pages {
            Err(PageError::Page { page, pages })
        } else if found != expected {
            Err(PageError::Length { expected, found })
        } else {
            Ok(())
        }
    }
}

/// Why a page can't be handed out or taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PageError {
    /// The device keeps its pages to itself.
    Unsupported,
    /// There is no such page.
    Page {
        /// The page.
        page: PageId,
        /// Pages of each group.
        pages: u32,
    },
    /// Not the bytes of a page.
    Length {
        /// Bytes of a page.
        expected: usize,
        /// Bytes that came.
        found: usize,
    },
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => {
                f.write_str("this device does not hand out keys and values; use --device cpu")
            }
            Self::Page { page, pages } => write!(f, "page {} is not among the {pages} there are", page.0),
            Self::Length { expected, found } => write!(f, "a page has {expected} bytes, not {found}"),
        }
    }
}

impl core::error::Error for PageError {}

/// Executes plans of one model; owns the KV pools and the activation arena.
///
/// One step is in flight at a time. Pages are the caller's to hand out; what was written to a page stays until it
/// is written again.
pub trait Backend {
    /// What can go wrong; the backend stays usable unless its documentation says otherwise.
    type Error: core::error::Error;

    /// Whether the device runs this operation itself.
    fn supports(&self, op: &Op) -> bool;

    /// Takes all memory that steps of this plan will need, so that running out shows before there are requests.
    ///
    /// # Errors
    /// No room. The backend stays usable for plans that it has room for.
    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), Self::Error> {
        let _ = plan;
        Ok(())
    }

    /// Starts a step. A blocking backend runs it here.
    ///
    /// # Errors
    /// A batch that breaks a rule of [`Batch::check`], or a fault of the device. No step is in flight then.
    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), Self::Error>;

    /// Whether steps can feed each other on this device: whether [`Backend::max_steps`] is ever more than 1.
    fn supports_multi_step(&self) -> bool {
        false
    }

    /// Most steps of a chain of a reserved plan that delivers [`Output::Tokens`].
    fn max_steps(&self, plan: &Plan<'_>) -> u32 {
        let _ = plan;
        1
    }

    /// Starts a chain of `steps` steps. Each but the first reads the tokens that the one before it has delivered, at
    /// the next positions, and nothing comes back to the host in between: [`Backend::poll`] gives the steps' tokens
    /// one after another, once each.
    ///
    /// Every run of the batch is one row, and all rows are outputs. Page tables reach as far as the last step does.
    ///
    /// # Errors
    /// As [`Backend::submit`]; more steps than [`Backend::max_steps`] says are a broken rule, too.
    fn submit_multi_step(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        steps: u32,
    ) -> Result<(), Self::Error> {
        let _ = steps;
        self.submit(plan, batch)
    }

    /// The result of the step in flight; `None` while it runs. Never blocks.
    ///
    /// # Errors
    /// A fault of the device. No step is in flight then.
    fn poll(&mut self) -> Result<Option<Output<'_>>, Self::Error>;

    /// Nothing is to be computed for a while: what draws power while it waits may go to rest. The next step wakes it.
    ///
    /// # Errors
    /// The device refuses; it can be used all the same.
    fn suspend(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// What pages look like outside; `None` where the device keeps them to itself.
    fn page_format(&self) -> Option<PageFormat> {
        None
    }

    /// Copies a page that no step in flight writes.
    ///
    /// # Errors
    /// [`PageError`]
    fn read_page(&mut self, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        let (_, _) = (page, to);
        Err(PageError::Unsupported)
    }

    /// Replaces the contents of a page that no step in flight uses.
    ///
    /// Any bytes are taken: those of no page give wrong answers, and nothing worse.
    ///
    /// # Errors
    /// [`PageError`]
    fn write_page(&mut self, page: PageId, from: &[u8]) -> Result<(), PageError> {
        let (_, _) = (page, from);
        Err(PageError::Unsupported)
    }
}

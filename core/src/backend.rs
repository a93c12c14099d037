//! The interface between core and its drivers: a backend runs the plans of one model and returns their output.

use crate::plan::{Batch, GroupId, KvPages, MAX_GROUPS, Op, PageId, Plan, StateId};
use crate::token::TokenId;
use core::fmt;

pub use crate::plan::{KvError, KvType, UnknownKvType};

/// The token that a step of a multi-step batch picks if a logit is NaN or plus infinity, or all are minus infinity. The
/// following steps run all the same, for the other rows.
pub const UNPICKED: TokenId = TokenId(u32::MAX - 1);

/// The output of one step, one entry per output row of the batch.
#[derive(Clone, Copy, Debug)]
pub enum Output<'b> {
    /// `[outputs, vocab]`
    Logits(&'b [f32]),
    /// `[outputs]`; in a multi-step batch [`UNPICKED`] if no token could be picked.
    Tokens(&'b [TokenId]),
    /// `[outputs, width]`
    Hidden(&'b [f32]),
}

/// The format of the contents of pages and recurrent states outside their backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFormat {
    /// Name of the backend's order of elements; pages and states of equal format can be exchanged.
    pub layout: &'static str,
    /// The type of keys and values.
    pub kv: KvType,
    /// `[groups]`: bytes of a page.
    pub pages: [usize; MAX_GROUPS],
    /// Bytes of a recurrent state; 0 for models without one.
    pub state: usize,
}

impl PageFormat {
    /// Bytes of a page of a group.
    pub fn page(&self, group: GroupId) -> usize {
        self.pages.get(group.index()).copied().unwrap_or(0)
    }

    /// Bytes of a page of every group and of a state, which formats have in common that can be exchanged.
    pub fn total(&self) -> usize {
        self.pages.into_iter().fold(self.state, usize::saturating_add)
    }

    /// Checks that a backend with these pages has a page, and that `found` bytes are those of one.
    ///
    /// # Errors
    /// [`PageError::Page`] or [`PageError::Length`].
    pub fn check(
        &self,
        group: GroupId,
        page: PageId,
        pages: &KvPages,
        found: usize,
    ) -> Result<(), PageError> {
        let (expected, pages) = (self.page(group), pages.of(group));
        if page.0 >= pages {
            Err(PageError::Page { page, pages })
        } else if found != expected {
            Err(PageError::Length { expected, found })
        } else {
            Ok(())
        }
    }

    /// Checks that a backend with `states` recurrent states has this one, and that `found` bytes are those of one.
    ///
    /// # Errors
    /// [`PageError::State`] or [`PageError::Length`].
    pub fn check_state(&self, state: StateId, states: u32, found: usize) -> Result<(), PageError> {
        let expected = self.state;
        if state.0 >= states {
            Err(PageError::State { state, states })
        } else if found != expected {
            Err(PageError::Length { expected, found })
        } else {
            Ok(())
        }
    }
}

/// A page or a state that can't be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PageError {
    /// The device gives no access to its pages and states.
    Unsupported,
    /// There is no such page.
    Page {
        /// The page.
        page: PageId,
        /// Pages of the group.
        pages: u32,
    },
    /// There is no such state.
    State {
        /// The state.
        state: StateId,
        /// States that there are.
        states: u32,
    },
    /// Not the bytes of a page or a state.
    Length {
        /// Bytes of it.
        expected: usize,
        /// Bytes found.
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
            Self::State { state, states } => {
                write!(f, "recurrent state {} is not among the {states} there are", state.0)
            }
            Self::Length { expected, found } => {
                write!(f, "a page or state has {expected} bytes, not {found}")
            }
        }
    }
}

impl core::error::Error for PageError {}

/// Runs plans of one model; owns the storage of KV pages and the activation arena.
///
/// One step is in flight at a time. The caller assigns pages; the contents of a page stay until they are written again.
pub trait Backend {
    /// Errors; the backend stays usable unless its documentation says otherwise.
    type Error: core::error::Error;

    /// True if the device runs this operation itself.
    fn supports(&self, op: &Op) -> bool;

    /// Reserves all memory that steps of this plan need, so that a lack of memory shows before there are requests.
    ///
    /// # Errors
    /// Too little memory. The backend stays usable for the plans that are reserved already.
    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), Self::Error> {
        let _ = plan;
        Ok(())
    }

    /// Takes the memory of `count` recurrent states, for models that have one; what they hold is lost.
    ///
    /// # Errors
    /// No room. The backend has no states then.
    fn reserve_states(&mut self, count: u32) -> Result<(), Self::Error> {
        let _ = count;
        Ok(())
    }

    /// Copies a recurrent state; no step is in flight. States that are not there are left alone.
    fn copy_state(&mut self, from: StateId, to: StateId) {
        let (_, _) = (from, to);
    }

    /// Starts a step. A blocking backend runs it here.
    ///
    /// # Errors
    /// A batch that breaks a rule of [`Batch::check`], or a fault of the device. No step is in flight then.
    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), Self::Error>;

    /// True if steps can feed each other on this device, that is, if [`Backend::max_steps`] can be more than 1.
    fn supports_multi_step(&self) -> bool {
        false
    }

    /// Most steps of a multi-step batch of a reserved plan with [`Output::Tokens`].
    fn max_steps(&self, plan: &Plan<'_>) -> u32 {
        let _ = plan;
        1
    }

    /// Starts a batch of `steps` steps. Each but the first reads the tokens that the one before it has picked, at the next
    /// positions, without the host in between. [`Backend::poll`] returns the tokens of one step after another, once
    /// each.
    ///
    /// Every run of the batch is one row, and all rows are outputs. Page tables reach as far as the last step does.
    ///
    /// # Errors
    /// As [`Backend::submit`]; more steps than [`Backend::max_steps`] are an error, too.
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

    /// Lets the device save power while there is nothing to compute. The next step resumes it.
    ///
    /// # Errors
    /// The device refuses; it can be used all the same.
    fn suspend(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The format of pages and states outside the backend; `None` if the device gives no access to them.
    fn page_format(&self) -> Option<PageFormat> {
        None
    }

    /// Copies the contents of a page of a group that no step in flight writes.
    ///
    /// # Errors
    /// [`PageError`]
    fn read_page(&mut self, group: GroupId, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        let (_, _, _) = (group, page, to);
        Err(PageError::Unsupported)
    }

    /// Replaces the contents of a page of a group that no step in flight uses.
    ///
    /// Any bytes are accepted: wrong ones give wrong outputs, and nothing worse.
    ///
    /// # Errors
    /// [`PageError`]
    fn write_page(&mut self, group: GroupId, page: PageId, from: &[u8]) -> Result<(), PageError> {
        let (_, _, _) = (group, page, from);
        Err(PageError::Unsupported)
    }

    /// Copies the contents of a recurrent state that no step in flight writes.
    ///
    /// # Errors
    /// [`PageError`]
    fn read_state(&mut self, state: StateId, to: &mut [u8]) -> Result<(), PageError> {
        let (_, _) = (state, to);
        Err(PageError::Unsupported)
    }

    /// Replaces the contents of a recurrent state that no step in flight uses. As with pages, any bytes are accepted.
    ///
    /// # Errors
    /// [`PageError`]
    fn write_state(&mut self, state: StateId, from: &[u8]) -> Result<(), PageError> {
        let (_, _) = (state, from);
        Err(PageError::Unsupported)
    }
}

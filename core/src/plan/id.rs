//! Typed indexes into a model's lists, so that the compiler tells them apart.

/// A matrix or expert stack of the model, by position in `Model::weights`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WeightId(pub u32);

/// A small f32 vector of the model (norms, biases, scales), by position in `Model::vectors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct VectorId(pub u32);

/// A rotary embedding of the model, by position in `Model::ropes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RopeId(pub u8);

/// A KV group of the model (layers that share head shape and window), by position in `Model::groups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct GroupId(pub u8);

impl WeightId {
    /// The position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl VectorId {
    /// The position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl RopeId {
    /// The position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl GroupId {
    /// The position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An activation tensor of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TensorId(pub u16);

impl TensorId {
    /// The position in `Plan::tensors`.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

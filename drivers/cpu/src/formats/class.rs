//! Classes of formats: what integer arithmetic a block takes. The formats are beside this file.

/// A class of integer arithmetic. Formats of one class share their compiled kernels.
pub(crate) trait Class: Copy + 'static {
    /// Codes per integer scale.
    const SUB: usize;
    /// Minima instead of an offset.
    const MINIMA: bool;
    /// Codes reach 128 and above.
    const WIDE: bool;
}

/// Declares classes: name, codes per scale, minima, wide.
macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident($sub:literal, $minima:literal, $wide:literal);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;
        impl Class for $name {
            const SUB: usize = $sub;
            const MINIMA: bool = $minima;
            const WIDE: bool = $wide;
        }
    )*};
}

classes! {
    /// Sub-blocks of 32 with minima.
    Minima32(32, true, false);
    /// Sub-blocks of 16 with minima.
    Minima16(16, true, false);
    /// Sub-blocks of 32 around an offset.
    Offset32(32, false, false);
    /// Sub-blocks of 16 around an offset.
    Offset16(16, false, false);
    /// Sub-blocks of 32 around 128.
    Wide32(32, false, true);
}

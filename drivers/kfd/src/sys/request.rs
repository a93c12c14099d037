//! ioctl request words as a table. The structs they carry are in `abi`.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h`, `include/uapi/drm/amdgpu_drm.h` (Linux 6.1, 6.12, 7.2). The kernel
//! picks the handler by the number alone and copies `min(size here, size there)` bytes, zero-filling the rest
//! (`kfd_chardev.c:kfd_ioctl`), so the newest struct works everywhere.

/// An ioctl request word: direction, size, type and number packed as `asm-generic/ioctl.h` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request(pub u32);

/// The pointer field of an argument struct, and the size of the data that it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerField {
    /// Byte offset of the 64-bit pointer field.
    pub pointer: usize,
    /// Byte offset of the 32-bit field that counts elements.
    pub count: usize,
    /// Bytes of one element.
    pub element: usize,
}

const WRITE: u32 = 1;
const READ: u32 = 2;
const BOTH: u32 = 3;

impl Request {
    const fn new(direction: u32, kind: u8, nr: u8, size: u32) -> Self {
        Self(direction << 30 | size << 16 | (kind as u32) << 8 | nr as u32)
    }

    /// The number that selects the handler.
    pub const fn nr(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// The driver's letter: `K` for KFD, `d` for DRM.
    pub const fn kind(self) -> u8 {
        self.0.to_le_bytes()[1]
    }

    /// Bytes of the argument struct.
    pub const fn size(self) -> usize {
        (self.0 >> 16 & 0x3fff) as usize
    }

    /// The row of the table that this request is, if it is one.
    fn row(self) -> Option<&'static Row> {
        TABLE.iter().find(|row| row.1 == self)
    }

    /// The name in the kernel's header without its prefix; `"unknown"` for a request that is not in the table.
    pub fn name(self) -> &'static str {
        self.row().map_or("unknown", |row| row.0)
    }

    /// True if the request is in the table.
    pub fn is_known(self) -> bool {
        self.row().is_some()
    }

    /// The pointer inside the argument, for requests that have one.
    pub fn pointer_field(self) -> Option<PointerField> {
        self.row()?.2
    }

    /// True if the argument carries progress, so that a repeat after `EINTR` must pass what came back and not
    /// what was sent: `n_success` of MAP and UNMAP, the remaining time of WAIT_EVENTS.
    pub fn carries_progress(self) -> bool {
        matches!(self, MAP_MEMORY_TO_GPU | UNMAP_MEMORY_FROM_GPU | WAIT_EVENTS)
    }

    /// Every request this crate knows: name and word.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        TABLE.iter().map(|row| (row.0, row.1))
    }
}

struct Row(&'static str, Request, Option<PointerField>);

macro_rules! requests {
    ($($name:ident = $direction:ident, $kind:literal, $nr:literal, $size:literal
       $(, [$pointer:literal; $count:literal x $element:literal])?;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, as the kernel's header names it.")]
            pub const $name: Request = Request::new($direction, $kind, $nr, $size);
        )*
        const TABLE: &[Row] = &[$(
            Row(stringify!($name), $name,
                requests!(@pointed $($pointer, $count, $element)?)),
        )*];
    };
    (@pointed) => { None };
    (@pointed $pointer:literal, $count:literal, $element:literal) => {
        Some(PointerField { pointer: $pointer, count: $count, element: $element })
    };
}

requests! {
    GET_VERSION = READ, b'K', 0x01, 8;
    CREATE_QUEUE = BOTH, b'K', 0x02, 96;
    DESTROY_QUEUE = BOTH, b'K', 0x03, 8;
    SET_MEMORY_POLICY = WRITE, b'K', 0x04, 32;
    GET_CLOCK_COUNTERS = BOTH, b'K', 0x05, 40;
    UPDATE_QUEUE = WRITE, b'K', 0x07, 24;
    CREATE_EVENT = BOTH, b'K', 0x08, 32;
    DESTROY_EVENT = WRITE, b'K', 0x09, 8;
    SET_EVENT = WRITE, b'K', 0x0A, 8;
    RESET_EVENT = WRITE, b'K', 0x0B, 8;
    WAIT_EVENTS = BOTH, b'K', 0x0C, 24, [0; 8 x 48];
    SET_TRAP_HANDLER = WRITE, b'K', 0x13, 24;
    GET_PROCESS_APERTURES_NEW = BOTH, b'K', 0x14, 16, [0; 8 x 56];
    ACQUIRE_VM = WRITE, b'K', 0x15, 8;
    ALLOC_MEMORY_OF_GPU = BOTH, b'K', 0x16, 40;
    FREE_MEMORY_OF_GPU = WRITE, b'K', 0x17, 8;
    MAP_MEMORY_TO_GPU = BOTH, b'K', 0x18, 24, [8; 16 x 4];
    UNMAP_MEMORY_FROM_GPU = BOTH, b'K', 0x19, 24, [8; 16 x 4];
    SMI_EVENTS = BOTH, b'K', 0x1F, 8;
    SET_XNACK_MODE = BOTH, b'K', 0x21, 4;
    AVAILABLE_MEMORY = BOTH, b'K', 0x23, 16;
    RUNTIME_ENABLE = BOTH, b'K', 0x25, 16;
    AMDGPU_INFO = WRITE, b'd', 0x45, 32, [0; 8 x 1];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_equal_those_measured_from_the_headers() {
        let measured = [
            (GET_VERSION, 0x8008_4B01),
            (CREATE_QUEUE, 0xC060_4B02),
            (DESTROY_QUEUE, 0xC008_4B03),
            (SET_MEMORY_POLICY, 0x4020_4B04),
            (GET_CLOCK_COUNTERS, 0xC028_4B05),
            (UPDATE_QUEUE, 0x4018_4B07),
            (CREATE_EVENT, 0xC020_4B08),
            (DESTROY_EVENT, 0x4008_4B09),
            (SET_EVENT, 0x4008_4B0A),
            (RESET_EVENT, 0x4008_4B0B),
            (WAIT_EVENTS, 0xC018_4B0C),
            (SET_TRAP_HANDLER, 0x4018_4B13),
            (GET_PROCESS_APERTURES_NEW, 0xC010_4B14),
            (ACQUIRE_VM, 0x4008_4B15),
            (ALLOC_MEMORY_OF_GPU, 0xC028_4B16),
            (FREE_MEMORY_OF_GPU, 0x4008_4B17),
            (MAP_MEMORY_TO_GPU, 0xC018_4B18),
            (UNMAP_MEMORY_FROM_GPU, 0xC018_4B19),
            (SMI_EVENTS, 0xC008_4B1F),
            (SET_XNACK_MODE, 0xC004_4B21),
            (AVAILABLE_MEMORY, 0xC010_4B23),
            (RUNTIME_ENABLE, 0xC010_4B25),
            (AMDGPU_INFO, 0x4020_6445),
        ];
        assert_eq!(measured.len(), Request::all().count());
        for (request, word) in measured {
            assert_eq!(request.0, word, "{}", request.name());
        }
    }
}

//! A node's `properties` file as a table. What the values mean for memory or queues is not here.
//!
//! Source: `amdkfd/kfd_topology.c:node_show` (Linux 6.1, 6.12, 7.2). The set grows: unknown names are skipped and
//! missing ones are absent.

macro_rules! properties {
    ($($name:ident = $text:literal,)*) => {
        /// A line of a node's `properties` file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Property {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }
        const NAMES: &[(&str, Property)] = &[$(($text, Property::$name),)*];
        const COUNT: usize = NAMES.len();
    };
}

properties! {
    CpuCoresCount = "cpu_cores_count",
    SimdCount = "simd_count",
    MemBanksCount = "mem_banks_count",
    CachesCount = "caches_count",
    IoLinksCount = "io_links_count",
    P2pLinksCount = "p2p_links_count",
    CpuCoreIdBase = "cpu_core_id_base",
    SimdIdBase = "simd_id_base",
    MaxWavesPerSimd = "max_waves_per_simd",
    LdsSizeInKb = "lds_size_in_kb",
    GdsSizeInKb = "gds_size_in_kb",
    NumGws = "num_gws",
    WaveFrontSize = "wave_front_size",
    ArrayCount = "array_count",
    SimdArraysPerEngine = "simd_arrays_per_engine",
    CuPerSimdArray = "cu_per_simd_array",
    SimdPerCu = "simd_per_cu",
    MaxSlotsScratchCu = "max_slots_scratch_cu",
    GfxTargetVersion = "gfx_target_version",
    VendorId = "vendor_id",
    DeviceId = "device_id",
    LocationId = "location_id",
    Domain = "domain",
    DrmRenderMinor = "drm_render_minor",
    HiveId = "hive_id",
    NumSdmaEngines = "num_sdma_engines",
    NumSdmaXgmiEngines = "num_sdma_xgmi_engines",
    NumSdmaQueuesPerEngine = "num_sdma_queues_per_engine",
    NumCpQueues = "num_cp_queues",
    CwsrSize = "cwsr_size",
    CtlStackSize = "ctl_stack_size",
    MaxEngineClkFcompute = "max_engine_clk_fcompute",
    LocalMemSize = "local_mem_size",
    FwVersion = "fw_version",
    Capability = "capability",
    Capability2 = "capability2",
    DebugProp = "debug_prop",
    SdmaFwVersion = "sdma_fw_version",
    UniqueId = "unique_id",
    NumXcc = "num_xcc",
    MaxEngineClkCcompute = "max_engine_clk_ccompute",
}

const _: () = assert!(COUNT <= 64);

/// The values of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    values: [u64; COUNT],
    present: u64,
}

impl Properties {
    /// Reads `name value` lines; whatever does not have that form is skipped.
    pub fn parse(text: &[u8]) -> Self {
        let mut this = Self { values: [0; COUNT], present: 0 };
        for (name, value) in pairs(text) {
            if let Some(&(_, property)) = NAMES.iter().find(|row| row.0.as_bytes() == name) {
                this.values[property as usize] = value;
                this.present |= 1 << property as u32;
            }
        }
        this
    }

    /// The value of a property, if the kernel states it.
    pub fn get(&self, property: Property) -> Option<u64> {
        (self.present >> property as u32 & 1 != 0).then_some(self.values[property as usize])
    }

    /// The value as 32 bits; absent or larger counts as 0.
    pub fn small(&self, property: Property) -> u32 {
        self.get(property).and_then(|value| u32::try_from(value).ok()).unwrap_or(0)
    }
}

/// Calls back with the name and value of each well-formed line of `text`.
pub(super) fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        Some((words.next()?, number(words.next()?)?))
    })
}

/// The value behind `name` in `text`.
pub(super) fn field(text: &[u8], name: &str) -> Option<u64> {
    pairs(text).find(|pair| pair.0 == name.as_bytes()).map(|pair| pair.1)
}

/// A decimal number with optional sign (negative ones, as in `drm_render_minor -1`, wrap to 64 bits).
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(text).ok()?.trim();
    text.parse().ok().or_else(|| text.parse().ok().map(i64::cast_unsigned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_order_of_the_enum() {
        for (index, row) in NAMES.iter().enumerate() {
            assert_eq!(row.1 as usize, index, "{}", row.0);
        }
    }

    #[test]
    fn odd_lines_do_no_harm() {
        let text = b"simd_count 192\nnew_thing 5\nlocation_id\n\ndrm_render_minor -1\nunique_id 18446744073709551615\n\
                     cwsr_size 99999999999999999999999\narray_count x\nmem_banks_count   2  \nnum_xcc 4";
        let properties = Properties::parse(text);
        assert_eq!(properties.get(Property::SimdCount), Some(192));
        assert_eq!(properties.get(Property::LocationId), None);
        assert_eq!(properties.get(Property::DrmRenderMinor), Some(u64::MAX));
        assert_eq!(properties.get(Property::UniqueId), Some(u64::MAX));
        assert_eq!(properties.get(Property::CwsrSize), None);
        assert_eq!(properties.get(Property::ArrayCount), None);
        assert_eq!(properties.small(Property::MemBanksCount), 2);
        assert_eq!(properties.small(Property::UniqueId), 0);
        assert_eq!(properties.get(Property::NumXcc), Some(4));
        assert_eq!(Properties::parse(&[0xff, b'\n', b' ']), Properties::parse(b""));
    }
}

//! Fixture machines: what sysfs and procfs hold for a set of GPUs under a given kernel.
//!
//! The property lines are in the kernel's order (`kfd_topology.c:node_show`). Shapes of the chips are public
//! figures; the save-area sizes are those the kernel exports for them.

use doorbell_kfd::topology::{Isa, KernelSupport};

use std::collections::BTreeMap;
use std::fmt::Write;

pub const GIB: u64 = 1 << 30;
pub const MIB: u64 = 1 << 20;

/// The three kernels whose sources the driver's rules were read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 6.1: minor 11.
    V6_1,
    /// 6.12: minor 17.
    V6_12,
    /// 6.18: minor 18.
    V6_18,
    /// 7.2 and 7.3: minor 23.
    V7_2,
}

impl Release {
    pub const ALL: [Self; 4] = [Self::V6_1, Self::V6_12, Self::V6_18, Self::V7_2];

    pub fn minor(self) -> u32 {
        match self {
            Self::V6_1 => 11,
            Self::V6_12 => 17,
            Self::V6_18 => 18,
            Self::V7_2 => 23,
        }
    }
}

/// One chip.
#[derive(Clone, Debug)]
pub struct Chip {
    pub name: &'static str,
    pub version: u32,
    pub device: u32,
    pub compute_units: u32,
    pub engines: u32,
    pub cu_per_array: u32,
    pub is_apu: bool,
    /// VRAM, or an APU's carve-out.
    pub vram: u64,
    /// Sizes that sysfs exports from 6.12 on.
    pub cwsr: u64,
    pub ctl_stack: u64,
    /// Debug area and whole buffer, which sysfs does not export.
    pub debug: u64,
    pub buffer: u64,
}

const fn chip(name: &'static str, version: u32, device: u32, shape: [u32; 3], vram: u64) -> Chip {
    let [compute_units, engines, cu_per_array] = shape;
    let is_apu = matches!(version, 110_003 | 110_500 | 110_501 | 100_306);
    let (cwsr, ctl_stack, debug, buffer) = (0, 0, 0, 0);
    Chip {
        name,
        version,
        device,
        compute_units,
        engines,
        cu_per_array,
        is_apu,
        vram,
        cwsr,
        ctl_stack,
        debug,
        buffer,
    }
}

const fn sized(chip: Chip, sizes: [u64; 4]) -> Chip {
    let [ctl_stack, cwsr, debug, buffer] = sizes;
    Chip { cwsr, ctl_stack, debug, buffer, ..chip }
}

/// Sizes: control stack, save area, debug area, whole buffer, as measured for each chip.
#[rustfmt::skip]
pub const CHIPS: [Chip; 12] = [
    sized(chip("RX 7900 XTX", 110_000, 0x744c, [96, 6, 8], 24 * GIB), [0xA000, 0x2BEA000, 0x18000, 0x2C02000]),
    sized(chip("W7900", 110_000, 0x7448, [96, 6, 8], 48 * GIB), [0xA000, 0x2BEA000, 0x18000, 0x2C02000]),
    sized(chip("RX 7900 XT", 110_000, 0x744c, [84, 6, 8], 20 * GIB), [0x8000, 0x266C000, 0x15000, 0x2681000]),
    sized(chip("RX 7800 XT", 110_001, 0x747e, [60, 3, 10], 16 * GIB), [0x6000, 0x1B72000, 0xF000, 0x1B81000]),
    sized(chip("RX 7600", 110_002, 0x7480, [32, 2, 8], 8 * GIB), [0x4000, 0xAA4000, 0x8000, 0xAAC000]),
    sized(chip("780M", 110_003, 0x15bf, [12, 1, 6], 512 * MIB), [0x2000, 0x3FE000, 0x3000, 0x401000]),
    sized(chip("890M", 110_500, 0x150e, [16, 1, 8], 512 * MIB), [0x2000, 0x552000, 0x4000, 0x556000]),
    sized(chip("8060S", 110_501, 0x1586, [40, 2, 10], 512 * MIB), [0x4000, 0x124C000, 0xA000, 0x1256000]),
    sized(chip("8050S", 110_501, 0x1586, [32, 2, 10], 512 * MIB), [0x4000, 0xEA4000, 0x8000, 0xEAC000]),
    sized(chip("RX 9060 XT", 120_000, 0x7590, [32, 2, 8], 16 * GIB), [0x4000, 0xEA4000, 0x8000, 0xEAC000]),
    sized(chip("RX 9070 XT", 120_001, 0x7550, [64, 4, 8], 16 * GIB), [0x7000, 0x1D47000, 0x10000, 0x1D57000]),
    chip("Raphael", 100_306, 0x164e, [2, 1, 1], 512 * MIB),
];

/// The chip of this name.
pub fn named(name: &str) -> Chip {
    CHIPS.iter().find(|chip| chip.name == name).expect("a chip of the table").clone()
}

/// One GPU in a machine.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub chip: Chip,
    pub gpu_id: u32,
    pub render: u32,
    pub bus: u32,
    pub unique: u64,
    pub small_bar: bool,
}

/// A whole machine.
#[derive(Clone, Debug)]
pub struct Machine {
    pub release: Release,
    pub gpus: Vec<Gpu>,
    pub ram: u64,
    pub available: u64,
    pub free: u64,
    pub gtt: u64,
    pub ttm_pages: u64,
}

impl Machine {
    /// A machine with these chips, in this order on the bus.
    pub fn new(release: Release, ram: u64, names: &[&str]) -> Self {
        let gpu = |(index, name): (usize, &&str)| {
            let number = index as u32;
            let chip = named(name);
            let unique = if chip.is_apu { 0 } else { 0xC0FF_EE00 + u64::from(number) };
            let (gpu_id, render, bus) = (0x1234 + number * 0x1111, 128 + number, 3 + number);
            Gpu { chip, gpu_id, render, bus, unique, small_bar: false }
        };
        let gpus = names.iter().enumerate().map(gpu).collect();
        let (available, free, gtt, ttm_pages) = (ram - ram / 8, ram - ram / 4, ram / 2, ram / 2 / 4096);
        Self { release, gpus, ram, available, free, gtt, ttm_pages }
    }

    /// Bytes that KFD states as the GPU's bank: on an APU what VRAM requests are served from.
    pub fn bank(&self, chip: &Chip) -> u64 {
        let from_gtt = match self.release {
            Release::V6_1 => false,
            Release::V6_12 => chip.is_apu,
            Release::V6_18 | Release::V7_2 => chip.is_apu && chip.vram < self.gtt,
        };
        if from_gtt { self.ttm_pages * 4096 } else { chip.vram }
    }

    /// Every file, by path.
    pub fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let mut put = |path: &str, text: String| {
            files.insert(path.to_owned(), text);
        };
        let root = doorbell_kfd::topology::ROOT;
        put(&format!("{root}/generation_id"), "1\n".into());
        put(&format!("{root}/system_properties"), "platform_oem 0\nplatform_id 0\nplatform_rev 0\n".into());
        let cpu = format!("{root}/nodes/0");
        put(&format!("{cpu}/gpu_id"), "0\n".into());
        put(&format!("{cpu}/name"), "\n".into());
        put(&format!("{cpu}/properties"), self.cpu_properties());
        put(
            &format!("{cpu}/mem_banks/0/properties"),
            format!("heap_type 0\nsize_in_bytes {}\nflags 0\nwidth 64\nmem_clk_max 5600\n", self.ram),
        );
        for (index, gpu) in self.gpus.iter().enumerate() {
            self.gpu_files(index, gpu, &mut put);
        }
        put("/sys/bus/pci/devices/0000:00:1f.3/vendor", "0x8086\n".into());
        put("/sys/bus/pci/devices/0000:00:1f.3/class", "0x040300\n".into());
        put("/sys/module/amdgpu/parameters/sched_policy", "0\n".into());
        put("/sys/module/amdgpu/parameters/cwsr_enable", "1\n".into());
        put(
            "/proc/self/status",
            "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t27 1000\n".into(),
        );
        put("/etc/group", "root:x:0:\nvideo:x:44:\nrender:x:992:someone\nuser:x:1000:\n".into());
        put("/sys/module/ttm/parameters/pages_limit", format!("{}\n", self.ttm_pages));
        put("/sys/module/amdgpu/parameters/no_system_mem_limit", "N\n".into());
        put("/proc/sys/kernel/osrelease", format!("{:?}-fixture\n", self.release));
        put(
            "/proc/meminfo",
            format!(
                "MemTotal:       {} kB\nMemFree:        {} kB\nMemAvailable:   {} kB\n",
                self.ram / 1024,
                self.free / 1024,
                self.available / 1024
            ),
        );
        files
    }

    /// The files of one GPU, whose node has this index.
    fn gpu_files(&self, index: usize, gpu: &Gpu, put: &mut dyn FnMut(&str, String)) {
        let root = doorbell_kfd::topology::ROOT;
        let node = format!("{root}/nodes/{}", index + 1);
        put(&format!("{node}/gpu_id"), format!("{}\n", gpu.gpu_id));
        put(&format!("{node}/name"), "ip discovery\n".into());
        put(&format!("{node}/properties"), self.gpu_properties(gpu));
        let (heap, bank) = (if gpu.small_bar { 2 } else { 1 }, self.bank(&gpu.chip));
        put(
            &format!("{node}/mem_banks/0/properties"),
            format!("heap_type {heap}\nsize_in_bytes {bank}\nflags 0\nwidth 256\nmem_clk_max 1250\n"),
        );
        put(
            &format!("{node}/caches/0/properties"),
            "processor_id_low 2147487744\nlevel 1\nsize 32\ncache_line_size 128\ncache_lines_per_tag 1\n\
             association 0\nlatency 0\ntype 9\nsibling_map 1,0,0\n"
                .into(),
        );
        put(
            &format!("{node}/caches/1/properties"),
            "processor_id_low 2147487744\nlevel 2\nsize 6144\ncache_line_size 128\ntype 9\n".into(),
        );
        put(
            &format!("{node}/io_links/0/properties"),
            "type 2\nversion_major 0\nversion_minor 0\nnode_from 1\nnode_to 0\nweight 20\nflags 1\n".into(),
        );
        let device = format!("/sys/class/drm/renderD{}/device", gpu.render);
        let pci = format!("/sys/bus/pci/devices/0000:{:02x}:00.0", gpu.bus);
        put(&format!("{pci}/vendor"), "0x1002\n".into());
        put(&format!("{pci}/class"), "0x030000\n".into());
        put(&format!("{pci}/drm/card0/dev"), "226:0\n".into());
        put(&format!("{device}/mem_info_vram_total"), format!("{}\n", gpu.chip.vram));
        put(&format!("{device}/mem_info_gtt_total"), format!("{}\n", self.gtt));
    }

    fn cpu_properties(&self) -> String {
        let sizes = if self.release > Release::V6_1 { "cwsr_size 0\nctl_stack_size 0\n" } else { "" };
        "cpu_cores_count 16\nsimd_count 0\nmem_banks_count 1\ncaches_count 0\nio_links_count 0\np2p_links_count 0\n\
         cpu_core_id_base 0\nsimd_id_base 0\nmax_waves_per_simd 0\nlds_size_in_kb 0\ngds_size_in_kb 0\nnum_gws 0\n\
         wave_front_size 0\narray_count 0\nsimd_arrays_per_engine 0\ncu_per_simd_array 0\nsimd_per_cu 0\n\
         max_slots_scratch_cu 0\ngfx_target_version 0\nvendor_id 0\ndevice_id 0\nlocation_id 0\ndomain 0\n\
         drm_render_minor 0\nhive_id 0\nnum_sdma_engines 0\nnum_sdma_xgmi_engines 0\nnum_sdma_queues_per_engine 0\n\
         num_cp_queues 0\n"
            .to_owned()
            + sizes
            + "max_engine_clk_ccompute 5000\n"
    }

    fn gpu_properties(&self, gpu: &Gpu) -> String {
        let Chip { version, device, compute_units, engines, cu_per_array, .. } = gpu.chip;
        let mut text = format!(
            "cpu_cores_count 0\nsimd_count {}\nmem_banks_count 1\ncaches_count 2\nio_links_count 1\np2p_links_count 0\n\
             cpu_core_id_base 0\nsimd_id_base 2147487744\nmax_waves_per_simd 16\nlds_size_in_kb 64\n\
             gds_size_in_kb 0\nnum_gws 64\nwave_front_size 32\narray_count {}\nsimd_arrays_per_engine 2\n\
             cu_per_simd_array {cu_per_array}\nsimd_per_cu 2\nmax_slots_scratch_cu 32\n\
             gfx_target_version {version}\nvendor_id 4098\ndevice_id {device}\nlocation_id {}\ndomain 0\n\
             drm_render_minor {}\nhive_id 0\nnum_sdma_engines 2\nnum_sdma_xgmi_engines 0\n\
             num_sdma_queues_per_engine 6\nnum_cp_queues 8\n",
            compute_units * 2,
            engines * 2,
            gpu.bus << 8,
            gpu.render,
        );
        if self.release > Release::V6_1 {
            let _ = write!(text, "cwsr_size {}\nctl_stack_size {}\n", gpu.chip.cwsr, gpu.chip.ctl_stack);
        }
        let _ = write!(
            text,
            "max_engine_clk_fcompute 2500\nlocal_mem_size 0\nfw_version 2220\ncapability 671588992\n"
        );
        if self.release > Release::V6_18 {
            text.push_str("capability2 0\n");
        }
        if self.release > Release::V6_1 {
            text.push_str("debug_prop 1511\n");
        }
        let _ = write!(text, "sdma_fw_version 22\nunique_id {}\n", gpu.unique);
        if self.release > Release::V6_1 {
            text.push_str("num_xcc 1\n");
        }
        text.push_str("max_engine_clk_ccompute 5000\n");
        text
    }
}

/// The kernels that this program has for a chip of the fixtures.
pub(crate) fn kernel_support(isa: Isa) -> KernelSupport {
    match isa.0 {
        110_502 | 110_503 => KernelSupport::Relative(Isa::GFX1150),
        110_000.. => KernelSupport::Own,
        _ => KernelSupport::None,
    }
}

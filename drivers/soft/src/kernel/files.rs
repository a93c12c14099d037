//! The files that describe a machine, in the kernel's order and spelling.
//!
//! Source: `kfd_topology.c:node_show` of the three kernels, docs/facts/kfd.md. Not here: device files.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use doorbell_kfd::topology::ROOT;

use crate::chips::{BlockVersions, Chip, block_versions};

use super::machine::{Gpu, Machine, Release};

/// All files by path.
pub(super) fn files(machine: &Machine) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut put = |path: String, text: String| {
        files.insert(path, text);
    };
    put(format!("{ROOT}/generation_id"), "1\n".into());
    put(format!("{ROOT}/system_properties"), "platform_oem 0\nplatform_id 0\nplatform_rev 0\n".into());
    put(format!("{ROOT}/nodes/0/gpu_id"), "0\n".into());
    put(format!("{ROOT}/nodes/0/name"), "\n".into());
    put(format!("{ROOT}/nodes/0/properties"), cpu(machine.release));
    let bank = format!("heap_type 0\nsize_in_bytes {}\nflags 0\nwidth 64\nmem_clk_max 5600\n", machine.ram);
    put(format!("{ROOT}/nodes/0/mem_banks/0/properties"), bank);
    for (index, device) in machine.gpus.iter().enumerate() {
        node(machine, device, index + 1, &mut put);
    }
    put("/sys/module/amdgpu/initstate".into(), "live\n".into());
    put("/sys/module/amdgpu/parameters/sched_policy".into(), "0\n".into());
    put("/sys/module/amdgpu/parameters/cwsr_enable".into(), "1\n".into());
    put("/sys/module/amdgpu/parameters/no_system_mem_limit".into(), "N\n".into());
    put("/sys/module/ttm/parameters/pages_limit".into(), format!("{}\n", machine.gtt() / 4096));
    put("/proc/sys/kernel/osrelease".into(), format!("{:?}-soft\n", machine.release));
    let kib = machine.ram / 1024;
    let memory =
        format!("MemTotal: {kib} kB\nMemFree: {} kB\nMemAvailable: {} kB\n", kib / 4 * 3, kib / 8 * 7);
    put("/proc/meminfo".into(), memory);
    files
}

/// One GPU's node and PCI device.
fn node(machine: &Machine, device: &Gpu, index: usize, put: &mut dyn FnMut(String, String)) {
    let node = format!("{ROOT}/nodes/{index}");
    put(format!("{node}/gpu_id"), format!("{}\n", device.id));
    put(format!("{node}/name"), "ip discovery\n".into());
    put(format!("{node}/properties"), gpu(machine, device));
    let heap = if device.small_bar { 2 } else { 1 };
    let bank = machine.bank(device);
    put(
        format!("{node}/mem_banks/0/properties"),
        format!("heap_type {heap}\nsize_in_bytes {bank}\nflags 0\nwidth 256\nmem_clk_max 1250\n"),
    );
    for (cache, (level, size)) in [(1, 32), (2, 6144)].into_iter().enumerate() {
        let text = format!(
            "processor_id_low 2147487744\nlevel {level}\nsize {size}\ncache_line_size 128\n\
             cache_lines_per_tag 1\nassociation 0\nlatency 0\ntype 9\nsibling_map 1,0,0\n"
        );
        put(format!("{node}/caches/{cache}/properties"), text);
    }
    put(
        format!("{node}/io_links/0/properties"),
        format!(
            "type 2\nversion_major 0\nversion_minor 0\nnode_from {index}\nnode_to 0\nweight 20\nflags 1\n"
        ),
    );
    let pci = format!("/sys/bus/pci/devices/0000:{:02x}:00.0", device.bus);
    put(format!("{pci}/vendor"), "0x1002\n".into());
    put(format!("{pci}/class"), "0x030000\n".into());
    put(format!("{pci}/drm/card0/dev"), "226:0\n".into());
    let render = format!("/sys/class/drm/renderD{}/device", device.render);
    put(format!("{render}/mem_info_vram_total"), format!("{}\n", device.chip.vram));
    put(format!("{render}/mem_info_gtt_total"), format!("{}\n", machine.gtt()));
    let BlockVersions { graphics, sdma, bus } = block_versions(device.chip.target);
    for (block, version) in [(11, graphics), (42, sdma), (108, bus)] {
        for (part, number) in ["major", "minor", "revision"].into_iter().zip(version) {
            put(format!("{render}/ip_discovery/die/0/{block}/0/{part}"), format!("{number}\n"));
        }
    }
}

/// Properties that a CPU node has as zero, in order, between those that it has.
fn cpu(release: Release) -> String {
    let zero = [
        "caches_count",
        "io_links_count",
        "p2p_links_count",
        "cpu_core_id_base",
        "simd_id_base",
        "max_waves_per_simd",
        "lds_size_in_kb",
        "gds_size_in_kb",
        "num_gws",
        "wave_front_size",
        "array_count",
        "simd_arrays_per_engine",
        "cu_per_simd_array",
        "simd_per_cu",
        "max_slots_scratch_cu",
        "gfx_target_version",
        "vendor_id",
        "device_id",
        "location_id",
        "domain",
        "drm_render_minor",
        "hive_id",
        "num_sdma_engines",
        "num_sdma_xgmi_engines",
        "num_sdma_queues_per_engine",
        "num_cp_queues",
    ];
    let middle: String = zero.iter().map(|name| format!("{name} 0\n")).collect();
    let sizes = if release > Release::V6_1 { "cwsr_size 0\nctl_stack_size 0\n" } else { "" };
    format!(
        "cpu_cores_count 16\nsimd_count 0\nmem_banks_count 1\n{middle}{sizes}max_engine_clk_ccompute 5000\n"
    )
}

fn gpu(machine: &Machine, device: &Gpu) -> String {
    let Chip { compute_units, shader_engines, units_per_array, save_area, .. } = device.chip;
    let newer = machine.release > Release::V6_1;
    let mut text = format!(
        "cpu_cores_count 0\nsimd_count {}\nmem_banks_count 1\ncaches_count 2\nio_links_count 1\n\
         p2p_links_count 0\ncpu_core_id_base 0\nsimd_id_base 2147487744\nmax_waves_per_simd 16\n\
         lds_size_in_kb 64\ngds_size_in_kb 0\nnum_gws 64\nwave_front_size 32\narray_count {}\n\
         simd_arrays_per_engine 2\ncu_per_simd_array {units_per_array}\nsimd_per_cu 2\nmax_slots_scratch_cu 32\n\
         gfx_target_version {}\nvendor_id 4098\ndevice_id {}\nlocation_id {}\ndomain 0\n\
         drm_render_minor {}\nhive_id 0\nnum_sdma_engines 2\nnum_sdma_xgmi_engines 0\n\
         num_sdma_queues_per_engine 6\nnum_cp_queues 8\n",
        compute_units * 2,
        shader_engines * 2,
        device.chip.version,
        device.chip.device,
        device.bus << 8,
        device.render,
    );
    if newer {
        text += &format!("cwsr_size {}\nctl_stack_size {}\n", save_area.total, save_area.control_stack);
    }
    text += "max_engine_clk_fcompute 2500\nlocal_mem_size 0\nfw_version 2220\ncapability 671588992\n";
    if machine.release > Release::V6_12 {
        text += "capability2 0\n";
    }
    if newer {
        text += "debug_prop 1511\n";
    }
    let unique = if device.chip.is_apu { 0 } else { 0xC0FF_EE00 + u64::from(device.bus) };
    text += &format!("sdma_fw_version 22\nunique_id {unique}\n");
    if newer {
        text += "num_xcc 1\n";
    }
    text + "max_engine_clk_ccompute 5000\n"
}

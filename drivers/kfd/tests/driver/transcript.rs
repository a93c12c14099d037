//! Answers of a kernel without an AMD GPU, call by call, as text: the same for a real one and a software one.

use core::fmt::{Debug, Write};
use doorbell_kfd::doctor::{ExamineInputs, examine};
use doorbell_kfd::sys::{
    AcquireVm, AllocMemory, Aperture, AvailableMemory, CreateEvent, CreateQueue, DestroyEvent, DestroyQueue,
    Errno, EventData, Fd, FreeMemory, GetApertures, GetClockCounters, GetVersion, Kernel, MapAddress,
    RuntimeEnable, SetEvent, SetTrapHandler, SetXnackMode, SmiEvents, UpdateQueue, WaitEvents, alloc_flag,
    call, call_pointed, event_type, queue_type,
};
use doorbell_kfd::topology::ROOT;

/// A gpu id that no device has.
const NOBODY: u32 = 0xABCD;

/// An event id that was never given out.
const NO_EVENT: u32 = 3000;

struct Transcript<'k> {
    kernel: &'k dyn Kernel,
    text: String,
}

impl Transcript<'_> {
    fn say(&mut self, what: &str, result: Result<impl Debug, Errno>) {
        let answer = match result {
            Ok(answer) => format!("{answer:x?}"),
            Err(errno) => errno.name().to_owned(),
        };
        let _ = writeln!(self.text, "{what}: {answer}");
    }

    fn topology(&mut self) {
        let mut nodes = Vec::new();
        let _ = self.kernel.list(&format!("{ROOT}/nodes"), &mut |name| nodes.push(name.to_owned()));
        let _ = writeln!(self.text, "nodes: {}", nodes.join(" "));
        for file in
            ["generation_id", "system_properties", "nodes/0/gpu_id", "nodes/0/name", "nodes/0/properties"]
        {
            let mut buffer = [0; 4096];
            let read = self.kernel.read(&format!("{ROOT}/{file}"), &mut buffer);
            // Numbers belong to the machine, names and their order to the kernel.
            let text = read.map(|count| String::from_utf8_lossy(&buffer[..count]).into_owned());
            let names = text.map(|text| {
                let words = text.lines().map(|line| line.split(' ').next().unwrap_or("").to_owned());
                words.collect::<Vec<_>>().join(" ")
            });
            self.say(file, names);
        }
    }

    fn versions(&mut self, kfd: &Fd) {
        let mut version = GetVersion::default();
        let result = call(self.kernel, kfd, &mut version);
        self.say("GET_VERSION", result.map(|()| (version.major_version, version.minor_version)));
        for room in [0u32, 8] {
            let mut arg = GetApertures { num_of_nodes: room, ..GetApertures::default() };
            let mut apertures = vec![Aperture::default(); room as usize];
            let result = call_pointed(self.kernel, kfd, &mut arg, bytemuck::cast_slice_mut(&mut apertures));
            self.say(
                &format!("GET_PROCESS_APERTURES_NEW with room for {room}"),
                result.map(|()| arg.num_of_nodes),
            );
        }
        let mut clocks = GetClockCounters::default();
        let result = call(self.kernel, kfd, &mut clocks);
        self.say("GET_CLOCK_COUNTERS", result.map(|()| (clocks.gpu_clock_counter, clocks.system_clock_freq)));
    }

    fn wait(&mut self, kfd: &Fd, what: &str, event: u32) {
        let mut arg = WaitEvents::default();
        let mut events = [EventData::new(event)];
        let result = self.kernel.wait(kfd, &mut arg, &mut events);
        self.say(what, result.map(|()| arg.wait_result));
    }

    fn events(&mut self, kfd: &Fd) {
        let kinds = [event_type::SIGNAL, event_type::SIGNAL, event_type::MEMORY, event_type::HW_EXCEPTION];
        let mut ids = Vec::new();
        for kind in kinds {
            let mut arg = CreateEvent { event_type: kind, auto_reset: 1, ..CreateEvent::default() };
            let result = call(self.kernel, kfd, &mut arg);
            let CreateEvent { event_page_offset, event_trigger_data, event_id, event_slot_index, .. } = arg;
            let answer = (event_id, event_trigger_data, event_slot_index, event_page_offset);
            self.say(&format!("CREATE_EVENT of type {kind}"), result.map(|()| answer));
            ids.push(event_id);
        }
        for pages in [1usize, 8, 16] {
            let window = self.kernel.map(kfd, 1 << 63, pages * 4096, MapAddress::Anywhere);
            let slots = window.map(|window| (window.load64(8), window.load64(16)));
            self.say(&format!("mmap of {pages} event pages"), slots);
        }
        let first = ids[0];
        let set = |event_id| SetEvent { event_id, pad: 0 };
        let result = call(self.kernel, kfd, &mut set(first));
        self.say("SET_EVENT", result);
        self.wait(kfd, "WAIT_EVENTS of a set event", first);
        self.wait(kfd, "WAIT_EVENTS once more", first);
        self.wait(kfd, "WAIT_EVENTS of an unknown event", NO_EVENT);
        let result = call(self.kernel, kfd, &mut set(NO_EVENT));
        self.say("SET_EVENT of an unknown event", result);
        let result = call(self.kernel, kfd, &mut set(ids[2]));
        self.say("SET_EVENT of a memory event", result);
        for again in ["", " again"] {
            let result = call(self.kernel, kfd, &mut DestroyEvent { event_id: first, pad: 0 });
            self.say(&format!("DESTROY_EVENT{again}"), result);
        }
    }

    fn refusals(&mut self, kfd: &Fd) {
        let kernel = self.kernel;
        let result = call(kernel, kfd, &mut AcquireVm { drm_fd: kfd.raw().cast_unsigned(), gpu_id: NOBODY });
        self.say("ACQUIRE_VM", result);
        for (what, gpu_id, size) in [("", NOBODY, 4096), (" of GPU 0", 0, 4096), (" of nothing", NOBODY, 0)] {
            let flags = alloc_flag::VRAM | alloc_flag::WRITABLE;
            let mut arg = AllocMemory { va_addr: 1 << 32, size, gpu_id, flags, ..AllocMemory::default() };
            let result = call(kernel, kfd, &mut arg);
            self.say(&format!("ALLOC_MEMORY_OF_GPU{what}"), result);
        }
        let result = call(kernel, kfd, &mut FreeMemory { handle: 1 << 32 });
        self.say("FREE_MEMORY_OF_GPU", result);
        let result = call(kernel, kfd, &mut AvailableMemory { gpu_id: NOBODY, ..AvailableMemory::default() });
        self.say("AVAILABLE_MEMORY", result);
        let queue = CreateQueue {
            ring_base_address: 1 << 32,
            write_pointer_address: 1 << 32,
            read_pointer_address: 1 << 32,
            ring_size: 65536,
            gpu_id: NOBODY,
            queue_type: queue_type::COMPUTE_AQL,
            queue_percentage: 100,
            queue_priority: 7,
            ..CreateQueue::default()
        };
        for (what, mut arg) in [
            ("CREATE_QUEUE", queue),
            ("CREATE_QUEUE of percentage 101", CreateQueue { queue_percentage: 101, ..queue }),
            ("CREATE_QUEUE of priority 16", CreateQueue { queue_priority: 16, ..queue }),
            ("CREATE_QUEUE of an odd ring", CreateQueue { ring_size: 65535, ..queue }),
            ("CREATE_QUEUE of type 9", CreateQueue { queue_type: 9, ..queue }),
        ] {
            let result = call(kernel, kfd, &mut arg);
            self.say(what, result);
        }
        let result = call(kernel, kfd, &mut DestroyQueue { queue_id: 77, pad: 0 });
        self.say("DESTROY_QUEUE", result);
        let result = call(kernel, kfd, &mut UpdateQueue { queue_id: 77, ..UpdateQueue::default() });
        self.say("UPDATE_QUEUE", result);
        let mut handler = SetTrapHandler { gpu_id: NOBODY, ..SetTrapHandler::default() };
        let result = call(kernel, kfd, &mut handler);
        self.say("SET_TRAP_HANDLER", result);
        let result = call(kernel, kfd, &mut SmiEvents { gpuid: NOBODY, anon_fd: 0 });
        self.say("SMI_EVENTS", result);
        let result = call(kernel, kfd, &mut SetXnackMode { xnack_enabled: -1 });
        self.say("SET_XNACK_MODE", result);
        for again in ["", " again"] {
            let result = call(kernel, kfd, &mut RuntimeEnable { mode_mask: 1, ..RuntimeEnable::default() });
            self.say(&format!("RUNTIME_ENABLE{again}"), result);
        }
    }
}

/// Asks everything; the process may be used for nothing else afterwards.
pub fn transcript(kernel: &dyn Kernel) -> String {
    let mut this = Transcript { kernel, text: String::new() };
    this.topology();
    match kernel.open("/dev/kfd") {
        Ok(kfd) => {
            this.say("open", Ok("done"));
            this.versions(&kfd);
            this.events(&kfd);
            this.refusals(&kfd);
            kernel.close(kfd);
        }
        Err(errno) => this.say("open", Err::<(), _>(errno)),
    }
    if let Ok(examination) = examine(kernel, ExamineInputs::default()) {
        for finding in &examination.findings {
            let _ = writeln!(this.text, "doctor: {finding}");
        }
    }
    this.text
}

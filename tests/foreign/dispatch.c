// A program of the HSA runtime's own interface: loads a code object, dispatches its vector_add, checks every element.
//
// dispatch FILE CHIP: the GPU agent must be CHIP. Prints one line; the exit status is 0 if everything is right.
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000, GROUP = 256, ROUNDS = 100, PACKETS = 64 };

static void check(hsa_status_t status, const char *what) {
    if (status == HSA_STATUS_SUCCESS) return;
    const char *text = "?";
    hsa_status_string(status, &text);
    printf("%s: %s\n", what, text);
    exit(1);
}

static hsa_agent_t cpu, gpu;
static int gpus;

static hsa_status_t on_agent(hsa_agent_t agent, void *data) {
    hsa_device_type_t type;
    check(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type), "type of agent");
    if (type == HSA_DEVICE_TYPE_CPU) cpu = agent;
    if (type == HSA_DEVICE_TYPE_GPU && gpus++ == 0) gpu = agent;
    return HSA_STATUS_SUCCESS;
}

struct pools {
    hsa_amd_memory_pool_t kernarg, fine, local;
};
static struct pools pools;

static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *data) {
    hsa_amd_segment_t segment;
    uint32_t flags = 0;
    check(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment), "segment of pool");
    if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
    check(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags), "flags of pool");
    if (data) {
        if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) pools.local = pool;
    } else if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) {
        pools.kernarg = pool;
    } else if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) {
        pools.fine = pool;
    }
    return HSA_STATUS_SUCCESS;
}

static void *allocate(hsa_amd_memory_pool_t pool, size_t bytes, const char *what) {
    void *memory;
    check(hsa_amd_memory_pool_allocate(pool, bytes, 0, &memory), what);
    hsa_agent_t both[] = {cpu, gpu};
    check(hsa_amd_agents_allow_access(2, both, NULL, memory), what);
    return memory;
}

static uint64_t load(const char *path, uint32_t *kernargs, uint32_t *lds, uint32_t *scratch) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    hsa_code_object_reader_t reader;
    check(hsa_code_object_reader_create_from_file(fileno(file), &reader), "reader of the code object");
    hsa_executable_t executable;
    check(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable),
          "executable");
    check(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL), "load");
    check(hsa_executable_freeze(executable, NULL), "freeze");
    hsa_executable_symbol_t symbol;
    check(hsa_executable_get_symbol_by_name(executable, "vector_add.kd", &gpu, &symbol), "symbol");
    uint64_t object;
#define ASK(what, place) check(hsa_executable_symbol_get_info(symbol, what, place), #what)
    ASK(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object);
    ASK(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, kernargs);
    ASK(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, lds);
    ASK(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, scratch);
    return object;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    check(hsa_init(), "hsa_init");
    check(hsa_iterate_agents(on_agent, NULL), "agents");
    char name[64] = "none";
    if (gpus) check(hsa_agent_get_info(gpu, HSA_AGENT_INFO_NAME, name), "name");
    if (strcmp(name, argv[2])) {
        printf("the GPU is %s, expected %s\n", name, argv[2]);
        return 1;
    }
    check(hsa_amd_agent_iterate_memory_pools(cpu, on_pool, NULL), "pools of the CPU");
    check(hsa_amd_agent_iterate_memory_pools(gpu, on_pool, &gpu), "pools of the GPU");
    hsa_queue_t *queue;
    check(hsa_queue_create(gpu, PACKETS, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue), "queue");
    uint32_t kernargs, lds, scratch;
    uint64_t object = load(argv[1], &kernargs, &lds, &scratch);

    size_t bytes = COUNT * sizeof(float);
    float *a = allocate(pools.fine, bytes, "a"), *b = allocate(pools.fine, bytes, "b");
    float *out = allocate(pools.fine, bytes, "out");
    float *local = allocate(pools.local, bytes, "local memory");
    struct {
        const float *a, *b;
        float *out;
        uint32_t n;
    } *args = allocate(pools.kernarg, kernargs > 64 ? kernargs : 64, "kernel arguments");
    hsa_signal_t done;
    check(hsa_signal_create(0, 0, NULL, &done), "signal");

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) {
            a[i] = i + round;
            b[i] = 0.5f * i;
        }
        // Every other round the result goes through the GPU's own memory and is copied back.
        args->a = a, args->b = b, args->n = COUNT, args->out = round % 2 ? local : out;
        hsa_signal_store_relaxed(done, 1);
        uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
        hsa_kernel_dispatch_packet_t *packet = (hsa_kernel_dispatch_packet_t *)queue->base_address + index % PACKETS;
        memset((char *)packet + 4, 0, sizeof *packet - 4);
        packet->workgroup_size_x = GROUP, packet->workgroup_size_y = packet->workgroup_size_z = 1;
        packet->grid_size_x = (COUNT + GROUP - 1) / GROUP * GROUP, packet->grid_size_y = packet->grid_size_z = 1;
        packet->group_segment_size = lds, packet->private_segment_size = scratch;
        packet->kernel_object = object, packet->kernarg_address = args, packet->completion_signal = done;
        uint32_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER |
                          HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                          HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
        __atomic_store_n((uint32_t *)packet, header | 1 << 16, __ATOMIC_RELEASE);
        hsa_signal_store_screlease(queue->doorbell_signal, index);
        if (hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, 20000000000, HSA_WAIT_STATE_BLOCKED) > 0) {
            printf("round %d: no completion\n", round);
            return 1;
        }
        if (round % 2) check(hsa_memory_copy(out, local, bytes), "copy");
        for (int i = 0; i < COUNT; i++) {
            if (out[i] == a[i] + b[i]) continue;
            printf("round %d: element %d is %g, expected %g\n", round, i, out[i], a[i] + b[i]);
            return 1;
        }
    }
    check(hsa_signal_destroy(done), "end of the signal");
    check(hsa_queue_destroy(queue), "end of the queue");
    check(hsa_shut_down(), "hsa_shut_down");
    printf("%s: %d dispatches of %d elements right\n", name, ROUNDS, COUNT);
    return 0;
}

// The oracle of the model tests: llama.cpp's logits of every position, or its greedy continuation.
//
//   logits MODEL score OUT.f32 [--ubatch N] [--kv f32|f16] [--flash 0|1] [--repack 0|1] [--threads N]   < token ids
//   logits MODEL greedy N      [the same options]                                          < token ids, a prompt a line
//
// `score` writes little-endian f32 [tokens, vocabulary]. `greedy` prints, per prompt, a line of
// `id:gap` pairs, gap = the highest logit minus the second highest. Built by build.sh; needs a llama.cpp tree.

#include "llama.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using Tokens = std::vector<llama_token>;

static void quiet(ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

[[noreturn]] static void fail(const std::string & what) {
    fprintf(stderr, "logits: %s\n", what.c_str());
    exit(1);
}

static Tokens read_line(const std::string & line) {
    std::istringstream in(line);
    Tokens tokens;
    for (llama_token token; in >> token;) {
        tokens.push_back(token);
    }
    return tokens;
}

// Runs tokens from position `start` on; asks for the logits of all of them, or of the last.
static void decode(llama_context * context, const Tokens & tokens, size_t start, bool all) {
    llama_batch batch = llama_batch_init((int32_t) tokens.size(), 0, 1);
    batch.n_tokens = (int32_t) tokens.size();
    for (size_t i = 0; i < tokens.size(); i++) {
        batch.token[i] = tokens[i];
        batch.pos[i] = (llama_pos) (start + i);
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = all || i + 1 == tokens.size();
    }
    if (llama_decode(context, batch) != 0) {
        fail("decode failed");
    }
    llama_batch_free(batch);
}

static void score(llama_context * context, int vocabulary, const char * path) {
    std::string line, text;
    while (std::getline(std::cin, line)) {
        text += line + " ";
    }
    const Tokens tokens = read_line(text);
    FILE * out = fopen(path, "wb");
    if (out == nullptr) {
        fail(std::string("cannot write ") + path);
    }
    decode(context, tokens, 0, true);
    for (size_t i = 0; i < tokens.size(); i++) {
        fwrite(llama_get_logits_ith(context, (int32_t) i), sizeof(float), vocabulary, out);
    }
    fclose(out);
}

static void greedy(llama_context * context, int vocabulary, int count) {
    for (std::string line; std::getline(std::cin, line);) {
        llama_memory_clear(llama_get_memory(context), true);
        Tokens next = read_line(line);
        size_t position = 0;
        for (int i = 0; i < count && !next.empty(); i++) {
            decode(context, next, position, false);
            position += next.size();
            const float * logits = llama_get_logits_ith(context, -1);
            std::vector<int> order(vocabulary);
            for (int id = 0; id < vocabulary; id++) {
                order[id] = id;
            }
            std::partial_sort(order.begin(), order.begin() + 2, order.end(), [&](int a, int b) {
                return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
            });
            printf("%s%d:%.6f", i == 0 ? "" : " ", order[0], logits[order[0]] - logits[order[1]]);
            next = {(llama_token) order[0]};
        }
        printf("\n");
        fflush(stdout);
    }
}

int main(int argc, char ** argv) {
    if (argc < 4) {
        fail("usage: logits MODEL (score OUT.f32 | greedy N) [--ubatch N] [--kv f32|f16] [--flash 0|1] [--repack 0|1] [--threads N]");
    }
    llama_log_set(quiet, nullptr);
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 2048;
    params.n_batch = 2048;
    params.n_threads = params.n_threads_batch = 2;
    params.type_k = params.type_v = GGML_TYPE_F16;
    for (int i = 4; i + 1 < argc; i += 2) {
        const std::string option = argv[i], value = argv[i + 1];
        if (option == "--ubatch") {
            params.n_ubatch = (uint32_t) atoi(value.c_str());
        } else if (option == "--kv") {
            params.type_k = params.type_v = value == "f32" ? GGML_TYPE_F32 : GGML_TYPE_F16;
        } else if (option == "--flash") {
            params.flash_attn_type = value == "1" ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
        } else if (option == "--repack") {
            model_params.use_extra_bufts = value == "1";
        } else if (option == "--threads") {
            params.n_threads = params.n_threads_batch = atoi(value.c_str());
        } else {
            fail("unknown option " + option);
        }
    }
    llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (model == nullptr) {
        fail(std::string("cannot load ") + argv[1]);
    }
    llama_context * context = llama_init_from_model(model, params);
    if (context == nullptr) {
        fail("cannot make a context");
    }
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    if (strcmp(argv[2], "score") == 0) {
        score(context, vocabulary, argv[3]);
    } else if (strcmp(argv[2], "greedy") == 0) {
        greedy(context, vocabulary, atoi(argv[3]));
    } else {
        fail(std::string("unknown mode ") + argv[2]);
    }
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return 0;
}

// Makes breakers.txt: what llama.cpp's DRY penalises when its breakers are texts, for tests/token/breakers.rs.
//
//   cargo xtask model tiny:qwen2:F32 && cargo xtask model tiny:gemma3:F32
//   c++ -std=c++17 -O1 -I$LLAMA/include -I$LLAMA/ggml/include breakers.cpp $BUILD/src/libllama.a \
//       $BUILD/ggml/src/libggml.a $BUILD/ggml/src/libggml-cpu.a $BUILD/ggml/src/libggml-base.a \
//       -fopenmp -ldl -lpthread -o make && ./make qwen2 QWEN2.gguf gemma3 GEMMA3.gguf > breakers.txt
//
// One line a case: the family, the breakers in hexadecimal, the tokens seen, and the tokens penalised with how much.
// All breakers are ASCII: behind part of a character llama.cpp's tokenizer sees U+FFFD, and the rest never matches.

#include "llama.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

static uint64_t state = 777;

static uint32_t below(uint32_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return uint32_t(state >> 33) % n;
}

static const std::vector<std::vector<const char *>> BREAKERS = {
    {"\n", ":", "\"", "*"},
    {"the"},
    {" the", "people could"},
    {"the w", "e", "ing"},
    {" is that it was for on", "each "},
    {"would write more than the people that could say no", "\n\n"},
    {"x\ny", "way"},
};

static const char * TEXTS[] = {
    "he said: the people that could\nwrite would write more than the people that could say no\n\nthey said so: the way",
    "\"the first\" * the way it was for on * is that it was for on the \xc3\xa9t\xc3\xa9 each which she x\ny the people could",
};

int main(int argc, char ** argv) {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    for (int file = 1; file + 1 < argc; file += 2) {
        auto params = llama_model_default_params();
        params.vocab_only = true;
        auto * model = llama_model_load_from_file(argv[file + 1], params);
        if (!model) return 1;
        const auto * vocab = llama_model_get_vocab(model);
        const int count = llama_vocab_n_tokens(vocab);
        for (const char * text : TEXTS) {
            std::vector<llama_token> words(512);
            words.resize(llama_tokenize(vocab, text, int(std::char_traits<char>::length(text)), words.data(), 512, false, false));
            for (const auto & breakers : BREAKERS) {
                for (int round = 0; round < 4; round++) {
                    std::vector<llama_token> seen;
                    while (seen.size() < 120) {
                        const size_t from = below(uint32_t(words.size() - 1));
                        const size_t len = 1 + below(12);
                        for (size_t i = from; i < from + len && i < words.size(); i++) seen.push_back(words[i]);
                    }
                    auto list = breakers;
                    auto * dry = llama_sampler_init_dry(vocab, 1.0f, 1.75f, 2, 4096, list.data(), list.size());
                    for (auto token : seen) llama_sampler_accept(dry, token);
                    std::vector<llama_token_data> data(count);
                    for (int i = 0; i < count; i++) data[i] = {i, 0.0f, 0.0f};
                    llama_token_data_array array = {data.data(), data.size(), -1, false};
                    llama_sampler_apply(dry, &array);
                    printf("%s |", argv[file]);
                    for (const char * breaker : breakers) {
                        printf(" ");
                        for (const char * byte = breaker; *byte; byte++) printf("%02x", uint8_t(*byte));
                    }
                    printf(" |");
                    for (auto token : seen) printf(" %d", token);
                    printf(" |");
                    for (const auto & one : data) {
                        if (one.logit != 0.0f) printf(" %d:%.9g", one.id, -one.logit);
                    }
                    printf("\n");
                    llama_sampler_free(dry);
                }
            }
        }
        llama_model_free(model);
    }
}

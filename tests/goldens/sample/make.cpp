// Makes chain.txt: what llama.cpp's samplers leave of random logits, for the tests of core/src/sample.
//
// Build against a llama.cpp checkout and its static build, then run without arguments:
//   c++ -std=c++17 -O1 -I$LLAMA/include -I$LLAMA/ggml/include make.cpp $BUILD/src/libllama.a \
//       $BUILD/ggml/src/libggml.a $BUILD/ggml/src/libggml-cpu.a $BUILD/ggml/src/libggml-base.a \
//       -fopenmp -ldl -lpthread -o make && ./make > chain.txt
//
// One line a step: parameters, tokens seen before, logits in 1/64, the picked token (or -), the tokens left
// with their probabilities. A step whose parameters are "same" continues the sampler of the line before it.

#include "llama.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

extern struct llama_sampler * llama_sampler_init_dry_testing(float multiplier, float base, int32_t allowed,
    int32_t last_n, const std::vector<std::vector<llama_token>> & breakers);

static uint64_t state = 12345;

static uint32_t below(uint32_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return uint32_t(state >> 33) % n;
}

static std::vector<int> distinct_logits(int vocab, int span) {
    std::vector<int> all;
    for (int i = -span; i <= span; i++) all.push_back(i);
    for (size_t i = all.size() - 1; i > 0; i--) std::swap(all[i], all[below(uint32_t(i + 1))]);
    all.resize(vocab);
    return all;
}

struct step {
    std::vector<llama_token_data> data;
    llama_token_data_array array;
    explicit step(const std::vector<int> & logits) {
        for (size_t i = 0; i < logits.size(); i++) data.push_back({llama_token(i), float(logits[i]) / 64.0f, 0.0f});
        array = {data.data(), data.size(), -1, false};
    }
    void print(const std::string & params, const std::vector<llama_token> & seen, const std::vector<int> & logits) {
        printf("%s |", params.c_str());
        for (auto token : seen) printf(" %d", token);
        printf(" |");
        for (auto logit : logits) printf(" %d", logit);
        const bool picked = array.selected >= 0;
        printf(picked ? " | %d |" : " | - |", picked ? array.data[array.selected].id : 0);
        for (size_t i = 0; i < array.size; i++) {
            if (array.data[i].p > 0.0f) printf(" %d:%.7g", array.data[i].id, array.data[i].p);
        }
        printf("\n");
    }
};

static std::vector<llama_token> repetitive(int vocab, int len) {
    std::vector<llama_token> seen;
    while (int(seen.size()) < len) {
        const int copy = 1 + int(below(5));
        if (seen.size() > 6 && below(2)) {
            const size_t from = below(uint32_t(seen.size() - 5));
            for (int i = 0; i < copy; i++) seen.push_back(seen[from + i]);
        } else {
            seen.push_back(int(below(vocab)));
        }
    }
    return seen;
}

static const float P[] = {0.05f, 0.3f, 0.5f, 0.75f, 0.9f, 0.99f};

static void chain(bool everything) {
    const int vocab = 5 + int(below(30));
    const int which = everything ? -1 : int(below(9));
    auto on = [&](int stage) { return everything ? below(3) != 0 : which == stage; };
    const auto logits = distinct_logits(vocab, 200 + int(below(400)));
    const auto seen = repetitive(vocab, int(below(40)));
    std::string params;
    char text[200];
    std::vector<llama_sampler *> stages;
    if (on(0)) {
        const int last_n = 1 + int(below(40));
        const float repeat = 0.5f + float(below(8)) / 4, frequency = float(below(5)) / 4, presence = float(below(5)) / 4;
        snprintf(text, sizeof text, "penalty_last_n=%d repeat=%g frequency=%g presence=%g ", last_n, repeat, frequency, presence);
        params += text;
        stages.push_back(llama_sampler_init_penalties(vocab, last_n, repeat, frequency, presence));
    }
    if (on(1)) {
        const int last_n = 4 + int(below(40)), allowed = 1 + int(below(3));
        const float multiplier = 0.25f + float(below(8)) / 4, base = 1.0f + float(below(8)) / 8;
        const llama_token single = int(below(vocab)), a = int(below(vocab)), b = int(below(vocab));
        snprintf(text, sizeof text, "dry_last_n=%d allowed=%d multiplier=%g base=%g breaker=%d breaker2=%d,%d ",
            last_n, allowed, multiplier, base, single, a, b);
        params += text;
        stages.push_back(llama_sampler_init_dry_testing(multiplier, base, allowed, last_n, {{single}, {a, b}}));
    }
    // after top-n-sigma llama.cpp carries impossible tokens along: typical then computes NaN, and dynatemp
    // counts them; neither is worth copying
    const bool sigma = on(2);
    if (sigma) {
        const float n = float(1 + below(10)) / 4;
        snprintf(text, sizeof text, "top_n_sigma=%g ", n);
        params += text;
        stages.push_back(llama_sampler_init_top_n_sigma(n));
    }
    if (on(3)) {
        const int k = 1 + int(below(vocab + 3));
        snprintf(text, sizeof text, "top_k=%d ", k);
        params += text;
        stages.push_back(llama_sampler_init_top_k(k));
    }
    const int min_keep = everything ? int(below(4)) : 0;
    snprintf(text, sizeof text, "min_keep=%d ", min_keep);
    params += text;
    if (on(4) && !sigma) {
        const float p = P[below(6)];
        snprintf(text, sizeof text, "typical_p=%g ", p);
        params += text;
        stages.push_back(llama_sampler_init_typical(p, min_keep));
    }
    if (on(5)) {
        const float p = P[below(6)];
        snprintf(text, sizeof text, "top_p=%g ", p);
        params += text;
        stages.push_back(llama_sampler_init_top_p(p, min_keep));
    }
    if (on(6)) {
        const float p = P[below(6)] / 2;
        snprintf(text, sizeof text, "min_p=%g ", p);
        params += text;
        stages.push_back(llama_sampler_init_min_p(p, min_keep));
    }
    if (on(7)) {
        const float threshold = P[below(3)];
        snprintf(text, sizeof text, "xtc_probability=1 xtc_threshold=%g ", threshold);
        params += text;
        stages.push_back(llama_sampler_init_xtc(1.0f, threshold, min_keep, 1));
    }
    const float temperature = on(8) ? float(1 + below(12)) / 4 : 1.0f, range = on(8) && !sigma && below(2) ? 0.5f : 0.0f;
    const float exponent = 0.5f + float(below(3)) / 2;
    snprintf(text, sizeof text, "temperature=%g dynatemp_range=%g dynatemp_exponent=%g", temperature, range, exponent);
    params += text;
    stages.push_back(llama_sampler_init_temp_ext(temperature, range, exponent));
    step step(logits);
    for (auto * stage : stages) {
        for (auto token : seen) llama_sampler_accept(stage, token);
        llama_sampler_apply(stage, &step.array);
        llama_sampler_free(stage);
    }
    auto * dist = llama_sampler_init_dist(1);
    llama_sampler_apply(dist, &step.array);
    llama_sampler_free(dist);
    step.print(params, seen, logits);
}

static void controlled(int kind) {
    const int vocab = 150;
    const float tau = float(4 + below(20)) / 4, eta = float(1 + below(8)) / 8;
    const float target = float(1 + below(9)) / 10, decay = float(1 + below(9)) / 10;
    char text[200];
    llama_sampler * sampler;
    if (kind == 2) {
        snprintf(text, sizeof text, "adaptive_target=%g adaptive_decay=%g", target, decay);
        sampler = llama_sampler_init_adaptive_p(target, decay, below(1000));
    } else {
        snprintf(text, sizeof text, "mirostat=%d tau=%g eta=%g", kind + 1, tau, eta);
        sampler = kind == 0 ? llama_sampler_init_mirostat(vocab, below(1000), tau, eta, 100)
                            : llama_sampler_init_mirostat_v2(below(1000), tau, eta);
    }
    for (int i = 0; i < 4; i++) {
        const auto logits = distinct_logits(vocab, 400);
        step step(logits);
        llama_sampler_apply(sampler, &step.array);
        llama_sampler_accept(sampler, step.array.data[step.array.selected].id);
        step.print(i == 0 ? text : "same", {}, logits);
    }
    llama_sampler_free(sampler);
}

int main() {
    for (int i = 0; i < 180; i++) chain(false);
    for (int i = 0; i < 120; i++) chain(true);
    for (int i = 0; i < 12; i++) controlled(i % 3);
}

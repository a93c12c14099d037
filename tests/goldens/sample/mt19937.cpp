// Makes mt19937.txt: what the C++ standard library's generator and distributions give, for core/src/sample/mt19937.rs.
//
//   c++ -std=c++17 -O1 mt19937.cpp -o make && ./make > mt19937.txt      libstdc++, as llama.cpp's builds for Linux use
//
// One line a seed: the seed, numbers 1 to 4 and 700 to 703 of the generator, then each from a new generator: eight
// uniform doubles and eight uniform floats as the bits of each, and sixteen picks from eight weights.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>

int main() {
    for (uint32_t seed : {0u, 1u, 2u, 42u, 5489u, 123456789u, 0x80000000u, 0xfffffffeu}) {
        printf("%u |", seed);
        std::mt19937 raw(seed);
        for (int i = 1; i <= 703; i++) {
            const uint32_t value = uint32_t(raw());
            if (i <= 4 || i >= 700) printf(" %u", value);
        }
        printf(" |");
        std::mt19937 doubles(seed);
        for (int i = 0; i < 8; i++) {
            std::uniform_real_distribution<double> uniform(0.0, 1.0);
            const double value = uniform(doubles);
            uint64_t bits;
            memcpy(&bits, &value, sizeof bits);
            printf(" %016llx", (unsigned long long) bits);
        }
        printf(" |");
        std::mt19937 floats(seed);
        for (int i = 0; i < 8; i++) {
            std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
            const float value = uniform(floats);
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            printf(" %08x", bits);
        }
        printf(" |");
        std::mt19937 picks(seed);
        const double weights[] = {0.30, 0.25, 0.15, 0.10, 0.08, 0.06, 0.04, 0.02};
        for (int i = 0; i < 16; i++) {
            std::discrete_distribution<int> distribution(weights, weights + 8);
            printf(" %d", distribution(picks));
        }
        printf("\n");
    }
}

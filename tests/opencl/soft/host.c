// Prints what the item functions give on the host: a name, then 256 words per line.
#include <stdio.h>
#include "items.h"
#define N 256
static u32 in[N];
#define ROW(name) printf(#name); for (u32 i = 0; i < N; i++) printf(" %08x", name(in[i], in[(i * 7 + 3) % N], i)); printf("\n");
int main(void) {
  u64 s = 42;
  for (int i = 0; i < N; i++) {
    u64 z = (s += 0x9e3779b97f4a7c15ul);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul; z = (z ^ z >> 27) * 0x94d049bb133111ebul; in[i] = (u32)(z ^ z >> 31);
    if (i < 4) in[i] = (u32[]){0, 1, 0xffffffff, 0x80000000}[i];
  }
  printf("in"); for (u32 i = 0; i < N; i++) printf(" %08x", in[i]); printf("\n");
  ITEMS(ROW)
  return 0;
}

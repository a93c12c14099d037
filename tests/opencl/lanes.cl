// Exchange between lanes: DPP, swizzle, permutes, ballots, read lanes.
#define LANE __builtin_amdgcn_workitem_id_x()

kernel void exchange(global const int *in, global int *out, int source) {
    uint lane = LANE;
    int x = in[lane], r = x;
    r += __builtin_amdgcn_update_dpp(0, r, 0x161, 0xf, 0xf, true);
    r += __builtin_amdgcn_update_dpp(0, r, 0x162, 0xf, 0xf, true);
    r += __builtin_amdgcn_update_dpp(r, x, 0x111, 0xf, 0xa, false);
    r += __builtin_amdgcn_mov_dpp8(r, 0xfac688);
    r += __builtin_amdgcn_permlane16(r, r, 0x76543210, 0xfedcba98, 1, 0);
    r += __builtin_amdgcn_permlanex16(r, r, 0x76543210, 0xfedcba98, 0, 1);
    r += __builtin_amdgcn_permlane64(r);
    r += __builtin_amdgcn_ds_swizzle(r, 0x401f);
    r += __builtin_amdgcn_ds_bpermute(source << 2, r);
    r += __builtin_amdgcn_ds_permute(source << 2, r);
    r += __builtin_amdgcn_readfirstlane(r) + __builtin_amdgcn_readlane(x, source & 31);
    r += __builtin_popcount(__builtin_amdgcn_ballot_w32(r > x));
    r += __builtin_amdgcn_mbcnt_lo(~0u, 0) + __builtin_amdgcn_mbcnt_hi(~0u, 0);
    r += __builtin_amdgcn_perm(r, x, 0x07060100) + __builtin_amdgcn_alignbyte(r, x, 1);
    r += __builtin_amdgcn_ubfe(r, 3, 7) + __builtin_amdgcn_sad_u8(r, x, 4) + __builtin_amdgcn_lerp(r, x, 0);
    out[lane] = r;
}

kernel void float_sum(global const float *in, global float *out) {
    float x = in[LANE];
    x += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), 0x161, 0xf, 0xf, 1));
    x += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), 0x162, 0xf, 0xf, 1));
    x += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), 0x164, 0xf, 0xf, 1));
    x += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), 0x168, 0xf, 0xf, 1));
    if (LANE == 0) out[0] = x;
}

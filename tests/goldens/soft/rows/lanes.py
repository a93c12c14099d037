"""Instructions that move data between lanes or registers: what a whole wave holds afterwards."""
from pools import LANES, MASK, column, splitmix


def exec_lanes(mask):
    return [lane for lane in range(LANES) if mask >> lane & 1]


def permlane(data, old, mask, select, crossed, fetch_inactive, bound_control):
    """Each lane reads lane `select(lane)` of its row of sixteen, or of the other row. A source lane that is off is not read:
    the lane keeps its old value, or gets zero with bound control (RDNA3 document, DPP section; LLVM: permlane16 fi, bc)."""
    out = list(old)
    for lane in exec_lanes(mask):
        row = lane // 16 ^ int(crossed)
        source = row * 16 + select(lane)
        if mask >> source & 1 or fetch_inactive:
            out[lane] = data[source]
        elif bound_control:
            out[lane] = 0
    return out


def cases(name, old):
    """Cases of one mnemonic: dicts of src tokens, settings, results, pools."""
    data = column("i32", 1)
    pool = {"i32_1": data}
    partial = 0x7ffbfff1
    first = lambda mask: data[exec_lanes(mask)[0]] if mask else data[0]
    out = []

    def case(tokens, settings, results, extra=()):
        out.append((tokens, settings, results, {**pool, **dict(extra)}))

    if name == "v_readfirstlane_b32":
        for mask in (MASK, 0x7ffffff8, 0x80000000, 0x00010000, 0):
            case(["p:i32_1"], {"exec": mask}, [("s", [first(mask)])])
    elif name == "v_readlane_b32":
        for select in (0, 5, 31, 37, 0xffffffe3):
            case(["p:i32_1", f"s:{select:x}"], {"exec": partial}, [("s", [data[select & 31]])])
    elif name == "v_writelane_b32":
        for select in (0, 2, 31, 37):
            value = splitmix(select) >> 32
            after = [value if lane == select & 31 else w for lane, w in enumerate(old)]
            case([f"s:{value:x}", f"s:{select:x}"], {"exec": partial}, [("v", after)])
    elif name in ("v_permlane16_b32", "v_permlanex16_b32"):
        for low, high, opsel in ((0x76543210, 0xfedcba98, 0), (0x01234567, 0x89abcdef, 0), (0x0f1e2d3c, 0x4b5a6978, 1),
                                 (0x33333333, 0xcccccccc, 2), (0xedcba987, 0x6543210f, 3)):
            select = lambda lane, p=high << 32 | low: p >> 4 * (lane % 16) & 15
            for mask in (MASK, partial):
                after = permlane(data, old, mask, select, "x16" in name, opsel & 1, opsel & 2)
                case(["p:i32_1", f"s:{low:x}", f"s:{high:x}"], {"exec": mask, "opsel": opsel}, [("v", after)])
    elif name in ("v_permlane16_var_b32", "v_permlanex16_var_b32"):
        selects = [splitmix(lane + 40) >> 30 & MASK for lane in range(LANES)]
        for mask in (MASK, partial):
            for opsel in (0, 1, 2):
                after = permlane(data, old, mask, lambda lane: selects[lane] & 15, "x16" in name, opsel & 1, opsel & 2)
                case(["p:i32_1", "p:lane_selects"], {"exec": mask, "opsel": opsel}, [("v", after)], {"lane_selects": selects}.items())
    elif name == "v_permlane64_b32":
        # For waves of 64 only; a wave of 32 sees a no-op.
        case(["p:i32_1"], {"exec": partial}, [("v", list(old))])
    elif name == "v_swap_b32":
        after = [data[i] if partial >> i & 1 else old[i] for i in range(LANES)]
        back = [old[i] if partial >> i & 1 else data[i] for i in range(LANES)]
        case(["p:i32_1"], {"exec": partial}, [("v", after), ("r", back)])
    elif name.startswith("v_movrel"):
        after = [data[i] if partial >> i & 1 else old[i] for i in range(LANES)]
        m0 = {"v_movreld_b32": 3, "v_movrels_b32": 3, "v_movrelsd_b32": 2, "v_movrelsd_2_b32": 5 << 16 | 4}[name]
        source = {"v_movreld_b32": 0, "v_movrels_b32": 3, "v_movrelsd_b32": 2, "v_movrelsd_2_b32": 4}[name]
        target = {"v_movreld_b32": 3, "v_movrels_b32": 0, "v_movrelsd_b32": 2, "v_movrelsd_2_b32": 5}[name]
        case(["p:i32_1"], {"exec": partial, "m0": m0, "from": source, "to": target}, [("v", after)])
    elif name in ("ds_permute_b32", "ds_bpermute_b32"):
        addresses = [splitmix(lane + 70) % 256 & ~3 for lane in range(LANES)]
        for offset in (0, 12):
            moved = [0] * LANES
            for lane in exec_lanes(partial):
                other = (addresses[lane] + offset) // 4 % 32
                if name == "ds_permute_b32":
                    moved[other] = data[lane]
                else:
                    moved[lane] = data[other] if partial >> other & 1 else 0
            after = [moved[i] if partial >> i & 1 else old[i] for i in range(LANES)]
            case(["p:lane_addresses", "p:i32_1"], {"exec": partial, "offset": offset}, [("v", after)],
                 {"lane_addresses": addresses}.items())
    elif name == "ds_swizzle_b32":
        # Bit masks (and, or, xor) within 32 lanes, or four selectors within groups of four.
        for offset in (0x401f, 0x1c1f, 0x0078, 0x801b, 0x80e4, 0x041f, 0x0a55):
            after = list(old)
            for lane in exec_lanes(partial):
                if offset & 0x8000:
                    source = lane & ~3 | offset >> 2 * (lane & 3) & 3
                else:
                    source = ((lane & offset & 31) | offset >> 5 & 31) ^ offset >> 10 & 31
                after[lane] = data[source] if partial >> source & 1 else 0
            case(["p:i32_1"], {"exec": partial, "offset": offset}, [("v", after)])
    else:
        return None
    return out

"""numpy results of every launch, and the data that the launches start from.

    buffers = make_buffers(manifest)              # name -> array, before the launch
    wanted = expected(manifest, buffers)          # name -> array, after it
    problems = compare(manifest, wanted, results) # list of text, empty when all is well

bf16 has no numpy type: such a buffer is an array of uint16 that holds the raw bits.

Copied from the project's own kernel collection (`references.py`), where the kernels' sources are checked on the CPU
against it.
"""

import numpy as np

DTYPES = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": np.uint16,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
}


def to_bf16(x):
    """f32 to bf16 bits, rounding to the nearest and ties to even (no NaN expected)."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def make_buffer(arg):
    shape, init, dtype = tuple(arg["shape"]), arg["init"], DTYPES[arg["dtype"]]
    kind = init["kind"]
    if kind == "zeros":
        data = np.zeros(shape)
    elif kind == "full":
        data = np.full(shape, init["value"])
    elif kind == "values":
        data = np.array(init["values"]).reshape(shape)
    else:
        rng = np.random.default_rng(init["seed"])
        if kind == "normal":
            data = rng.standard_normal(shape) * init["scale"]
        elif kind == "uniform":
            data = rng.uniform(init["low"], init["high"], shape)
        elif kind == "integers":
            data = rng.integers(init["low"], init["high"], shape)
        else:
            raise ValueError(f"unknown init kind {kind!r}")
    return to_bf16(data) if arg["dtype"] == "bf16" else data.astype(dtype)


def make_buffers(manifest):
    return {a["name"]: make_buffer(a) for a in manifest["arguments"] if a["kind"] == "buffer"}


def make_scalars(manifest):
    return {a["name"]: DTYPES[a["dtype"]](a["value"]) for a in manifest["arguments"] if a["kind"] == "scalar"}


def expected(manifest, buffers):
    """The buffers that the kernel writes, as they must be after the launch."""
    before = {name: data.copy() for name, data in buffers.items()}
    return REFERENCES[manifest["reference"]](before, make_scalars(manifest))


def compare(manifest, wanted, results):
    problems = []
    for arg in manifest["arguments"]:
        name = arg["name"]
        if name not in wanted:
            continue
        want, got = np.asarray(wanted[name]), np.asarray(results[name])
        if want.shape != got.shape or want.dtype != got.dtype:
            problems.append(f"{name}: {got.dtype}{got.shape} instead of {want.dtype}{want.shape}")
            continue
        rtol, atol = arg["tolerance"]["relative"], arg["tolerance"]["absolute"]
        if arg["dtype"] == "bf16":
            want, got = from_bf16(want), from_bf16(got)
        if rtol == 0 and atol == 0:
            bad = ~((want == got) | ((want != want) & (got != got)))
        else:
            bad = ~np.isclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            problems.append(
                f"{name}: {int(bad.sum())} of {bad.size} elements differ, first at {at}: "
                f"{got[at]} instead of {want[at]}"
            )
    return problems


REFERENCES = {}


def reference(fn):
    REFERENCES[fn.__name__] = fn
    return fn


def f64(x):
    return np.asarray(x, np.float64)


def silu(z):
    return z / (1.0 + np.exp(-z))


# ---------------------------------------------------------------- Triton
# b: the buffers before the launch (ours to change), s: the scalars.


@reference
def vector_add(b, s):
    n = int(s["n"])
    b["out_ptr"][:n] = b["x_ptr"][:n] + b["y_ptr"][:n]
    return {"out_ptr": b["out_ptr"]}


@reference
def saxpy(b, s):
    n = int(s["n"])
    b["y_ptr"][:n] = f64(s["alpha"]) * b["x_ptr"] + b["y_ptr"][:n]
    return {"y_ptr": b["y_ptr"]}


@reference
def softmax(b, s):
    n = int(s["n_cols"])
    x = f64(b["x_ptr"][:, :n])
    e = np.exp(x - x.max(axis=1, keepdims=True))
    b["out_ptr"][:, :n] = e / e.sum(axis=1, keepdims=True)
    return {"out_ptr": b["out_ptr"]}


@reference
def layer_norm(b, s):
    x = f64(b["x_ptr"])
    mean = x.mean(axis=1)
    rstd = 1.0 / np.sqrt(x.var(axis=1) + float(s["eps"]))
    y = (x - mean[:, None]) * rstd[:, None] * f64(b["weight_ptr"]) + f64(b["bias_ptr"])
    return {"out_ptr": y.astype(np.float16), "mean_ptr": mean.astype(np.float32), "rstd_ptr": rstd.astype(np.float32)}


@reference
def rms_norm(b, s):
    n = int(s["n_cols"])
    x = f64(b["x_ptr"][:, :n])
    scale = 1.0 / np.sqrt((x * x).mean(axis=1, keepdims=True) + float(s["eps"]))
    b["out_ptr"][:, :n] = x * scale * f64(b["weight_ptr"][:n])
    return {"out_ptr": b["out_ptr"]}


@reference
def matmul_f16(b, s):
    return {"c_ptr": (f64(b["a_ptr"]) @ f64(b["b_ptr"])).astype(np.float16)}


@reference
def matmul_i8(b, s):
    return {"c_ptr": b["a_ptr"].astype(np.int32) @ b["b_ptr"].astype(np.int32)}


@reference
def attention_fwd(b, s):
    q, k, v = f64(b["q_ptr"]), f64(b["k_ptr"]), f64(b["v_ptr"])
    n = q.shape[1]
    score = np.einsum("hid,hjd->hij", q, k) * float(s["scale"])
    score = np.where(np.tril(np.ones((n, n), bool)), score, -np.inf)
    peak = score.max(axis=2, keepdims=True)
    p = np.exp(score - peak)
    total = p.sum(axis=2, keepdims=True)
    lse = (peak + np.log(total))[:, :, 0] * np.log2(np.e)
    return {"out_ptr": (p / total @ v).astype(np.float16), "lse_ptr": lse.astype(np.float32)}


@reference
def attention_decode(b, s):
    q, k, v = f64(b["q_ptr"]), f64(b["k_ptr"]), f64(b["v_ptr"])
    score = np.einsum("hd,hnd->hn", q, k) * float(s["scale"])
    p = np.exp(score - score.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return {"out_ptr": np.einsum("hn,hnd->hd", p, v).astype(np.float32)}


@reference
def row_argmax(b, s):
    x = b["x_ptr"]
    return {"value_ptr": x.max(axis=1), "index_ptr": x.argmax(axis=1).astype(np.int32)}


@reference
def prefix_sum(b, s):
    total = np.cumsum(b["x_ptr"], axis=1, dtype=np.int32)
    return {"inclusive_ptr": total, "exclusive_ptr": total - b["x_ptr"]}


@reference
def linear_recurrence(b, s):
    a, x = f64(b["a_ptr"]), f64(b["b_ptr"])
    h, out = np.zeros(a.shape[0]), np.empty(a.shape)
    for t in range(a.shape[1]):
        h = a[:, t] * h + x[:, t]
        out[:, t] = h
    return {"h_ptr": out.astype(np.float32)}


@reference
def int4_matvec(b, s):
    words = b["packed_ptr"].view(np.uint32)
    nibbles = (words[:, :, None] >> np.arange(0, 32, 4, dtype=np.uint32)) & 15
    weight = f64(nibbles.reshape(words.shape[0], -1)) - 8
    weight *= np.repeat(f64(b["scale_ptr"]), 32, axis=1)
    b["y_ptr"][: int(s["n_rows"])] = weight @ f64(b["x_ptr"])
    return {"y_ptr": b["y_ptr"]}


@reference
def histogram(b, s):
    x = b["x_ptr"]
    x = x[(x >= 0) & (x < int(s["bins"]))]
    return {"count_ptr": b["count_ptr"] + np.bincount(x, minlength=int(s["bins"])).astype(np.int32)}


@reference
def gemm_bias_silu(b, s):
    return {"y_ptr": silu(f64(b["a_ptr"]) @ f64(b["b_ptr"]) + f64(b["bias_ptr"])).astype(np.float16)}


@reference
def bf16_scale_add(b, s):
    n = int(s["n"])
    b["out_ptr"][:n] = to_bf16(f64(s["alpha"]) * from_bf16(b["x_ptr"]) + from_bf16(b["y_ptr"]))
    return {"out_ptr": b["out_ptr"]}


@reference
def transpose(b, s):
    return {"out_ptr": np.ascontiguousarray(b["x_ptr"].T)}


# ---------------------------------------------------------------- OpenCL C


@reference
def fused_mlp(b, s):
    return {"y": silu(f64(b["x"]) @ f64(b["w"]) + f64(b["bias"])).astype(np.float32)}


@reference
def attention_4heads(b, s):
    q, k, v = f64(b["q"]), f64(b["keys"]), f64(b["values"])
    score = np.einsum("ghd,gnd->ghn", q, k) * float(s["scale"])
    p = np.exp(score - score.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    return {"out": np.einsum("ghn,gnd->ghd", p, v).astype(np.float32)}


@reference
def lds_reduce(b, s):
    n = int(s["n"])
    rows = [b["x"][i : min(i + 1024, n)] for i in range(0, n, 1024)]
    return {
        "sums": np.array([f64(r).sum() for r in rows], np.float32),
        "peaks": np.array([r.max() for r in rows], np.float32),
    }


@reference
def conv1d(b, s):
    n = int(s["n"])
    # The kernel correlates: tap 0 meets the element 4 places to the left.
    b["y"][:n] = np.correlate(np.pad(f64(b["x"]), 4), f64(b["taps"]), mode="valid")
    return {"y": b["y"]}


@reference
def hash_mix(b, s):
    m32, m64 = (1 << 32) - 1, (1 << 64) - 1
    seed, buckets, big = int(s["seed"]), int(s["buckets"]), int(s["big_buckets"])
    rows = []
    for words in b["words"].tolist():
        x, y = (seed + 0x9E3779B1) & m32, seed ^ 0x9E3779B97F4A7C15
        for w in words:
            x = (x + w * 0x85EBCA6B) & m32
            x = ((x << 13 | x >> 19) & m32) * 0xC2B2AE35 & m32
            y ^= w * 0xFF51AFD7ED558CCD & m64
            y = ((y << 31 | y >> 33) & m64) * 0xC4CEB9FE1A85EC53 + 0x52DCE729 & m64
        x ^= x >> 15
        x = x * 0x2C1B3C6D & m32
        x ^= x >> 12
        y ^= y >> 33
        y = y * 0x94D049BB133111EB & m64
        y ^= y >> 29
        rows.append((x, y, x % buckets, y % big))
    x, y, xb, yb = zip(*rows, strict=False)
    return {
        "h32": np.array(x, np.uint32),
        "h64": np.array(y, np.uint64),
        "bucket32": np.array(xb, np.uint32),
        "bucket64": np.array(yb, np.uint64),
    }


@reference
def bit_ops(b, s):
    m32 = (1 << 32) - 1
    rows = []
    for x, y in zip(b["a"].tolist(), b["b"].tolist(), strict=False):
        r, width, wide = y & 31, y >> 8 & 31, x << 32 | y
        xb, yb = x.to_bytes(4, "little"), y.to_bytes(4, "little")
        field = x >> 9 & 0xFFF
        rows.append(
            [
                x.bit_count(),
                wide.bit_count(),
                32 - x.bit_length(),
                (x & -x).bit_length() - 1 if x else 32,
                64 - wide.bit_length(),
                int(f"{x:032b}"[::-1], 2),
                int.from_bytes(xb, "big"),
                (x << r | x >> (32 - r)) & m32,
                (x >> r | x << (32 - r)) & m32,
                x >> r & (1 << width) - 1,
                (field - 0x1000 if field & 0x800 else field) & m32,
                (x & y) | (~x & m32 & y >> 7),
                wide >> r & m32,
                yb[0] | xb[1] << 8 | yb[2] << 16 | xb[3] << 24,
                sum(abs(p - q) for p, q in zip(xb, yb, strict=False)) + 17,
                ((x & 0xFFFFFF) * (y & 0xFFFFFF) + r) & m32,
            ]
        )
    return {"out": np.array(rows, np.uint32)}


@reference
def dot_f64(b, s):
    x, y = b["x"], b["y"]
    xy, xx, yy = (x * y).sum(axis=1), (x * x).sum(axis=1), (y * y).sum(axis=1)
    return {"out": np.stack([xy, xy / np.sqrt(xx * yy), 1.0 / np.sqrt(xx)], axis=1)}


@reference
def half2_math(b, s):
    # f16 products and sums are exact in f64 here, so each step rounds once, like an FMA.
    h, a, c = np.float16, f64(b["x"]), f64(b["y"])
    poly = f64((0.25 * a + np.array([-0.5, 0.5])).astype(h))
    poly = (poly * a + c).astype(h)
    clamped = np.clip((a * c).astype(h), h(-1), h(1))
    swapped = (np.abs(a)[:, ::-1] + c).astype(h)
    return {"out": np.stack([poly, clamped, swapped], axis=1)}


@reference
def divergent(b, s):
    m32 = (1 << 32) - 1
    for i in range(int(s["n"])):
        start = v = int(b["x"][i])
        count = 0
        while v > 1 and count < 200:
            if v & 1:
                if v > 0x1000000:
                    break
                v = 3 * v + 1
            else:
                v >>= 1
                if v % 5 == 0:
                    count += 2
                    continue
            count += 1
        b["steps"][i] = count
        if count < 20:
            r = start * 7 if start < 50 else start ^ 0x55
        else:
            r = count
            for k in range(start & 7):
                r = (r * 31 + k) & m32
                if r % 11 == 3:
                    break
        case = start % 6
        if case == 0:
            r += 100
        elif case == 1:
            r ^= start
        elif case == 2:
            r = ((r << 3 | r >> 29) & m32) - count
        elif case == 3:
            r -= count
        elif case == 4:
            r = ~r
        else:
            continue
        b["result"][i] = r & m32
    return {"steps": b["steps"], "result": b["result"]}


@reference
def global_atomics(b, s):
    x = b["x"].tolist()
    i, u, wide = b["i"].tolist(), b["u"].tolist(), b["wide"].tolist()
    m32, m64 = (1 << 32) - 1, (1 << 64) - 1
    for k, v in enumerate(x):
        slot, bits = k & 3, v & m32
        i[slot] += v
        i[4 + slot] -= v
        i[8 + slot] = min(i[8 + slot], v)
        i[12 + slot] = max(i[12 + slot], v)
        u[slot] &= bits | 0xFF00FF
        u[4 + slot] |= 1 << (v & 31)
        u[8 + slot] ^= bits
        wide[slot] = wide[slot] + (bits << 20) & m64
        u[12] = min(u[12] + (v & 15), 1500)
        if v > 0:
            b["ticket_owner"][u[13]] = 7
            u[13] += 1
    return {
        "i": np.array(i, np.int64).astype(np.int32),
        "u": np.array(u, np.uint32),
        "wide": np.array(wide, np.uint64),
        "ticket_owner": b["ticket_owner"],
    }


@reference
def float_atomics(b, s):
    x = b["x"]
    sums = np.array([x[0::2].sum(), x[1::2].sum()])
    bins = np.stack([np.bincount(group & 15, minlength=16) for group in x.reshape(4, 64)])
    return {"sum32": sums.astype(np.float32), "sum64": sums.astype(np.float64), "bins": bins.astype(np.uint32)}


@reference
def narrow_memory(b, s):
    a, u, c, d = (b[name].astype(np.int32) for name in ("s8", "u8", "s16", "u16"))
    second = c + (d << 1)
    bytes_ = (a + u).astype(np.int8).astype(np.int32).reshape(-1, 64)[:, ::-1].reshape(-1)
    shorts = (c ^ d).astype(np.uint16).astype(np.int32)[np.arange(a.size) ^ 1]
    return {
        "wide": np.stack([a * 3 - u, second, bytes_, shorts], axis=1),
        "out8": (second >> 3).astype(np.int8),
        "out16": (a * c).astype(np.int16),
    }


@reference
def lookup_table(b, s):
    squares = (np.arange(64) ** 2 % 97).astype(np.uint32)
    steps = np.array(
        [0, 0.0625, 0.125, 0.25, 0.375, 0.5, 0.75, 1, -0.25, -0.5, -0.125, -0.75, -1, 2.5, -2, 4], np.float32
    )
    x = b["x"]
    first = squares[x & 63]
    level = steps[x >> 12 & 15] * steps[first & 15] + steps[np.arange(x.size) // 64]
    return {"out": first * np.uint32(97) + squares[x >> 6 & 63], "level": level}


@reference
def clamp_i32(b, s):
    n = int(s["n"])
    b["x"][:n] = np.clip(b["x"][:n], s["low"], s["high"])
    return {"x": b["x"]}


@reference
def transpose_tile(b, s):
    return {"out": np.ascontiguousarray(b["in"].T)}


@reference
def stencil_3d(b, s):
    cell = f64(b["in"])
    around = sum(np.roll(cell, by, axis) for axis in range(3) for by in (1, -1))
    return {"out": (float(s["centre"]) * cell + float(s["side"]) * around).astype(np.float32)}


@reference
def wave_ops(b, s):
    x = b["x"]
    sum8 = np.repeat(x.reshape(-1, 8).sum(axis=1), 8).astype(np.int32)
    rows = x.reshape(-1, 16)
    shifted = np.concatenate([np.full((rows.shape[0], 1), -1, np.int32), rows[:, :-1]], axis=1).reshape(-1)
    votes = ((x > 0).reshape(-1, 8) << np.arange(8)).sum(axis=1)
    return {
        "sum8": sum8,
        "shifted": shifted,
        "votes": np.repeat(votes, 8).astype(np.uint32),
        "uniform_sum": x + np.repeat(x[::64], 64),
    }


@reference
def scratch_sort(b, s):
    ordered = np.sort(b["x"], axis=1)
    return {"sorted": ordered, "picked": ordered[np.arange(ordered.shape[0]), b["x"][:, 0] % 40]}


@reference
def function_calls(b, s):
    m32 = (1 << 32) - 1

    def step(v, k):
        return ((v ^ v >> 7) * 2654435761 + k) & m32

    results = []
    for v in b["x"].tolist():
        chained = v
        for i in range(v & 3):
            chained = step(chained, i)
        results.append((chained + step(v, 99)) & m32)
    return {"out": np.array(results, np.uint32)}


@reference
def dynamic_lds(b, s):
    return {"out": np.ascontiguousarray(b["x"][:, ::-1])}


@reference
def hidden_arguments(b, s):
    height, width = b["out"].shape[:2]
    y, x = np.mgrid[0:height, 0:width]
    # The last group of a dimension may be smaller than 16 x 8.
    size_x = np.minimum(16, width - x // 16 * 16)
    size_y = np.minimum(8, height - y // 8 * 8)
    return {
        "out": np.stack([size_x, size_y, np.full_like(x, width * 65536 + height), y * 1000 + x], axis=2).astype(
            np.uint32
        )
    }


@reference
def mad_mix(b, s):
    x, y, p, q = f64(b["x"]), f64(b["y"]), b["p"].astype(np.int32), b["q"].astype(np.int32)
    first = (x[:, 0] * y[:, 0] + 0.5).astype(np.float32)
    second = (x[:, 1] * y[:, 1] + first).astype(np.float32)
    floor = np.floor(p[:, 0].astype(np.float32) * np.float32(0.37)) + (q[:, 1] & 255).astype(np.float32)
    dot = (p * q).sum(axis=1).astype(np.int32)
    whole = np.trunc(b["x"][:, 0].astype(np.float32) * np.float32(1000)).astype(np.int32) + np.trunc(
        b["y"][:, 1].astype(np.float32) * np.float32(64)
    ).astype(np.int32)
    wide = dot.view(np.uint32).astype(np.uint64) << np.uint64(31)
    wide += np.uint64(0xFFFFFFFF) * np.arange(256, dtype=np.uint64) - (p[:, 3] & 255).astype(np.uint64)
    return {"out": np.stack([second, floor], axis=1), "dots": np.stack([dot, whole], axis=1), "carries": wide}

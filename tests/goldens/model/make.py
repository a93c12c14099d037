#!/usr/bin/env python3
"""Makes the golden models: tiny random F32 GGUF files and the logits that plain NumPy computes for them in f64.

    make.py             writes NAME.gguf, NAME.f32 (little-endian f32 [tokens, vocabulary]) and tokens.txt here
    make.py --check     computes everything anew and compares it with what is here
    make.py --peer BIN  also runs BIN (tests/oracle/logits.cpp, built against llama.cpp) and compares

Needs Python 3.10, numpy and gguf 0.19. The equations are written from the published model descriptions, one
function per operation; nothing is shared with the Rust code or with llama.cpp.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np

HERE = pathlib.Path(__file__).parent
VOCAB = 64
TOKENS = [int(t) for t in np.random.default_rng(3).integers(0, VOCAB, 20)]
EPS = 1e-5


# ---- operations; x is [tokens, width], heads are [tokens, heads, dim]

def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def clamped_swiglu(gate, up):
    """gpt-oss: both sides clamped, a steeper sigmoid, and up shifted by one."""
    gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
    return gate * sigmoid(1.702 * gate) * (up + 1)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def angles(tokens, dims, rope):
    """[tokens, dims/2] angles, and the factor on sine and cosine."""
    pair = np.arange(dims // 2)
    theta = np.arange(tokens)[:, None] * rope["base"] ** (-2 * pair / dims)[None, :]
    theta = theta / rope.get("divisors", 1)
    scaled = theta * rope.get("scale", 1)
    if "yarn_context" not in rope:
        return scaled, 1
    def dimension(turns):
        return dims * np.log(rope["yarn_context"] / (turns * 2 * np.pi)) / (2 * np.log(rope["base"]))
    low = max(0, np.floor(dimension(32)))
    high = min(dims - 1, np.ceil(dimension(1)))
    keep = 1 - np.clip((pair - low) / max(0.001, high - low), 0, 1)
    return scaled * (1 - keep) + theta * keep, 0.1 * np.log(1 / rope["scale"]) + 1


def rotate(x, dims, rope, split):
    """Rotates the first `dims` of each head: pairs are halves apart (split) or neighbours."""
    theta, factor = angles(x.shape[0], dims, rope)
    cos, sin = np.cos(theta)[:, None] * factor, np.sin(theta)[:, None] * factor
    first = slice(0, dims // 2) if split else slice(0, dims, 2)
    second = slice(dims // 2, dims) if split else slice(1, dims, 2)
    out = x.copy()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def attend(q, k, v, scale, window, sinks=None):
    tokens, heads, _ = q.shape
    group = heads // k.shape[1]
    distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    visible = (distance >= 0) & (distance < (window or tokens))
    out = []
    for head in range(heads):
        score = np.where(visible, q[:, head] @ k[:, head // group].T * scale, -np.inf)
        if sinks is not None:
            score = np.concatenate([score, np.full((tokens, 1), sinks[head])], axis=1)
        out.append(softmax(score)[:, :tokens] @ v[:, head // group])
    return np.concatenate(out, axis=1)


def experts(x, stacks, biases, router, used, rule):
    """Stacks and biases are gate, up and down; a rule is one of the three ways to weigh the chosen."""
    (gate, up, down), (gate_bias, up_bias, down_bias) = stacks, biases
    out = np.zeros_like(x)
    for row, score in enumerate(router):
        probability = score if rule == "softmax of chosen" else softmax(score)
        chosen = np.argsort(-probability, kind="stable")[:used]
        weight = probability[chosen]
        if rule == "softmax of chosen":
            weight = softmax(weight)
        elif rule == "renormalised":
            weight = weight / weight.sum()
        activation = clamped_swiglu if rule == "softmax of chosen" else lambda a, b: silu(a) * b
        for expert, share in zip(chosen, weight):
            hidden = activation(gate[expert] @ x[row] + gate_bias[expert], up[expert] @ x[row] + up_bias[expert])
            out[row] += share * (down[expert] @ hidden + down_bias[expert])
    return out


def l2_norm(x, eps):
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + eps)


def convolve(x, kernel):
    """Causal and depthwise: x is [tokens, channels], kernel [channels, taps], the last tap on the newest token."""
    taps = kernel.shape[1]
    padded = np.concatenate([np.zeros((taps - 1, x.shape[1])), x])
    return sum(padded[tap:tap + len(x)] * kernel[:, tap] for tap in range(taps))


def delta_rule(q, k, v, decay, beta, key_head):
    """The gated delta rule, token by token: q and k are [tokens, key heads, dim], v [tokens, value heads, dim]."""
    out = np.zeros_like(v)
    for head in range(v.shape[1]):
        query, key = q[:, key_head(head)] / np.sqrt(q.shape[-1]), k[:, key_head(head)]
        state = np.zeros((k.shape[-1], v.shape[-1]))
        for token in range(len(v)):
            state = np.exp(decay[token, head]) * state
            change = beta[token, head] * (v[token, head] - state.T @ key[token])
            state = state + np.outer(key[token], change)
            out[token, head] = state.T @ query[token]
    return out


# ---- models

HYBRIDS = ["qwen3next", "qwen35", "qwen35moe"]


class Case:
    """A model's sizes, its metadata and its tensors."""

    def __init__(self, name, arch, layers=2, width=32, heads=4, kv_heads=2, dim=8, ffn=32, used=0, seed=1, **options):
        self.name, self.arch, self.layers, self.width = name, arch, layers, width
        self.heads, self.kv_heads, self.dim, self.ffn, self.used = heads, kv_heads, dim, ffn, used
        self.options = options
        self.random = np.random.default_rng([seed, len(name)])
        self.tensors = {}
        self.fill()

    def has(self, option):
        return bool(self.options.get(option))

    def weight(self, name, *shape, std=None):
        std = 2 / np.sqrt(shape[-1]) if std is None else std
        # Multiples of 1/64 leave the low mantissa bits empty, so that the files compress.
        self.tensors[name] = np.round(self.random.normal(size=shape) * std * 64) / 64

    def norm(self, name, size):
        self.tensors[name] = np.round((1 + 0.2 * self.random.normal(size=size)) * 64) / 64

    def fill(self):
        self.weight("token_embd.weight", VOCAB, self.width, std=1)
        for layer in range(self.layers):
            self.fill_layer(f"blk.{layer}.")
        self.norm("output_norm.weight", self.width)
        if not self.has("tied"):
            self.weight("output.weight", VOCAB, self.width)
        if self.has("divisors"):
            self.tensors["rope_freqs.weight"] = np.round((1 + 3 * self.random.random(self.dim // 2)) * 64) / 64

    def is_recurrent(self, layer):
        return "delta" in self.options and (layer + 1) % self.options["delta"]["interval"] != 0

    def fill_delta(self, p):
        delta = self.options["delta"]
        heads, keys, values = delta["values"], delta["keys"] * delta["dim"], delta["values"] * delta["dim"]
        self.weight(p + "attn_qkv.weight", 2 * keys + values, self.width)
        self.weight(p + "attn_gate.weight", values, self.width)
        if self.arch == "qwen3next":
            self.weight(p + "ssm_ba.weight", 2 * heads, self.width)
        else:
            self.weight(p + "ssm_beta.weight", heads, self.width)
            self.weight(p + "ssm_alpha.weight", heads, self.width)
        self.weight(p + "ssm_conv1d.weight", 2 * keys + values, delta["taps"], std=0.5)
        self.weight(p + "ssm_dt.bias", heads, std=0.5)
        self.tensors[p + "ssm_a"] = -np.round(np.exp(self.random.normal(size=heads)) * 64 + 1) / 64
        self.norm(p + "ssm_norm.weight", delta["dim"])
        self.weight(p + "ssm_out.weight", self.width, values)

    def fill_layer(self, p):
        q, k = self.heads * self.dim, self.kv_heads * self.dim
        self.norm(p + "attn_norm.weight", self.width)
        if self.is_recurrent(int(p.split(".")[1])):
            self.fill_delta(p)
        else:
            self.fill_attention(p, q, k)
        if self.has("post_norm"):
            self.norm(p + "post_attention_norm.weight", self.width)
        self.norm(p + self.ffn_norm(), self.width)
        if self.used:
            self.fill_experts(p)
        else:
            self.weight(p + "ffn_gate.weight", self.ffn, self.width)
            self.weight(p + "ffn_up.weight", self.ffn, self.width)
            self.weight(p + "ffn_down.weight", self.width, self.ffn)
            if self.has("scales"):
                self.weight(p + "ffn_down.scale", 1, std=1)
        if self.has("post_norm"):
            self.norm(p + "post_ffw_norm.weight", self.width)

    def fill_attention(self, p, q, k):
        fused = self.has("fused")
        if fused:
            self.weight(p + "attn_qkv.weight", q + 2 * k, self.width)
        for part, rows in [("q", q), ("k", k), ("v", k)]:
            if not fused:
                packed = 2 if part == "q" and self.arch in HYBRIDS else 1
                self.weight(p + f"attn_{part}.weight", packed * rows, self.width)
            if self.has("bias"):
                self.weight(p + f"attn_{part}.bias", rows, std=0.5)
            if self.has("scales") and not fused:
                self.weight(p + f"attn_{part}.scale", 1, std=1)
        if self.has("fused_bias"):
            parts = [self.tensors.pop(p + f"attn_{part}.bias") for part in "qkv"]
            self.tensors[p + "attn_qkv.bias"] = np.concatenate(parts)
        if self.has("head_norm"):
            self.norm(p + "attn_q_norm.weight", self.dim)
            self.norm(p + "attn_k_norm.weight", self.dim)
        self.weight(p + "attn_output.weight", self.width, q)
        if self.arch == "gpt-oss":
            self.weight(p + "attn_output.bias", self.width, std=0.5)
            self.weight(p + "attn_sinks.weight", self.heads, std=1)

    def ffn_norm(self):
        return "post_attention_norm.weight" if self.arch in ["gpt-oss", *HYBRIDS] else "ffn_norm.weight"

    def fill_experts(self, p):
        count, ffn = self.options["experts"], self.ffn
        self.weight(p + "ffn_gate_inp.weight", count, self.width)
        if self.has("fused_experts"):
            self.weight(p + "ffn_gate_up_exps.weight", count, 2 * ffn, self.width)
        else:
            self.weight(p + "ffn_gate_exps.weight", count, ffn, self.width)
            self.weight(p + "ffn_up_exps.weight", count, ffn, self.width)
        self.weight(p + "ffn_down_exps.weight", count, self.width, ffn)
        if self.has("scales"):
            for part in ["gate", "up", "down"]:
                self.weight(p + f"ffn_{part}_exps.scale", count, std=1)
        if self.arch == "gpt-oss":
            self.weight(p + "ffn_gate_inp.bias", count, std=0.5)
            # Wide enough to meet the clamps.
            for part, rows in [("gate", ffn), ("up", ffn), ("down", self.width)]:
                self.weight(p + f"ffn_{part}_exps.bias", count, rows, std=4)
        if self.has("shared"):
            shared = self.options["shared"]
            self.weight(p + "ffn_gate_inp_shexp.weight", self.width, std=0.5)
            self.weight(p + "ffn_gate_shexp.weight", shared, self.width)
            self.weight(p + "ffn_up_shexp.weight", shared, self.width)
            self.weight(p + "ffn_down_shexp.weight", self.width, shared)

    # ---- the file

    def file(self):
        """The GGUF file's bytes."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.gguf"
            writer = gguf.GGUFWriter(path, self.arch)
            self.write_metadata(writer)
            for name, values in self.tensors.items():
                writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            return path.read_bytes()

    def kv_head_counts(self):
        """A number, or one for each layer."""
        return self.kv_heads

    def write_metadata(self, writer):
        rope = self.options.get("rope", {})
        def u32(key, value):
            writer.add_uint32(f"{self.arch}.{key}", value)
        def f32(key, value):
            writer.add_float32(f"{self.arch}.{key}", value)
        writer.add_string("tokenizer.ggml.model", "none")
        u32("vocab_size", VOCAB)
        u32("context_length", 256)
        u32("embedding_length", self.width)
        u32("block_count", self.layers)
        u32("feed_forward_length", self.options.get("dense", self.ffn))
        u32("attention.head_count", self.heads)
        if isinstance(self.kv_head_counts(), list):
            writer.add_array(f"{self.arch}.attention.head_count_kv", self.kv_head_counts())
        else:
            u32("attention.head_count_kv", self.kv_heads)
        f32("attention.layer_norm_rms_epsilon", EPS)
        f32("rope.freq_base", rope.get("base", 10000.0))
        # The head dimension is width / heads where the file doesn't say otherwise.
        if self.dim != self.width // self.heads:
            u32("attention.key_length", self.dim)
            u32("attention.value_length", self.dim)
        if self.used:
            u32("expert_count", self.options["experts"])
            u32("expert_used_count", self.used)
            u32("expert_feed_forward_length", self.ffn)
        if self.has("shared"):
            u32("expert_shared_feed_forward_length", self.options["shared"])
        if "rotated" in self.options:
            u32("rope.dimension_count", self.options["rotated"])
        if "sections" in self.options:
            writer.add_array(f"{self.arch}.rope.dimension_sections", self.options["sections"])
        if "delta" in self.options:
            delta = self.options["delta"]
            u32("ssm.conv_kernel", delta["taps"])
            u32("ssm.state_size", delta["dim"])
            u32("ssm.group_count", delta["keys"])
            u32("ssm.time_step_rank", delta["values"])
            u32("ssm.inner_size", delta["values"] * delta["dim"])
            u32("full_attention_interval", delta["interval"])
        if "scale" in rope:
            f32("rope.scaling.factor", 1 / rope["scale"])
            writer.add_string(f"{self.arch}.rope.scaling.type", "yarn" if "yarn_context" in rope else "linear")
        if "yarn_context" in rope:
            u32("rope.scaling.original_context_length", rope["yarn_context"])
        if "window" in self.options:
            u32("attention.sliding_window", self.options["window"])
        if "pattern" in self.options:
            writer.add_array(f"{self.arch}.attention.sliding_window_pattern", self.options["pattern"])
        if "cap" in self.options:
            f32("final_logit_softcapping", self.options["cap"])
        if "score_cap" in self.options:
            f32("attn_logit_softcapping", self.options["score_cap"])

    # ---- the forward pass

    def linear(self, x, name, bias=None, scale=None):
        t = self.tensors
        y = x @ t[name + ".weight"].T * t.get((scale or name) + ".scale", 1)
        return y + t.get((bias or name) + ".bias", 0)

    def is_windowed(self, layer):
        if "pattern" in self.options:
            return self.options["pattern"][layer]
        period = 2 if self.arch == "gpt-oss" else 6
        return "window" in self.options and layer % period < period - 1

    def rope(self, layer):
        rope = {"base": 10000.0, **self.options.get("rope", {})}
        if self.arch == "gemma3" and self.is_windowed(layer):
            return {"base": 10000.0}
        if self.has("divisors"):
            rope["divisors"] = self.tensors["rope_freqs.weight"]
        return rope

    def project_qkv(self, x, p):
        q, k = self.heads * self.dim, self.kv_heads * self.dim
        if not self.has("fused"):
            return [self.linear(x, p + f"attn_{part}") for part in "qkv"]
        parts = np.split(self.linear(x, p + "attn_qkv"), [q, q + k], axis=1)
        return [y + self.tensors.get(p + f"attn_{part}.bias", 0) for y, part in zip(parts, "qkv")]

    def delta_net(self, x, layer):
        p, t, delta = f"blk.{layer}.", self.tensors, self.options["delta"]
        dim, keys, values = delta["dim"], delta["keys"], delta["values"]
        share = values // keys
        mixed = silu(convolve(self.linear(x, p + "attn_qkv"), t[p + "ssm_conv1d.weight"]))
        q, k, v = np.split(mixed.reshape(len(x), -1, dim), [keys, 2 * keys], axis=1)
        if self.arch == "qwen3next":
            # each key head's value heads: first their betas, then their alphas
            both = self.linear(x, p + "ssm_ba").reshape(len(x), keys, 2, share)
            beta, alpha = (both[:, :, part].reshape(len(x), values) for part in range(2))
            key_head = lambda head: head // share
        else:
            beta, alpha = self.linear(x, p + "ssm_beta"), self.linear(x, p + "ssm_alpha")
            key_head = lambda head: head % keys
        decay = t[p + "ssm_a"] * np.log1p(np.exp(alpha + t[p + "ssm_dt.bias"]))
        y = delta_rule(l2_norm(q, EPS), l2_norm(k, EPS), v, decay, sigmoid(beta), key_head)
        gate = silu(self.linear(x, p + "attn_gate").reshape(y.shape))
        y = rms_norm(y, t[p + "ssm_norm.weight"], EPS) * gate
        return self.linear(y.reshape(len(x), -1), p + "ssm_out")

    def attention(self, x, layer):
        if self.is_recurrent(layer):
            return self.delta_net(x, layer)
        p, t = f"blk.{layer}.", self.tensors
        q, k, v = (y.reshape(len(x), -1, self.dim) for y in self.project_qkv(x, p))
        gate = 1
        if self.arch in HYBRIDS:
            # each head's query is followed by its gate
            q, gate = (part.reshape(len(x), -1, self.dim) for part in (q[:, 0::2], q[:, 1::2]))
            gate = sigmoid(gate.reshape(len(x), -1))
        if self.has("head_norm"):
            q = rms_norm(q, t[p + "attn_q_norm.weight"], EPS)
            k = rms_norm(k, t[p + "attn_k_norm.weight"], EPS)
        split = self.arch != "llama"
        rotated = self.options.get("rotated", self.dim)
        q, k = (rotate(y, rotated, self.rope(layer), split) for y in (q, k))
        window = self.options["window"] if self.is_windowed(layer) else None
        sinks = t.get(p + "attn_sinks.weight")
        attended = attend(q, k, v, 1 / np.sqrt(self.dim), window, sinks) * gate
        return self.linear(attended, p + "attn_output")

    def feed_forward(self, x, layer):
        p, t = f"blk.{layer}.", self.tensors
        if not self.used:
            activation = gelu_tanh if self.arch == "gemma3" else silu
            return self.linear(activation(self.linear(x, p + "ffn_gate")) * self.linear(x, p + "ffn_up"), p + "ffn_down")
        def stack(part):
            weight = t[p + f"ffn_{part}_exps.weight"]
            return weight * t.get(p + f"ffn_{part}_exps.scale", np.ones(len(weight)))[:, None, None]
        if self.has("fused_experts"):
            gate, up = np.split(stack("gate_up"), 2, axis=1)
        else:
            gate, up = stack("gate"), stack("up")
        count = self.options["experts"]
        biases = [t.get(p + f"ffn_{part}_exps.bias", np.zeros((count, 1))) for part in ["gate", "up", "down"]]
        rule = {"gpt-oss": "softmax of chosen", "qwen2moe": "plain"}.get(self.arch, "renormalised")
        router = self.linear(x, p + "ffn_gate_inp")
        out = experts(x, (gate, up, stack("down")), biases, router, self.used, rule)
        if self.has("shared"):
            hidden = silu(self.linear(x, p + "ffn_gate_shexp")) * self.linear(x, p + "ffn_up_shexp")
            share = sigmoid(x @ t[p + "ffn_gate_inp_shexp.weight"])
            out = out + share[:, None] * self.linear(hidden, p + "ffn_down_shexp")
        return out

    def logits(self):
        t = self.tensors
        x = t["token_embd.weight"][TOKENS]
        if self.arch == "gemma3":
            x = x * np.sqrt(self.width)
        for layer in range(self.layers):
            p = f"blk.{layer}."
            branch = self.attention(rms_norm(x, t[p + "attn_norm.weight"], EPS), layer)
            if self.has("post_norm"):
                branch = rms_norm(branch, t[p + "post_attention_norm.weight"], EPS)
            x = x + branch
            branch = self.feed_forward(rms_norm(x, t[p + self.ffn_norm()], EPS), layer)
            if self.has("post_norm"):
                branch = rms_norm(branch, t[p + "post_ffw_norm.weight"], EPS)
            x = x + branch
        x = rms_norm(x, t["output_norm.weight"], EPS) @ t.get("output.weight", t["token_embd.weight"]).T
        cap = self.options.get("cap")
        return cap * np.tanh(x / cap) if cap else x


class Gemma4(Case):
    """Windowed and full layers of different head sizes, values from keys, shared keys and values, embeddings for each
    layer, experts beside the dense feed-forward, a factor on each layer's output."""

    WINDOWED, FULL = (2, 32, 500.0), (1, 64, 10000.0)

    def shape(self, layer):
        """KV heads, elements of a head, and the rotary base of a layer."""
        return self.WINDOWED if self.options["pattern"][layer] else self.FULL

    def kv_head_counts(self):
        return [self.shape(layer)[0] for layer in range(self.layers)]

    def own_layers(self):
        """Layers with keys and values of their own."""
        return self.layers - self.options.get("shared_layers", 0)

    def fill(self):
        super().fill()
        self.tensors["rope_freqs.weight"] = np.round((1 + 3 * self.random.random(self.FULL[1] // 2)) * 64) / 64
        if per := self.options.get("per_layer"):
            self.weight("per_layer_token_embd.weight", VOCAB, per * self.layers, std=1)
            self.weight("per_layer_model_proj.weight", per * self.layers, self.width)
            self.norm("per_layer_proj_norm.weight", per)

    def fill_layer(self, p):
        layer = int(p.split(".")[1])
        kv_heads, dim, _ = self.shape(layer)
        self.norm(p + "attn_norm.weight", self.width)
        self.weight(p + "attn_q.weight", self.heads * dim, self.width)
        self.norm(p + "attn_q_norm.weight", dim)
        if layer < self.own_layers():
            self.weight(p + "attn_k.weight", kv_heads * dim, self.width)
            self.norm(p + "attn_k_norm.weight", dim)
            if self.options["pattern"][layer] or self.has("per_layer"):
                self.weight(p + "attn_v.weight", kv_heads * dim, self.width)
        self.weight(p + "attn_output.weight", self.width, self.heads * dim)
        for name in ["post_attention_norm", "ffn_norm", "post_ffw_norm"]:
            self.norm(p + name + ".weight", self.width)
        ffn = self.options["dense"]
        self.weight(p + "ffn_gate.weight", ffn, self.width)
        self.weight(p + "ffn_up.weight", ffn, self.width)
        self.weight(p + "ffn_down.weight", self.width, ffn)
        if self.used:
            self.fill_experts(p)
            self.norm(p + "ffn_gate_inp.scale", self.width)
            self.norm(p + "ffn_down_exps.scale", self.options["experts"])
            for name in ["pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"]:
                self.norm(p + name + ".weight", self.width)
        if per := self.options.get("per_layer"):
            self.weight(p + "inp_gate.weight", per, self.width)
            self.weight(p + "proj.weight", self.width, per)
            self.norm(p + "post_norm.weight", self.width)
        self.norm(p + "layer_output_scale.weight", 1)

    def write_metadata(self, writer):
        super().write_metadata(writer)
        def add(key, value):
            writer.add_uint32(f"{self.arch}.{key}", value)
        add("attention.key_length_swa", self.WINDOWED[1])
        add("attention.value_length_swa", self.WINDOWED[1])
        add("rope.dimension_count", self.FULL[1])
        add("rope.dimension_count_swa", self.WINDOWED[1])
        writer.add_float32(f"{self.arch}.rope.freq_base_swa", self.WINDOWED[2])
        add("attention.shared_kv_layers", self.options.get("shared_layers", 0))
        add("embedding_length_per_layer_input", self.options.get("per_layer", 0))

    def attention(self, x, layer):
        p, t = f"blk.{layer}.", self.tensors
        kv_heads, dim, base = self.shape(layer)
        windowed = self.options["pattern"][layer]
        rope = {"base": base} if windowed else {"base": base, "divisors": t["rope_freqs.weight"]}
        q = rms_norm(self.linear(x, p + "attn_q").reshape(len(x), self.heads, dim), t[p + "attn_q_norm.weight"], EPS)
        q = rotate(q, dim, rope, True)
        own = self.own_layers()
        if layer < own:
            k = self.linear(x, p + "attn_k").reshape(len(x), kv_heads, dim)
            has_values = p + "attn_v.weight" in t
            v = self.linear(x, p + "attn_v").reshape(k.shape) if has_values else k
            k = rotate(rms_norm(k, t[p + "attn_k_norm.weight"], EPS), dim, rope, True)
            self.cache[layer] = k, rms_norm(v, 1, EPS)
        k, v = self.cache[layer if layer < own else own - (2 if windowed else 1)]
        window = self.options["window"] if windowed else None
        return self.linear(attend(q, k, v, 1, window), p + "attn_output")

    def feed_forward(self, x, layer):
        raise NotImplementedError("branches reads the stream itself")

    def branches(self, x, layer):
        """The feed-forward of the stream x: dense, and beside it the experts where there are some."""
        p, t = f"blk.{layer}.", self.tensors
        def norm(x, name):
            return rms_norm(x, t[p + name + ".weight"], EPS)
        inner = norm(x, "ffn_norm")
        dense = self.linear(gelu_tanh(self.linear(inner, p + "ffn_gate")) * self.linear(inner, p + "ffn_up"), p + "ffn_down")
        if not self.used:
            return dense
        router = rms_norm(x, 1, EPS) / np.sqrt(self.width) * t[p + "ffn_gate_inp.scale"]
        probability = softmax(router @ t[p + "ffn_gate_inp.weight"].T)
        gate_up, down = t[p + "ffn_gate_up_exps.weight"], t[p + "ffn_down_exps.weight"]
        scale = t[p + "ffn_down_exps.scale"]
        inner, routed = norm(x, "pre_ffw_norm_2"), np.zeros_like(x)
        for row, share in enumerate(probability):
            chosen = np.argsort(-share, kind="stable")[:self.used]
            for expert in chosen:
                gate, up = np.split(gate_up[expert] @ inner[row], 2)
                value = down[expert] @ (gelu_tanh(gate) * up) * scale[expert]
                routed[row] += share[expert] / share[chosen].sum() * value
        return norm(dense, "post_ffw_norm_1") + norm(routed, "post_ffw_norm_2")

    def layer_inputs(self, x):
        """[tokens, layers, per layer]: from a table of its own and from the embeddings x."""
        t, per = self.tensors, self.options["per_layer"]
        table = t["per_layer_token_embd.weight"][TOKENS].reshape(len(x), -1, per) * np.sqrt(per)
        mixed = (x @ t["per_layer_model_proj.weight"].T / np.sqrt(self.width)).reshape(len(x), -1, per)
        return (rms_norm(mixed, t["per_layer_proj_norm.weight"], EPS) + table) / np.sqrt(2)

    def logits(self):
        t, self.cache = self.tensors, {}
        x = t["token_embd.weight"][TOKENS] * np.sqrt(self.width)
        inputs = self.layer_inputs(x) if self.has("per_layer") else None
        for layer in range(self.layers):
            p = f"blk.{layer}."
            def norm(x, name):
                return rms_norm(x, t[p + name + ".weight"], EPS)
            x = x + norm(self.attention(norm(x, "attn_norm"), layer), "post_attention_norm")
            x = x + norm(self.branches(x, layer), "post_ffw_norm")
            if inputs is not None:
                gated = gelu_tanh(self.linear(x, p + "inp_gate")) * inputs[:, layer]
                x = x + norm(self.linear(gated, p + "proj"), "post_norm")
            x = x * t[p + "layer_output_scale.weight"]
        x = rms_norm(x, t["output_norm.weight"], EPS) @ t["token_embd.weight"].T
        return self.options["cap"] * np.tanh(x / self.options["cap"])


def cases():
    gemma4 = dict(layers=4, dim=64, dense=24, tied=True, window=5, cap=10.0)
    gemma = dict(head_norm=True, post_norm=True, tied=True, window=5)
    return [
        Case("llama", "llama", divisors=True),
        Case("llama-yarn", "llama", tied=True, rope={"base": 5000.0, "scale": 1 / 8, "yarn_context": 32}, dim=16),
        Case("llama-linear", "llama", kv_heads=4, rope={"base": 10000.0, "scale": 1 / 4}),
        Case("llama-experts", "llama", experts=4, used=2, ffn=16),
        Case("qwen2", "qwen2", bias=True),
        Case("qwen2-fused", "qwen2", bias=True, fused=True, fused_bias=True),
        Case("qwen2-fused-weights", "qwen2", bias=True, fused=True, tied=True),
        Case("qwen2moe", "qwen2moe", width=64, heads=2, kv_heads=1, dim=32, bias=True, experts=8, used=3, ffn=12, shared=20),
        Case("qwen3", "qwen3", head_norm=True, dim=16, kv_heads=1),
        Case("qwen3-scales", "qwen3", head_norm=True, scales=True),
        Case("qwen3vl", "qwen3vl", head_norm=True, sections=[2, 1, 1, 0]),
        Case("qwen3vlmoe", "qwen3vlmoe", head_norm=True, sections=[2, 1, 1, 0], experts=8, used=3, ffn=12),
        Case("qwen3moe", "qwen3moe", head_norm=True, dim=16, experts=8, used=3, ffn=12),
        Case("qwen3moe-fused", "qwen3moe", head_norm=True, experts=4, used=2, ffn=16, fused_experts=True, fused=True),
        Case("qwen3moe-scales", "qwen3moe", head_norm=True, experts=4, used=2, ffn=16, scales=True),
        Case("gemma3", "gemma3", layers=6, ffn=24, rope={"base": 50000.0, "scale": 1 / 8}, **gemma),
        Case("gpt-oss", "gpt-oss", bias=True, dim=32, experts=8, used=3, ffn=12, window=5,
             rope={"base": 5000.0, "scale": 1 / 32, "yarn_context": 32}),
        Case("qwen3next", "qwen3next", layers=4, dim=32, kv_heads=1, heads=2, head_norm=True, rotated=16,
             experts=8, used=3, ffn=12, shared=20, delta={"keys": 2, "values": 4, "dim": 16, "taps": 4, "interval": 2}),
        Case("qwen35", "qwen35", layers=6, dim=32, kv_heads=1, heads=2, head_norm=True, rotated=16, sections=[3, 3, 2, 0],
             delta={"keys": 2, "values": 6, "dim": 16, "taps": 4, "interval": 3}),
        Case("qwen35moe", "qwen35moe", layers=4, dim=32, kv_heads=2, heads=4, head_norm=True, rotated=8, sections=[2, 1, 1, 0],
             experts=8, used=3, ffn=12, shared=20, delta={"keys": 2, "values": 2, "dim": 32, "taps": 4, "interval": 2}),
        Gemma4("gemma4", "gemma4", pattern=[True, False, True, False], **gemma4),
        Gemma4("gemma4-shared", "gemma4", pattern=[True, False, True, False], shared_layers=2, per_layer=8, **gemma4),
        Gemma4("gemma4-experts", "gemma4", pattern=[True, True, True, False], experts=8, used=3, ffn=16, fused_experts=True,
               **gemma4),
        Case("gemma3-pattern", "gemma3", pattern=[True, False], cap=20.0, dim=16, **gemma),
    ]


def close(name, got, want, tolerance):
    worst = np.abs(got - want).max() / np.abs(want).max()
    same = np.mean(got.argmax(axis=1) == want.argmax(axis=1))
    print(f"{name:22} largest difference {worst:.1e} of the largest logit {np.abs(want).max():.2f}, same top {same:.2f}")
    return worst <= tolerance


def peer(binary, path, ubatch):
    """The logits of llama.cpp with f32 KV."""
    with tempfile.NamedTemporaryFile() as out:
        command = [binary, path, "score", out.name, "--kv", "f32", "--flash", "0", "--ubatch", str(ubatch), "--threads", "1"]
        subprocess.run(command, input=" ".join(map(str, TOKENS)), text=True, check=True)
        return np.fromfile(out.name, dtype="<f4").reshape(len(TOKENS), VOCAB)


def main():
    arguments = argparse.ArgumentParser(description="Makes the golden models.")
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--peer")
    arguments = arguments.parse_args()
    tokens = " ".join(map(str, TOKENS)) + "\n"
    good = True
    # The module of these takes the operations from here.
    sys.modules["make"] = sys.modules[__name__]
    import families
    folders = [(HERE, case) for case in [*cases(), *families.cases()]]
    folders += [(HERE.parent / "family", case) for case in families.row_cases()]
    for folder, case in folders:
        model, logits = folder / f"{case.name}.gguf", folder / f"{case.name}.f32"
        file, want = case.file(), case.logits()
        if arguments.check:
            good &= model.read_bytes() == file
            got = np.fromfile(logits, dtype="<f4").reshape(want.shape)
            good &= close(case.name, got, want, 1e-6)
        else:
            model.write_bytes(file)
            want.astype("<f4").tofile(logits)
        # llama.cpp reads fused experts in other families only.
        if arguments.peer and (not case.has("fused_experts") or case.arch == "gemma4"):
            for ubatch in (512, 7):
                good &= close(f"{case.name} llama.cpp", peer(arguments.peer, model, ubatch), want, 1e-3)
    if arguments.check:
        good &= (HERE / "tokens.txt").read_text() == tokens
    else:
        (HERE / "tokens.txt").write_text(tokens)
    print("good" if good else "DIFFERENT")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

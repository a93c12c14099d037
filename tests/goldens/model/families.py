"""Golden models of families that differ from others by one rule each: a description says which, and `Family` computes it.

Used by make.py. The equations are written from the published model descriptions.
"""
import numpy as np

from make import EPS, TOKENS, VOCAB, Case, attend, gelu_tanh, rms_norm, rotate, sigmoid, silu, softmax


def layer_norm(x, weight, bias):
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt(np.mean(centered * centered, axis=-1, keepdims=True) + EPS) * weight + bias


def relu_squared(x):
    return np.maximum(x, 0) ** 2


class Family(Case):
    """A model whose rules are options:

    norm        "layer" for layer norms instead of RMS norms, with the option `biases` for those of all norms and matrices
    around      the norms around branches: "before" (default), "after", "both", or "parallel" for one norm and one sum
    pairs       "adjacent" or "halves": the elements that a rotation pairs
    head_norms  "before", "behind" (the rotation) or "all heads"
    unrotated   the period of layers without rotation
    windows     the period of layers without a window; only windowed layers rotate with the option `rotates_windows`
    ungated     the activation of feed-forwards without a gate
    router      "softmax" or "sigmoid", with the options groups, scale, shared and first (dense layers)
    """

    def rule(self, name, default=None):
        return self.options.get(name, default)

    # ---- tensors

    def fill_norm(self, name, size=None):
        self.norm(name + ".weight", size or self.width)
        if self.has("biases") and size is None:
            self.weight(name + ".bias", self.width, std=0.5)

    def fill_matrix(self, name, rows, columns):
        self.weight(name + ".weight", rows, columns)
        if self.has("biases"):
            self.weight(name + ".bias", rows, std=0.5)

    def fill(self):
        self.weight("token_embd.weight", VOCAB, self.width, std=1)
        for layer in range(self.layers):
            self.fill_layer(f"blk.{layer}.")
        self.fill_norm("output_norm")
        if not self.has("tied"):
            self.weight("output.weight", VOCAB, self.width)
        if self.arch == "phi2":
            self.weight("output.bias", VOCAB, std=0.5)
        if self.has("short_factors"):
            factors = np.round((1 + 3 * self.random.random(self.dim // 2)) * 64) / 64
            self.tensors["rope_factors_short.weight"] = factors
            self.tensors["rope_factors_long.weight"] = 2 * factors

    def fill_layer(self, p):
        q, k = self.heads * self.dim, self.kv_heads * self.dim
        around, post = self.rule("around", "before"), self.rule("post_names", ["post_attention_norm", "post_ffw_norm"])
        if around != "after":
            self.fill_norm(p + "attn_norm")
        if self.has("fused"):
            self.fill_matrix(p + "attn_qkv", q + 2 * k, self.width)
        else:
            for part, rows in [("q", q), ("k", k), ("v", k)]:
                self.fill_matrix(p + f"attn_{part}", rows, self.width)
        if norms := self.rule("head_norms"):
            whole = norms == "all heads"
            self.fill_norm(p + "attn_q_norm", q if whole else self.dim)
            self.fill_norm(p + "attn_k_norm", k if whole else self.dim)
        if self.has("gates"):
            self.fill_matrix(p + "attn_gate", q, self.width)
        self.fill_matrix(p + "attn_output", self.width, q)
        if around in ["before", "both"]:
            self.fill_norm(p + self.rule("ffn_norm", "ffn_norm"))
        if around in ["after", "both"]:
            self.fill_norm(p + post[0])
            self.fill_norm(p + post[1])
        layer = int(p.split(".")[1])
        if self.used and layer >= self.rule("first", 0):
            self.fill_experts(p)
        else:
            self.fill_dense(p, self.rule("dense", self.ffn), "")

    def fill_dense(self, p, ffn, suffix):
        if self.has("ungated"):
            self.fill_matrix(p + "ffn_up" + suffix, ffn, self.width)
        elif self.has("fused_gate"):
            self.fill_matrix(p + "ffn_up" + suffix, 2 * ffn, self.width)
        else:
            self.fill_matrix(p + "ffn_gate" + suffix, ffn, self.width)
            self.fill_matrix(p + "ffn_up" + suffix, ffn, self.width)
        self.fill_matrix(p + "ffn_down" + suffix, self.width, ffn)

    def fill_experts(self, p):
        count = self.options["experts"]
        self.weight(p + "ffn_gate_inp.weight", count, self.width)
        for part, rows, columns in [("gate", self.ffn, self.width), ("up", self.ffn, self.width), ("down", self.width, self.ffn)]:
            self.weight(p + f"ffn_{part}_exps.weight", count, rows, columns)
        if self.rule("router") == "sigmoid" or self.has("selection_bias"):
            name = "exp_probs_b" if self.arch == "hy_v3" else "exp_probs_b.bias"
            self.weight(p + name, count, std=0.3)
        if self.has("shared"):
            self.fill_dense(p, self.options["shared"], "_shexp")

    def write_metadata(self, writer):
        super().write_metadata(writer)
        def u32(key, value):
            writer.add_uint32(f"{self.arch}.{key}", value)
        def f32(key, value):
            writer.add_float32(f"{self.arch}.{key}", value)
        if self.rule("norm") == "layer":
            f32("attention.layer_norm_epsilon", EPS)
        for key, value in self.rule("scales", {}).items():
            f32(key, value)
        if self.has("temperature"):
            f32("attention.temperature_scale", self.options["temperature"])
            u32("rope.scaling.original_context_length", 6)
        if self.has("short_factors"):
            f32("rope.scaling.attn_factor", 1.25)
            u32("rope.scaling.original_context_length", 4096)
        if self.rule("router") == "sigmoid":
            u32("expert_gating_func", 2)
            writer.add_bool(f"{self.arch}.expert_weights_norm", True)
        if "scale" in self.options:
            f32("expert_weights_scale", self.options["scale"])
        if "first" in self.options:
            u32("leading_dense_block_count", self.options["first"])
            u32("expert_shared_count", 1)
            u32("interleave_moe_layer_step", 1)
        if self.has("groups"):
            u32("expert_group_count", self.options["groups"][0])
            u32("expert_group_used_count", self.options["groups"][1])

    # ---- the forward pass

    def normed(self, x, name):
        weight, bias = self.tensors[name + ".weight"], self.tensors.get(name + ".bias", 0)
        return layer_norm(x, weight, bias) if self.rule("norm") == "layer" else rms_norm(x, weight, EPS)

    def activation(self, gate, up):
        return (gelu_tanh if self.has("gelu") else silu)(gate) * up

    def dense(self, x, p, suffix=""):
        if self.has("ungated"):
            hidden = self.options["ungated"](self.linear(x, p + "ffn_up" + suffix))
        elif self.has("fused_gate"):
            hidden = self.activation(*np.split(self.linear(x, p + "ffn_up" + suffix), 2, axis=1))
        else:
            hidden = self.activation(self.linear(x, p + "ffn_gate" + suffix), self.linear(x, p + "ffn_up" + suffix))
        return self.linear(hidden, p + "ffn_down" + suffix)

    def choose(self, score):
        """The experts of a row, best first: from the groups whose two best sum highest, where there are groups."""
        if self.has("groups"):
            count, used = self.options["groups"]
            groups = score.reshape(count, -1)
            sums = np.sort(groups, axis=1)[:, -2:].sum(axis=1)
            closed = np.argsort(-sums, kind="stable")[used:]
            groups = groups.copy()
            groups[closed] = -np.inf
            score = groups.reshape(-1)
        return np.argsort(-score, kind="stable")[:self.used]

    def feed_forward(self, x, layer):
        p, t = f"blk.{layer}.", self.tensors
        if not self.used or layer < self.rule("first", 0):
            return self.dense(x, p)
        router = self.linear(x, p + "ffn_gate_inp")
        probability = sigmoid(router) if self.rule("router") == "sigmoid" else softmax(router)
        gate, up, down = (t[p + f"ffn_{part}_exps.weight"] for part in ["gate", "up", "down"])
        out = np.zeros_like(x)
        for row, share in enumerate(probability):
            bias = t.get(p + "exp_probs_b.bias", t.get(p + "exp_probs_b", 0))
            chosen = self.choose(share + bias)
            weight = share[chosen] * self.rule("scale", 1)
            if not self.has("plain"):
                weight = weight / share[chosen].sum()
            for expert, factor in zip(chosen, weight):
                out[row] += factor * (down[expert] @ self.activation(gate[expert] @ x[row], up[expert] @ x[row]))
        return out + self.dense(x, p, "_shexp") if self.has("shared") else out

    def is_windowed(self, layer):
        period = self.rule("windows", 0)
        return period and layer % period < period - 1

    def is_rotated(self, layer):
        if self.has("rotates_windows"):
            return self.is_windowed(layer)
        period = self.rule("unrotated", 0)
        return not period or (layer + 1) % period != 0

    def attention(self, x, layer):
        p, t = f"blk.{layer}.", self.tensors
        q, k, v = self.project_qkv(x, p)
        def head_norm(y, name):
            return rms_norm(y, t[p + name + ".weight"], EPS)
        norms = self.rule("head_norms")
        if norms == "all heads":
            q, k = head_norm(q, "attn_q_norm"), head_norm(k, "attn_k_norm")
        q, k, v = (y.reshape(len(x), -1, self.dim) for y in (q, k, v))
        if norms == "before":
            q, k = head_norm(q, "attn_q_norm"), head_norm(k, "attn_k_norm")
        if self.is_rotated(layer):
            rope = {"base": 10000.0}
            if self.has("short_factors"):
                rope["divisors"] = t["rope_factors_short.weight"]
            split, dims = self.rule("pairs", "halves") == "halves", self.rule("rotated", self.dim)
            q, k = (rotate(y, dims, rope, split) for y in (q, k))
            if self.has("short_factors"):
                # the factor on sine and cosine
                q, k = 1.25 * q, 1.25 * k
        if norms == "behind":
            q, k = head_norm(q, "attn_q_norm"), head_norm(k, "attn_k_norm")
        if self.has("temperature"):
            steps = np.floor(np.arange(len(x)) / 6)
            q = q * (self.options["temperature"] * np.log(steps + 1) + 1)[:, None, None]
        window = self.options["window"] if self.is_windowed(layer) else None
        scale = self.rule("scales", {}).get("attention.scale", 1 / np.sqrt(self.dim))
        attended = self.capped_attend(q, k, v, scale, window)
        if self.has("gates"):
            attended = attended * sigmoid(self.linear(x, p + "attn_gate"))
        return self.linear(attended, p + "attn_output")

    def capped_attend(self, q, k, v, scale, window):
        if "score_cap" not in self.options:
            return attend(q, k, v, scale, window)
        tokens, heads, _ = q.shape
        group, cap = heads // k.shape[1], self.options["score_cap"]
        distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
        visible = (distance >= 0) & (distance < (window or tokens))
        out = []
        for head in range(heads):
            score = cap * np.tanh(q[:, head] @ k[:, head // group].T * scale / cap)
            out.append(softmax(np.where(visible, score, -np.inf)) @ v[:, head // group])
        return np.concatenate(out, axis=1)

    def layer(self, x, layer):
        p, around = f"blk.{layer}.", self.rule("around", "before")
        factor = self.rule("scales", {}).get("residual_scale", 1)
        inner = x if around == "after" else self.normed(x, p + "attn_norm")
        branch = self.attention(inner, layer)
        if around == "parallel":
            return x + branch + self.feed_forward(inner, layer)
        post = self.rule("post_names", ["post_attention_norm", "post_ffw_norm"])
        x = x + factor * (self.normed(branch, p + post[0]) if around in ["after", "both"] else branch)
        inner = x if around == "after" else self.normed(x, p + self.rule("ffn_norm", "ffn_norm"))
        branch = self.feed_forward(inner, layer)
        return x + factor * (self.normed(branch, p + post[1]) if around in ["after", "both"] else branch)

    def logits(self):
        t, scales = self.tensors, self.rule("scales", {})
        x = t["token_embd.weight"][TOKENS] * scales.get("embedding_scale", 1)
        if self.has("scaled_embedding"):
            x = x * np.sqrt(self.width)
        for layer in range(self.layers):
            x = self.layer(x, layer)
        x = self.normed(x, "output_norm") @ t.get("output.weight", t["token_embd.weight"]).T
        scale = scales.get("logit_scale", 1)
        x = x + t.get("output.bias", 0)
        x = x * scale if self.arch in ["command-r", "cohere2"] else x / scale
        cap = self.rule("cap")
        return cap * np.tanh(x / cap) if cap else x


def cases():
    small = dict(width=64, heads=2, kv_heads=1, dim=32, ffn=24)
    many = dict(small, experts=8, used=3, ffn=12)
    sigmoid_router = dict(router="sigmoid", scale=1.5, first=1, shared=12)
    factors = {"embedding_scale": 3.0, "residual_scale": 0.5, "logit_scale": 2.0, "attention.scale": 0.25}
    return [
        Family("gemma2", "gemma2", around="both", gelu=True, tied=True, scaled_embedding=True, window=5, windows=2,
               score_cap=5.0, cap=10.0, **small),
        Family("olmo2", "olmo2", around="after", head_norms="all heads", layers=4, window=5, windows=4, **small),
        Family("hunyuan", "hunyuan-dense", head_norms="behind", tied=True, **small),
        Family("command-r", "command-r", norm="layer", around="parallel", pairs="adjacent", tied=True,
               scales={"logit_scale": 0.5}, **small),
        Family("cohere2", "cohere2", norm="layer", around="parallel", pairs="adjacent", tied=True, layers=4, window=5, windows=4,
               rotates_windows=True, scales={"logit_scale": 0.5}, **small),
        Family("starcoder2", "starcoder2", norm="layer", biases=True, ungated=gelu_tanh, tied=True, **small),
        Family("arcee", "arcee", pairs="adjacent", ungated=relu_squared, **small),
        Family("mistral3", "mistral3", pairs="adjacent", temperature=0.5, **small),
        Family("granitemoe", "granitemoe", pairs="adjacent", scales=factors, shared=20, **many),
        Family("smollm3", "smollm3", pairs="adjacent", unrotated=4, layers=4, tied=True, **small),
        Family("glm4", "glm4", around="both", pairs="adjacent", rotated=16, fused_gate=True, **small),
        Family("phi3", "phi3", fused=True, fused_gate=True, short_factors=True, **small),
        Family("bailingmoe2", "bailingmoe2", fused=True, head_norms="before", rotated=16, groups=(4, 2), dense=24,
               **sigmoid_router, **many),
        Family("afmoe", "afmoe", around="both", head_norms="before", gates=True, scaled_embedding=True, layers=4, window=5,
               windows=4, unrotated=4, dense=24, **sigmoid_router, **many),
    ]


def row_cases():
    """One model of each family that only combines rules of the others: for the CPU alone."""
    small = dict(width=64, heads=2, kv_heads=1, dim=32, ffn=24)
    many = dict(small, experts=8, used=3, ffn=12)
    sigmoid_router = dict(router="sigmoid", scale=1.5, first=1, shared=12, dense=24)
    factors = {"embedding_scale": 3.0, "residual_scale": 0.5, "logit_scale": 2.0}
    adjacent, biases = dict(pairs="adjacent"), dict(biases=True)
    post = dict(ffn_norm="post_attention_norm")
    return [
        Case("qwen2vl", "qwen2vl", bias=True, sections=[4, 6, 6, 0], **small),
        Family("gemma", "gemma", gelu=True, tied=True, scaled_embedding=True, **small),
        Family("granite", "granite", scales={**factors, "attention.scale": 0.25}, **adjacent, **small),
        Family("minicpm", "minicpm", scales=factors, **adjacent, **small),
        Family("seed_oss", "seed_oss", **post, **small),
        Family("internlm2", "internlm2", **adjacent, **small),
        Family("chatglm", "chatglm", fused=True, fused_gate=True, rotated=16, **adjacent, **small),
        Family("glm4moe", "glm4moe", head_norms="before", rotated=16, **post, **sigmoid_router, **many),
        Family("ernie4_5", "ernie4_5", **adjacent, **small),
        Family("ernie4_5-moe", "ernie4_5-moe", first=1, shared=12, dense=24, selection_bias=True, **adjacent, **many),
        Family("deepseek", "deepseek", plain=True, scale=1.5, first=1, shared=12, dense=24, **adjacent, **many),
        Family("dots1", "dots1", head_norms="before", **sigmoid_router, **dict(many, kv_heads=2)),
        Family("hy_v3", "hy_v3", head_norms="before", **sigmoid_router, **many),
        Family("olmoe", "olmoe", head_norms="all heads", plain=True, dense=12, **dict(many, kv_heads=2)),
        Family("minimax-m2", "minimax-m2", head_norms="all heads", rotated=16, router="sigmoid", scale=1, first=0, dense=12, **many),
        # With windows it would have 64 layers.
        Family("exaone4", "exaone4", around="after", head_norms="before", **small),
        Family("exaone-moe", "exaone-moe", head_norms="before", window=5, windows=4, rotates_windows=True, **sigmoid_router,
               **dict(many, layers=4)),
        Family("hunyuan-moe", "hunyuan-moe", head_norms="behind", shared=12, dense=12, **many),
        Family("nemotron", "nemotron", norm="layer", ungated=relu_squared, rotated=16, **biases, **small),
        Family("phi2", "phi2", norm="layer", around="parallel", ungated=gelu_tanh, rotated=16, **biases, **small),
    ]

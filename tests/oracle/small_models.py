"""Small GGUF files with random block bytes: every legal scale, sub-scale and weight may turn up."""

from dataclasses import dataclass, field, replace

import gguf
import numpy as np

from canonical.weights import FLOATS, LAYOUT, block_bytes, block_weights

BYTES = 256
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
FIRST_BYTE = len(SPECIALS)

# Typical magnitude of a weight whose scale is 1, for blocks of random bytes.
UNIT = {"Q8_0": 74, "Q4_0": 4.6, "Q4_1": 4.6, "Q5_0": 9.2, "Q5_1": 9.2, "IQ4_NL": 70, "MXFP4": 5.9, "Q4_K": 330,
        "Q5_K": 660, "IQ4_XS": 1300, "Q2_K": 17, "Q3_K": 46, "Q6_K": 1370, "IQ2_XXS": 53,
        "IQ2_XS": 56, "IQ2_S": 56, "IQ3_XXS": 143, "IQ3_S": 140, "IQ1_S": 7.2, "IQ1_M": 7.2,
        "TQ1_0": 0.82, "TQ2_0": 1.2}
LOCAL = ("gemma3", "olmo2", "gemma2", "phi3", "gpt-oss", "llama4")  # families with local layers
DELTA = ("qwen3next", "qwen35", "qwen35moe")  # families with gated delta nets
GATED = ("qwen2moe", "qwen3next", "qwen35moe")  # families with a shared expert that has a gate
SHARED = GATED + ("granitemoe",)  # families with a shared expert
ROUTED = ("glm4moe", "deepseek2")  # families whose files say how experts are chosen
FUSED = ("glm4", "phi3")  # families whose ffn_up has the gate's rows
# The minimum that centres the block, in units of its scale.
CENTRE = {"Q4_1": -7.5, "Q5_1": -15.5, "Q4_K": 7.5, "Q5_K": 15.5, "Q2_K": 1.5}


@dataclass
class Shape:
    family: str = "llama"
    layers: int = 2
    hidden: int = 96
    feed_forward: int = 288
    heads: int = 3
    kv_heads: int = 1
    head_dim: int = 32
    vocabulary: int = 288
    context: int = 512
    layer_type: str = "Q8_0"
    embedding_type: str = "Q8_0"
    output_type: str = ""  # empty: tied
    hostile: float = 0.0   # share of the blocks
    rope_base: float = 10000.0
    rope_factors: bool = False
    rope_scale: float = 0.0  # 0: no key
    rope_scaling: tuple = ("rope.scaling.factor", "linear")  # its key, and the type or none
    sinks: float = 2.0     # deviation of the sinks, in the family that has them
    bias: float = 0.3      # and of its biases
    window: int = 8
    rotary: int = 0  # values of a head that turn; 0: no key
    biases: bool = True  # in the families that may have them
    head_norms: bool = True  # likewise
    experts: int = 0
    experts_used: int = 2
    shared_width: int = 64   # of the shared expert, in the family that has one
    dense_layers: int = 1    # in the families that say so, as all below
    dense_width: int = 160
    expert_every: int = 2    # in llama4: of so many layers the last has experts
    selection_bias: float = 0.1  # its deviation; 0: none
    predictors: int = 1      # layers behind the last
    flags: dict = field(default_factory=dict)  # more keys, of truth values
    delta: tuple = (2, 4, 32, 4)  # key heads, value heads, values of one, taps
    every: int = 0           # of so many layers one has attention; 0: no key
    joint_input: bool = False  # ssm_in in place of attn_qkv and attn_gate
    decay: float = -4.0      # mean of ssm_a
    # In gemma4: kv heads and head_dim of local layers, of every `global_every` layers all but the
    # last; whether global layers have attn_v, layers a scale, and experts gate and up in one tensor.
    local_heads: tuple = (3, 32)
    global_every: int = 3
    own_values: bool = False
    layer_scale: bool = True
    fused_experts: bool = True
    sharing: int = 0         # last layers without keys and values; with it the first ones' width
    first_width: int = 0     # of the feed-forward of the layers before them; 0: that of the others
    layer_input: int = 0     # values of each layer's own input
    latent: tuple = (64, 96, 32, 64, 32)  # query rank, width, turned, plain, value
    router_ties: bool = False  # experts in pairs of equal logits
    norm_scale: float = 1.0  # of the norms before attention
    ffn_scale: float = 1.0   # of the norm before the feed-forward of layer 1
    up_gain: float = 1.0     # of the rows of ffn_up
    ties: bool = False       # halves to even decide how the first activations are quantised
    types: dict = field(default_factory=dict)  # part of a tensor's name -> type
    floats: dict = field(default_factory=dict)  # more keys
    numbers: dict = field(default_factory=dict)
    poison: tuple = ()       # (tensor, field, fp16 bits): one block of it

    def but(self, **changes):
        return replace(self, **changes)


def wide(kind, **changes):
    """A shape whose rows are multiples of 256."""
    return Shape(hidden=256, feed_forward=512, heads=4, kv_heads=2, head_dim=64, layer_type=kind,
                 embedding_type=kind, **changes)


def _half(x):
    return np.asarray(x, np.float16)[..., None].view(np.uint8)


def put_scattered(raw, at, halves):
    """The fp16 number d of IQ1_M in the high nibbles of the odd ones of 8 bytes at `at`."""
    bits = np.asarray(halves, np.float16).view(np.uint16).astype(np.int32)
    for i in range(4):
        place = raw[..., at + 2 * i + 1]
        place[...] = (place & 15) | ((bits >> (4 * i) & 15) << 4)


def _hostile_scale(rng, d):
    choices = np.stack([np.zeros_like(d), -np.zeros_like(d), np.full_like(d, 2.0**-24), -d, 4 * d,
                        np.full_like(d, -37 * 2.0**-24), np.full_like(d, 2.0**-14)])
    return np.take_along_axis(choices, rng.integers(0, len(choices), d.shape)[None], 0)[0]


def _blocks(rng, kind, rows, cols, deviation, hostile):
    count = cols // block_weights(kind)
    raw = rng.integers(0, 256, (rows, count, block_bytes(kind)), dtype=np.uint8)
    d = deviation / UNIT[kind] * rng.uniform(0.5, 1.5, (rows, count))
    m = d * CENTRE.get(kind, 0) * rng.uniform(0.8, 1.2, d.shape)
    bad = rng.random(d.shape) < hostile
    d = np.where(bad, _hostile_scale(rng, d), d)
    m = np.where(rng.random(d.shape) < hostile, _hostile_scale(rng, m), m)
    at = 0
    for name, size in LAYOUT[kind]:
        if name in ("d", "m", "dmin"):
            raw[..., at:at + 2] = _half(d if name == "d" else m)
        elif name == "e":
            e = 128 + np.floor(np.log2(np.abs(d) + 1e-30)).clip(-128, 60)
            wild_e = np.choose(rng.integers(0, 4, d.shape), [0 * e, 0 * e + 1, 0 * e + 90, e + 2])
            raw[..., at] = np.where(bad, wild_e, e)
        else:
            flat = rng.random(d.shape) < hostile / 2
            value = rng.choice(np.array([0, 0x7F, 0x80, 0xFF], np.uint8), d.shape)
            raw[..., at:at + size] = np.where(flat[..., None], value[..., None],
                                              raw[..., at:at + size])
        if kind == "IQ1_M" and name == "y":
            put_scattered(raw, at, d)
        at += size
    return raw


def _float_rows(rng, kind, rows, cols, deviation, hostile):
    w = (rng.standard_normal((rows, cols)) * deviation).astype(np.float32)
    small = np.array([0.0, -0.0, 1e-41, -1e-38, 2.0**-126, 2.0**-149], np.float32)
    w = np.where(rng.random(w.shape) < hostile, rng.choice(small, w.shape), w)
    if kind == "BF16":
        return (w.view(np.uint32) >> 16).astype("<u2").view(np.uint8).reshape(rows, cols * 2)
    return w.astype("<f2" if kind == "F16" else "<f4")


def _poisoned(raw, kind, name, bits):
    at = 0
    for field_name, size in LAYOUT[kind]:
        if field_name == name and kind == "IQ1_M":
            put_scattered(raw[raw.shape[0] // 2, -1], at, np.array(bits, "<u2").view("<f2"))
        elif field_name == name:
            octets = np.array([bits], "<u2").view(np.uint8)[:size]
            raw[raw.shape[0] // 2, -1, at:at + size] = octets
        at += size


def _even_magnitude(rng, raw):
    """Blocks of Q8_0 of +-1."""
    raw[..., 0:2] = _half(np.float16(2.0**-6))
    raw[..., 2:] = rng.choice(np.array([64, 192], np.uint8), raw[..., 2:].shape)


class _Writer:
    def __init__(self, path, shape, seed):
        self.shape, self.rng = shape, np.random.default_rng(seed)
        self.gguf = gguf.GGUFWriter(path, shape.family)

    def matrix(self, name, rows, cols, gain=1.0, experts=0):
        shape = self.shape
        count, rows = rows, rows * (experts or 1)
        kind = shape.layer_type if name.startswith("blk.") else \
            shape.output_type if name == "output.weight" else shape.embedding_type
        for part, other in shape.types.items():
            kind = other if part in name else kind
        deviation = gain / cols**0.5
        if kind in FLOATS:
            rows_ = _float_rows(self.rng, kind, rows, cols, deviation, shape.hostile)
        else:
            rows_ = _blocks(self.rng, kind, rows, cols, deviation, shape.hostile)
            if shape.ties and name == "token_embd.weight":
                _even_magnitude(self.rng, rows_)
            if shape.poison and shape.poison[0] == name:
                _poisoned(rows_, kind, *shape.poison[1:])
            rows_ = rows_.reshape(rows, -1)
        if experts:
            rows_ = rows_.reshape(experts, count, -1)
        self.gguf.add_tensor(name, rows_, raw_dtype=getattr(gguf.GGMLQuantizationType, kind))

    def router(self, name, rows, cols):
        w = (self.rng.standard_normal((rows, cols)) * (2 / cols**0.5)).astype(np.float32)
        if self.shape.router_ties:
            w[1::2] = w[:-1:2] if rows % 2 else w[::2]
        self.gguf.add_tensor(name, w)

    def vector(self, name, size, mean, deviation):
        values = mean + deviation * self.rng.standard_normal(size)
        self.gguf.add_tensor(name, values.astype(np.float32))

    def norm(self, name, size, scale=1.0):
        if self.shape.ties and name == "blk.0.attn_norm.weight":
            # Embeddings of one magnitude make r its exact inverse: the row is +-w, its scale 1.
            w = np.arange(size, dtype=np.float32) % 120 + np.float32(0.5)
            w[::32] = 127
            self.gguf.add_tensor(name, w)
            return
        self.vector(name, size, scale, 0.1 * scale)


def _letters():
    """GPT-2's letter of each byte."""
    letters, following = [], 256
    for byte in range(BYTES):
        printable = 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255
        letters.append(chr(byte if printable else following))
        following += not printable
    return letters


def _tokenizer(w, size):
    merged = ["q" + a for a in "abcdefghijklmnopqrstuvwxyz"]
    merged += [m + a for m in merged for a in "abcdefghijklmnopqrstuvwxyz"]
    merged = merged[:size - FIRST_BYTE - BYTES]
    tokens = SPECIALS + _letters() + merged
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    w.add_token_types([3] * FIRST_BYTE + [1] * (len(tokens) - FIRST_BYTE))
    w.add_token_merges([m[:-1] + " " + m[-1] for m in merged])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(False)


def _latent_keys(w, shape, A):
    rank, width, turned, plain, value = shape.latent
    w.add_uint32(A + "attention.head_count_kv", 1)
    if rank:
        w.add_uint32(A + "attention.q_lora_rank", rank)
    w.add_uint32(A + "attention.kv_lora_rank", width)
    w.add_uint32(A + "attention.key_length", width + turned)
    w.add_uint32(A + "attention.value_length", width)
    w.add_uint32(A + "attention.key_length_mla", plain + turned)
    w.add_uint32(A + "attention.value_length_mla", value)
    w.add_uint32(A + "rope.dimension_count", turned)


def _delta_keys(w, shape, A):
    keys, values, width, taps = shape.delta
    w.add_uint32(A + "ssm.conv_kernel", taps)
    w.add_uint32(A + "ssm.state_size", width)
    w.add_uint32(A + "ssm.group_count", keys)
    w.add_uint32(A + "ssm.time_step_rank", values)
    w.add_uint32(A + "ssm.inner_size", width * values)
    w.add_uint32(A + "nextn_predict_layers", shape.predictors)
    if shape.every:
        w.add_uint32(A + "full_attention_interval", shape.every)
        states = [(i + 1) % shape.every != 0 for i in range(shape.layers)]
        w.add_array(A + "attention.recurrent_layers", states + [False] * shape.predictors)
    if shape.family != "qwen3next":
        pairs = (shape.rotary or shape.head_dim) // 2
        w.add_array(A + "rope.dimension_sections",
                    [(pairs + 2) // 3, (pairs + 1) // 3, pairs // 3, 0])


def _delta_net(w, shape, blk, branch):
    keys, values, width, taps = shape.delta
    channels, inner = width * (2 * keys + values), width * values
    if shape.joint_input:
        w.matrix(blk + "ssm_in.weight", channels + inner, shape.hidden)
    else:
        w.matrix(blk + "attn_qkv.weight", channels, shape.hidden)
        w.matrix(blk + "attn_gate.weight", inner, shape.hidden)
    if shape.family == "qwen3next":
        w.matrix(blk + "ssm_ba.weight", 2 * values, shape.hidden)
    else:
        w.matrix(blk + "ssm_beta.weight", values, shape.hidden)
        w.matrix(blk + "ssm_alpha.weight", values, shape.hidden)
    w.vector(blk + "ssm_conv1d.weight", (channels, taps), 0, 0.5)
    w.vector(blk + "ssm_dt.bias", values, -3, 3)
    w.vector(blk + "ssm_a", values, shape.decay, 1)
    w.norm(blk + "ssm_norm.weight", width)
    w.matrix(blk + "ssm_out.weight", shape.hidden, inner, branch)


def _latent(w, shape, blk, branch):
    rank, width, turned, plain, value = shape.latent
    wide = shape.heads * (plain + turned)
    if rank:
        w.matrix(blk + "attn_q_a.weight", rank, shape.hidden)
        w.norm(blk + "attn_q_a_norm.weight", rank)
        w.matrix(blk + "attn_q_b.weight", wide, rank, 1.5)
    else:
        w.matrix(blk + "attn_q.weight", wide, shape.hidden, 1.5)
    w.matrix(blk + "attn_kv_a_mqa.weight", width + turned, shape.hidden)
    w.norm(blk + "attn_kv_a_norm.weight", width)
    w.matrix(blk + "attn_k_b.weight", width, plain, experts=shape.heads)
    w.matrix(blk + "attn_v_b.weight", value, width, experts=shape.heads)
    w.matrix(blk + "attn_output.weight", shape.hidden, shape.heads * value, branch)


def _width(shape, i):
    first = shape.first_width and i < shape.layers - shape.sharing
    return shape.first_width if first else shape.feed_forward


def _is_local(shape, i):
    return (i + 1) % shape.global_every != 0


def _two_kinds_of_heads(w, shape, A):
    local = [_is_local(shape, i) for i in range(shape.layers)]
    w.add_array(A + "attention.sliding_window_pattern", local)
    w.add_array(A + "attention.head_count_kv",
                [shape.local_heads[0] if x else shape.kv_heads for x in local])
    w.add_uint32(A + "attention.sliding_window", shape.window)
    w.add_uint32(A + "embedding_length_per_layer_input", shape.layer_input)
    w.add_uint32(A + "attention.shared_kv_layers", shape.sharing)
    for key in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        w.add_uint32(A + key, shape.head_dim)
        w.add_uint32(A + key + "_swa", shape.local_heads[1])


def _keys(w, shape):
    A = shape.family + "."
    w.add_string("general.name", "small")
    routed = shape.family in ROUTED
    beside = shape.family == "gemma4" and shape.experts
    behind = (routed or shape.family in DELTA) * shape.predictors
    w.add_uint32(A + "block_count", shape.layers + behind)
    w.add_uint32(A + "context_length", shape.context)
    w.add_uint32(A + "embedding_length", shape.hidden)
    if shape.first_width:
        w.add_array(A + "feed_forward_length", [_width(shape, i) for i in range(shape.layers)])
    else:
        w.add_uint32(A + "feed_forward_length",
                     shape.dense_width if routed or beside or shape.family == "llama4"
                     else shape.feed_forward)
    w.add_uint32(A + "attention.head_count", shape.heads)
    if shape.family == "deepseek2":
        _latent_keys(w, shape, A)
    elif shape.family == "gemma4":
        _two_kinds_of_heads(w, shape, A)
    else:
        w.add_uint32(A + "attention.head_count_kv", shape.kv_heads)
        w.add_uint32(A + "attention.key_length", shape.head_dim)
        w.add_uint32(A + "attention.value_length", shape.head_dim)
    w.add_float32(A + "attention.layer_norm_rms_epsilon", 1e-12 if shape.ties else 1e-5)
    w.add_float32(A + "rope.freq_base", shape.rope_base)
    if shape.rope_scale:
        key, kind = shape.rope_scaling
        w.add_float32(A + key, shape.rope_scale)
        if kind:
            w.add_string(A + "rope.scaling.type", kind)
    for key, value in shape.floats.items():
        w.add_float32(A + key, value)
    for key, value in shape.numbers.items():
        w.add_uint32(A + key, value)
    for key, value in shape.flags.items():
        w.add_bool(A + key, value)
    if routed:
        w.add_uint32(A + "leading_dense_block_count", shape.dense_layers)
        w.add_uint32(A + "nextn_predict_layers", shape.predictors)
    if shape.family in DELTA:
        _delta_keys(w, shape, A)
    if shape.family in LOCAL:
        w.add_uint32(A + "attention.sliding_window", shape.window)
    if shape.rotary:
        w.add_uint32(A + "rope.dimension_count", shape.rotary)
    if shape.experts:
        w.add_uint32(A + "expert_count", shape.experts)
        w.add_uint32(A + "expert_used_count", shape.experts_used)
        if shape.family not in ("llama", "granitemoe"):
            w.add_uint32(A + "expert_feed_forward_length", shape.feed_forward)
        if shape.family == "llama4":
            w.add_uint32(A + "interleave_moe_layer_step", shape.expert_every)
        if shape.family in SHARED:
            w.add_uint32(A + "expert_shared_feed_forward_length", shape.shared_width)


def _experts(w, shape, blk, branch):
    width, experts = shape.feed_forward, shape.experts
    w.router(blk + "ffn_gate_inp.weight", experts, shape.hidden)
    if shape.family == "gemma4" and shape.fused_experts:
        w.matrix(blk + "ffn_gate_up_exps.weight", 2 * width, shape.hidden, experts=experts)
    else:
        w.matrix(blk + "ffn_gate_exps.weight", width, shape.hidden, experts=experts)
        w.matrix(blk + "ffn_up_exps.weight", width, shape.hidden, experts=experts)
    w.matrix(blk + "ffn_down_exps.weight", shape.hidden, width, branch, experts)
    if shape.family in ROUTED:
        if shape.selection_bias:
            w.vector(blk + "exp_probs_b.bias", experts, 0, shape.selection_bias)
        shared = width * shape.numbers.get("expert_shared_count", 0)
        if shared:
            w.matrix(blk + "ffn_gate_shexp.weight", shared, shape.hidden)
            w.matrix(blk + "ffn_up_shexp.weight", shared, shape.hidden)
            w.matrix(blk + "ffn_down_shexp.weight", shape.hidden, shared, branch)
    if shape.family == "gemma4":
        w.vector(blk + "ffn_gate_inp.scale", shape.hidden, shape.hidden**0.5, 1.0)
        w.vector(blk + "ffn_down_exps.scale", experts, 1.0, 0.3)
        w.norm(blk + "pre_ffw_norm_2.weight", shape.hidden)
        w.norm(blk + "post_ffw_norm_1.weight", shape.hidden)
        w.norm(blk + "post_ffw_norm_2.weight", shape.hidden)
    if shape.family == "gpt-oss":
        w.vector(blk + "ffn_gate_inp.bias", experts, 0, shape.bias)
        for part, size in (("gate", width), ("up", width), ("down", shape.hidden)):
            w.vector(f"{blk}ffn_{part}_exps.bias", (experts, size), 0, shape.bias)
    if shape.family == "llama4":
        w.matrix(blk + "ffn_gate_shexp.weight", width, shape.hidden)
        w.matrix(blk + "ffn_up_shexp.weight", width, shape.hidden)
        w.matrix(blk + "ffn_down_shexp.weight", shape.hidden, width, branch)
    if shape.family not in SHARED or not shape.shared_width:
        return
    if shape.family in GATED:
        w.router(blk + "ffn_gate_inp_shexp.weight", 1, shape.hidden)
    w.matrix(blk + "ffn_gate_shexp.weight", shape.shared_width, shape.hidden)
    w.matrix(blk + "ffn_up_shexp.weight", shape.shared_width, shape.hidden)
    w.matrix(blk + "ffn_down_shexp.weight", shape.hidden, shape.shared_width, branch)


def has_delta_net(shape, i):
    return shape.family in DELTA and (i + 1) % (shape.every or 4) != 0


def _feed_forward(w, shape, blk, width, branch):
    fused = shape.family in FUSED
    if not fused:
        w.matrix(blk + "ffn_gate.weight", width, shape.hidden)
    w.matrix(blk + "ffn_up.weight", width * (2 if fused else 1), shape.hidden,
             1.0 if fused else shape.up_gain)
    w.matrix(blk + "ffn_down.weight", shape.hidden, width, branch)


def _layer(w, shape, i):
    blk = f"blk.{i}."
    kv_heads, head_dim = shape.kv_heads, shape.head_dim
    if shape.family == "gemma4" and _is_local(shape, i):
        kv_heads, head_dim = shape.local_heads
    heads, kv = shape.heads * head_dim, kv_heads * head_dim
    branch = 1 / (2 * shape.layers) ** 0.5
    if shape.family != "olmo2":
        w.norm(blk + "attn_norm.weight", shape.hidden, shape.norm_scale)
        named = shape.family in ("gpt-oss", "glm4moe") + DELTA
        norm = "post_attention_norm" if named else "ffn_norm"
        w.norm(f"{blk}{norm}.weight", shape.hidden, shape.ffn_scale if ".1." in blk else 1.0)
    if shape.family == "phi3":
        w.matrix(blk + "attn_qkv.weight", heads + 2 * kv, shape.hidden, 1.5)
    elif shape.family == "deepseek2":
        _latent(w, shape, blk, branch)
    elif has_delta_net(shape, i):
        _delta_net(w, shape, blk, branch)
    else:
        rows = 2 * heads if shape.family in DELTA else heads
        w.matrix(blk + "attn_q.weight", rows, shape.hidden, 1.5)
        keeps = i < shape.layers - shape.sharing
        if keeps:
            w.matrix(blk + "attn_k.weight", kv, shape.hidden, 1.5)
        if keeps and (shape.family != "gemma4" or shape.own_values or _is_local(shape, i)):
            w.matrix(blk + "attn_v.weight", kv, shape.hidden)
    if shape.family != "deepseek2" and not has_delta_net(shape, i):
        w.matrix(blk + "attn_output.weight", shape.hidden, heads, branch)
    oss = shape.family == "gpt-oss"
    if oss:
        w.vector(blk + "attn_output.bias", shape.hidden, 0, shape.bias)
        w.vector(blk + "attn_sinks.weight", shape.heads, 0, shape.sinks)
    dense = shape.family in ROUTED and i < shape.dense_layers or \
        shape.family == "llama4" and (i + 1) % shape.expert_every != 0
    beside = shape.family == "gemma4" and shape.experts
    if shape.experts and not dense:
        _experts(w, shape, blk, branch)
    if not shape.experts or dense or beside:
        width = shape.dense_width if dense or beside else _width(shape, i)
        _feed_forward(w, shape, blk, width, branch)
    if shape.family in ("qwen2", "qwen2moe", "gpt-oss") or (
            shape.family in ("glm4", "glm4moe") and shape.biases):
        for part, size in (("q", heads), ("k", kv), ("v", kv)):
            w.vector(f"{blk}attn_{part}.bias", size, 0, 0.5)
    gated = shape.family in DELTA and not has_delta_net(shape, i)
    if gated or shape.family in ("qwen3", "qwen3moe", "gemma3", "gemma4") or (
            shape.family == "glm4moe" and shape.head_norms):
        w.norm(blk + "attn_q_norm.weight", head_dim)
        if i < shape.layers - shape.sharing:
            w.norm(blk + "attn_k_norm.weight", head_dim)
    if shape.layer_input:
        w.matrix(blk + "inp_gate.weight", shape.layer_input, shape.hidden)
        w.matrix(blk + "proj.weight", shape.hidden, shape.layer_input)
        w.norm(blk + "post_norm.weight", shape.hidden, 0.5)
    if shape.family == "olmo2":
        w.norm(blk + "attn_q_norm.weight", heads)
        w.norm(blk + "attn_k_norm.weight", kv)
    if shape.family == "gemma4" and shape.layer_scale:
        w.vector(blk + "layer_output_scale.weight", 1, 0.8, 0.1)
    if shape.family in ("gemma4", "gemma3", "gemma2", "olmo2", "glm4"):
        w.norm(blk + "post_attention_norm.weight", shape.hidden, 0.5)
        w.norm(blk + "post_ffw_norm.weight", shape.hidden, 0.5)


def write(path, shape, seed):
    w = _Writer(path, shape, seed)
    _keys(w.gguf, shape)
    _tokenizer(w.gguf, shape.vocabulary)
    w.matrix("token_embd.weight", shape.vocabulary, shape.hidden, 3.0)
    if shape.output_type:
        w.matrix("output.weight", shape.vocabulary, shape.hidden, 3.0)
    w.norm("output_norm.weight", shape.hidden)
    if shape.layer_input:
        all_inputs = shape.layers * shape.layer_input
        w.matrix("per_layer_token_embd.weight", shape.vocabulary, all_inputs,
                 (all_inputs / shape.layer_input) ** 0.5)
        w.matrix("per_layer_model_proj.weight", all_inputs, shape.hidden)
        w.norm("per_layer_proj_norm.weight", shape.layer_input)
    if shape.rope_factors:
        pairs = (shape.rotary or shape.head_dim) // 2
        names = ("rope_factors_long.weight", "rope_factors_short.weight") \
            if shape.family == "phi3" else ("rope_freqs.weight",)
        for most, name in zip((8, 2), names):
            factors = np.linspace(1, most, pairs)
            if shape.family == "gemma4":  # a quarter of the pairs turns
                factors = np.where(np.arange(pairs) < pairs // 4, 1.0, 1e30)
            w.gguf.add_tensor(name, factors.astype(np.float32))
    for i in range(shape.layers):
        _layer(w, shape, i)
    behind = shape.predictors * (shape.family in ROUTED + DELTA)
    for i in range(shape.layers, shape.layers + behind):
        _layer(w, shape, i)
        w.matrix(f"blk.{i}.nextn.eh_proj.weight", shape.hidden, 2 * shape.hidden)
    w.gguf.write_header_to_file()
    w.gguf.write_kv_data_to_file()
    w.gguf.write_tensors_to_file()
    w.gguf.close()

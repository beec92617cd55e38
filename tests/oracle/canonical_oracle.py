"""Compares Hearth with the second implementation of the canonical function, for equality.

usage: canonical_oracle.py REQUEST_TOOL HEARTH [--seeds N] [--only TEXT] [--model FILE]
                           [--perturb DEFECT]

Whole small models of every weight type and family run through both: the hash at every boundary of
every layer and position, the token ids, the log probabilities. The demo model as well where
HEARTH_DEMO_MODEL names it. --seeds N runs N rounds with other weights and requests; --model FILE
runs that file alone; --perturb plants a defect in the oracle, and the run must then fail.
"""

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

try:
    import gguf  # noqa: F401
    import numpy as np
except ImportError as missing:
    print(f"skipped: the Python package {missing.name} is not installed")
    sys.exit(77)

from canonical import arithmetic, experts, hashes, model, quantise, sampler
from canonical.weights import FLOATS, GRIDS, LAYOUT, SUPER, block_bytes, matrix
import small_models
from small_models import Shape, put_scattered, wide

NARROW = [kind for kind in LAYOUT if kind not in SUPER] + list(FLOATS)
DIVIDED = ("llama", "qwen2", "qwen3", "gemma3", "qwen3moe")  # section 13: by groups of ranks
PROMPT = "The first rule of arithmetic:"


class Mismatch(Exception):
    pass


@dataclasses.dataclass
class Counts:
    models: int = 0
    requests: int = 0
    hashes: int = 0
    tokens: int = 0
    logprobs: int = 0
    embedded: int = 0
    refusals: int = 0
    weights: int = 0
    failures: int = 0


def small_cases():
    """name -> shape"""
    cases = {}
    for kind in NARROW:
        cases[f"llama {kind}"] = Shape(layer_type=kind, embedding_type=kind, hostile=0.05)
    for kind in sorted(SUPER):
        cases[f"llama {kind}"] = wide(kind, hostile=0.05)
    cases["llama, mixed types, factors"] = wide(
        "Q4_K", rope_factors=True, output_type="Q6_K",
        types={"ffn_down": "Q5_K", "attn_v": "Q6_K", "token_embd": "Q3_K", "attn_k": "F16"})
    cases["llama, linear scale"] = Shape(layer_type="Q5_1", rope_scale=3.0, rope_base=500000.0)
    cases["llama, scale alone, factors"] = Shape(rope_scale=7.0, rope_factors=True,
                                                 rope_scaling=("rope.scale_linear", ""))
    cases["llama, scaling none"] = Shape(rope_scale=3.0,
                                         rope_scaling=("rope.scaling.factor", "none"))
    cases["llama, very hostile"] = Shape(layer_type="Q4_1", hostile=0.6)
    cases["llama K, very hostile"] = wide("Q2_K", hostile=0.6)
    cases["llama, ties in quantising"] = Shape(ties=True, layer_type="Q4_1")
    cases["llama, one token overflows"] = Shape(poison=("token_embd.weight", "d", 0x7BFF))
    cases["llama, feed-forward overflows"] = Shape(layers=3, ffn_scale=2200.0)
    cases["llama, norm overflows"] = Shape(norm_scale=1e38)
    cases["llama, keys too large"] = Shape(types={"attn_k": "F32"}, norm_scale=2e12)
    tall = Shape(hidden=64, heads=2, kv_heads=1, head_dim=64, feed_forward=96)
    cases["qwen2 Q5_0"] = Shape(family="qwen2", layer_type="Q5_0", hostile=0.05)
    cases["qwen2 Q4_K"] = wide("Q4_K", family="qwen2")
    cases["qwen3 Q8_0"] = tall.but(family="qwen3", layer_type="Q8_0")
    cases["qwen3 IQ4_XS"] = wide("IQ4_XS", family="qwen3", hostile=0.05)
    cases["gemma3 Q4_0"] = tall.but(family="gemma3", layers=7, layer_type="Q4_0", rope_scale=8.0,
                                    rope_base=1000000.0)
    cases["gemma3 Q6_K"] = wide("Q6_K", family="gemma3")
    cases["gemma3, 62 layers"] = tall.but(family="gemma3", layers=62, hidden=96, heads=2)
    mixed = tall.but(feed_forward=96, experts=8)
    cases["qwen3moe Q4_0"] = mixed.but(family="qwen3moe", layer_type="Q4_0", experts_used=3)
    cases["qwen3moe Q4_K"] = wide("Q4_K", family="qwen3moe", hostile=0.05).but(
        feed_forward=256, experts=16, experts_used=4)
    cases["qwen3moe, ties in routing"] = mixed.but(family="qwen3moe", experts_used=3,
                                                   router_ties=True)
    cases["qwen3moe, one expert of a row"] = mixed.but(family="qwen3moe", experts_used=1)
    cases["qwen3moe, all experts of a row"] = mixed.but(family="qwen3moe", experts=5,
                                                        experts_used=5)
    cases["qwen3moe, very hostile"] = mixed.but(family="qwen3moe", layer_type="Q5_1", hostile=0.6)
    cases["qwen3moe, experts overflow"] = mixed.but(family="qwen3moe", layers=3, ffn_scale=2200.0)
    cases["qwen3moe, router overflows"] = mixed.but(family="qwen3moe", ffn_scale=1e38)
    cases["qwen2moe Q8_0"] = mixed.but(family="qwen2moe")
    cases["qwen2moe Q5_K"] = wide("Q5_K", family="qwen2moe", hostile=0.05).but(
        feed_forward=256, experts=6, experts_used=4, shared_width=512)
    cases["qwen2moe, ties in routing"] = mixed.but(family="qwen2moe", experts=7,
                                                   router_ties=True)
    oss = mixed.but(family="gpt-oss", layers=3, layer_type="MXFP4", experts_used=3,
                    rope_base=150000.0, rope_scale=32.0, rope_scaling=("rope.scaling.factor", "yarn"),
                    numbers={"rope.scaling.original_context_length": 24})
    cases["gpt-oss MXFP4"] = oss.but(hostile=0.05)
    cases["gpt-oss Q8_0, output, mixed types"] = oss.but(
        layer_type="Q8_0", output_type="Q8_0", types={"_exps": "MXFP4"}, window=20)
    cases["gpt-oss, no window, no scaling"] = oss.but(window=0, rope_scale=0.0, numbers={})
    cases["gpt-oss, sinks drown"] = oss.but(sinks=300.0)
    cases["gpt-oss, sinks too large"] = oss.but(sinks=1e13)
    cases["gpt-oss, clamped"] = oss.but(bias=30.0)
    cases["gpt-oss, experts overflow"] = oss.but(bias=1e9)
    cases["mixtral Q4_1"] = mixed.but(layer_type="Q4_1")
    cases["mixtral, mixed types"] = wide("Q4_K", output_type="Q6_K", types={
        "ffn_down_exps": "Q6_K", "ffn_gate_exps": "Q3_K"}).but(feed_forward=256, experts=4)
    return cases | dense_cases(tall)


def dense_cases(tall):
    """YaRN, and the families that differ from llama in more than one place."""
    cases = {}
    stretched = Shape(rope_scale=16.0, rope_scaling=("rope.scaling.factor", "yarn"),
                      numbers={"rope.scaling.original_context_length": 40})
    cases["llama, yarn"] = stretched
    cases["llama, yarn, every key"] = stretched.but(
        rope_base=500000.0, head_dim=64, layer_type="Q4_1", rope_factors=True,
        floats={"rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 0.25,
                "rope.scaling.yarn_log_multiplier": 0.7, "rope.scaling.attn_factor": 1.1})
    cases["qwen3, yarn that does not stretch"] = stretched.but(family="qwen3", rope_scale=0.5,
                                                               numbers={})
    olmo2 = tall.but(family="olmo2", layers=4, kv_heads=2)
    cases["olmo2 Q8_0"] = olmo2.but(window=0)
    cases["olmo2, local layers"] = olmo2.but(layer_type="Q4_0", hostile=0.05)
    cases["olmo2, local layers, yarn"] = olmo2.but(
        rope_scale=8.0, rope_scaling=stretched.rope_scaling, numbers=stretched.numbers)
    cases["olmo2 Q4_K"] = wide("Q4_K", family="olmo2")
    cases["olmo2, feed-forward overflows"] = olmo2.but(types={"ffn_": "F32"}, up_gain=2e19)
    scales = {"embedding_scale": 12.0, "residual_scale": 0.22, "attention.scale": 0.0078125,
              "logit_scale": 8.0}
    cases["granite Q5_0"] = Shape(family="granite", layer_type="Q5_0", floats=scales)
    cases["granite Q6_K"] = wide("Q6_K", family="granite", floats=scales, output_type="Q5_K",
                                 hostile=0.05)
    cases["granite, no scales"] = Shape(family="granite", floats={"logit_scale": 1.0})
    granitemoe = tall.but(family="granitemoe", experts=8, floats=scales)
    cases["granitemoe Q4_0, shared expert"] = granitemoe.but(layer_type="Q4_0", experts_used=3)
    cases["granitemoe, no shared expert"] = granitemoe.but(shared_width=0, hostile=0.05)
    cases["granitemoe, shared expert overflows"] = granitemoe.but(
        layers=3, types={"_shexp": "F32"}, ffn_scale=2200.0)
    cases["granitemoe Q4_K"] = wide("Q4_K", family="granitemoe", hostile=0.05).but(
        feed_forward=256, experts=6, experts_used=4, shared_width=512, floats=scales)
    cases["smollm3 Q4_1"] = Shape(family="smollm3", layers=5, layer_type="Q4_1")
    cases["smollm3 Q3_K"] = wide("Q3_K", family="smollm3", hostile=0.05).but(layers=4)
    glm4 = tall.but(family="glm4", rotary=32)
    cases["glm4 Q4_0"] = glm4.but(layer_type="Q4_0")
    cases["glm4, no biases"] = glm4.but(biases=False, hostile=0.05)
    cases["glm4, the whole head turns"] = glm4.but(rotary=0)
    cases["glm4 Q5_K"] = wide("Q5_K", family="glm4").but(rotary=32)
    routed = {"expert_gating_func": 2, "expert_shared_count": 1}
    glm4moe = tall.but(family="glm4moe", layers=3, rotary=32, experts=8, experts_used=3,
                       numbers=routed, flags={"expert_weights_norm": True},
                       floats={"expert_weights_scale": 2.5})
    cases["glm4moe Q4_0"] = glm4moe.but(layer_type="Q4_0")
    cases["glm4moe, no head norms, no biases"] = glm4moe.but(
        head_norms=False, biases=False, hostile=0.05, predictors=2)
    cases["glm4moe, groups, two first layers"] = glm4moe.but(
        dense_layers=2, selection_bias=2.0,
        numbers=routed | {"expert_group_count": 4, "expert_group_used_count": 2})
    cases["glm4moe, ties in routing"] = glm4moe.but(
        router_ties=True, selection_bias=0.0,
        numbers=routed | {"expert_group_count": 2, "expert_group_used_count": 1})
    cases["glm4moe, sigmoids as they are"] = glm4moe.but(
        flags={"expert_weights_norm": False}, numbers={"expert_shared_count": 2}, floats={})
    cases["glm4moe, softmax in groups"] = glm4moe.but(
        selection_bias=0.0, dense_layers=0, flags={}, floats={"expert_weights_scale": 16.0},
        numbers={"expert_gating_func": 1, "expert_group_count": 4, "expert_group_used_count": 2})
    cases["glm4moe, experts overflow"] = glm4moe.but(ffn_scale=2200.0, dense_layers=0)
    cases["glm4moe, router overflows"] = glm4moe.but(ffn_scale=1e38, dense_layers=0)
    cases["glm4moe Q5_K"] = wide("Q5_K", family="glm4moe", hostile=0.05).but(
        feed_forward=256, dense_width=512, experts=6, experts_used=2, numbers=routed, rotary=32)
    deepseek2 = glm4moe.but(family="deepseek2", heads=3, rotary=0)
    cases["deepseek2 Q4_0"] = deepseek2.but(layer_type="Q4_0")
    cases["deepseek2, one matrix of queries"] = deepseek2.but(
        latent=(0, 64, 64, 32, 96), hostile=0.05, layer_type="Q5_0")
    cases["deepseek2, yarn"] = deepseek2.but(
        layer_type="Q8_0", rope_scale=40.0, rope_scaling=stretched.rope_scaling,
        numbers=routed | stretched.numbers | {
            "expert_group_count": 4, "expert_group_used_count": 2},
        floats={"expert_weights_scale": 2.5, "rope.scaling.yarn_log_multiplier": 0.0707,
                "rope.scaling.attn_factor": 0.9})
    cases["deepseek2, softmax"] = deepseek2.but(
        selection_bias=0.0, flags={}, floats={"expert_weights_scale": 16.0}, layer_type="Q4_1",
        numbers={"expert_gating_func": 1, "expert_shared_count": 2})
    cases["deepseek2, latents too large"] = deepseek2.but(
        types={"attn_kv_a_mqa": "F32"}, norm_scale=2e12)
    cases["deepseek2, norms overflow"] = deepseek2.but(norm_scale=1e38)
    cases["deepseek2, very hostile"] = deepseek2.but(layer_type="Q4_1", hostile=0.6)
    cases["deepseek2 Q4_K"] = wide("Q4_K", family="deepseek2").but(
        feed_forward=256, dense_width=512, experts=6, experts_used=2, numbers=routed,
        latent=(256, 256, 32, 256, 64), output_type="Q6_K")
    qwen3next = tall.but(family="qwen3next", layers=4, rotary=32, experts=8, experts_used=3)
    cases["qwen3next Q4_0"] = qwen3next.but(layer_type="Q4_0")
    cases["qwen3next, one matrix in"] = qwen3next.but(joint_input=True, layers=3, every=2,
                                                      hostile=0.05, predictors=0)
    cases["qwen3next, other heads"] = qwen3next.but(delta=(1, 3, 64, 2), layers=3, every=3,
                                                    layer_type="Q5_1")
    cases["qwen3next, one tap, no attention"] = qwen3next.but(delta=(2, 2, 32, 1), layers=2,
                                                              every=8)
    cases["qwen3next, attention alone"] = qwen3next.but(layers=2, every=1)
    cases["qwen3next Q4_K"] = wide("Q4_K", family="qwen3next", hostile=0.05).but(
        feed_forward=256, experts=6, experts_used=4, shared_width=512, rotary=32, every=2,
        delta=(2, 4, 64, 4), output_type="Q6_K")
    cases["qwen3next, states that grow"] = qwen3next.but(layers=2, decay=30.0)
    cases["qwen3next, channels too large"] = qwen3next.but(
        layers=2, types={"attn_qkv": "F32"}, norm_scale=2e12)
    cases["qwen3next, numbers overflow"] = qwen3next.but(
        layers=2, types={"ssm_ba": "F32", "attn_qkv": "Q8_0"}, norm_scale=1e38)
    qwen35 = tall.but(family="qwen35", layers=4, rotary=32)
    cases["qwen35 Q8_0"] = qwen35.but(hostile=0.05)
    cases["qwen35, three value heads of a key head"] = qwen35.but(
        delta=(2, 6, 32, 4), layers=3, every=2, layer_type="Q4_1", rotary=0)
    cases["qwen35, very hostile"] = qwen35.but(layer_type="Q5_0", hostile=0.6)
    cases["qwen35moe Q4_1"] = qwen3next.but(family="qwen35moe", layer_type="Q4_1", hostile=0.05)
    caps = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
    gemma2 = tall.but(family="gemma2", layers=3)
    cases["gemma2 Q8_0"] = gemma2.but(floats=caps, hostile=0.05)
    cases["gemma2, usual caps"] = gemma2.but(layer_type="Q5_1")
    cases["gemma2 IQ4_XS"] = wide("IQ4_XS", family="gemma2", floats=caps)
    cases["gemma2, own base of local layers"] = gemma2.but(
        floats=caps | {"rope.freq_base_swa": 500.0}, rope_scale=2.0)
    cases["gemma2, own base, a window that hides nothing"] = gemma2.but(
        floats={"rope.freq_base_swa": 500.0}, window=4096)
    cases["gemma2, 46 layers"] = gemma2.but(layers=46, hidden=96, heads=2)
    gemma4 = tall.but(family="gemma4", layers=4, heads=6, head_dim=64, kv_heads=2,
                      rope_factors=True)
    cap = {"final_logit_softcapping": 3.0}
    cases["gemma4 Q8_0"] = gemma4.but(floats=cap, hostile=0.05)
    cases["gemma4, own values, no scales, no cap"] = gemma4.but(
        layer_type="Q4_0", own_values=True, layer_scale=False, rope_factors=False,
        floats={"final_logit_softcapping": 0.0})
    cases["gemma4, all layers local"] = gemma4.but(global_every=9, local_heads=(1, 96))
    cases["gemma4 Q4_K"] = wide("Q4_K", family="gemma4", floats=cap).but(
        layers=3, local_heads=(4, 64), head_dim=128, kv_heads=1, rope_factors=True)
    inputs = gemma4.but(layers=6, sharing=3, layer_input=64, own_values=True, floats=cap)
    cases["gemma4, inputs of layers, shared keys"] = inputs.but(first_width=160, hostile=0.05)
    cases["gemma4, inputs of layers alone"] = inputs.but(sharing=0, layer_type="Q4_0",
                                                         layer_scale=False)
    cases["gemma4, shared keys alone"] = inputs.but(layer_input=0, sharing=2, layer_type="Q5_1")
    cases["gemma4, inputs overflow"] = inputs.but(
        types={"inp_gate": "F32", "per_layer_model_proj": "F16"}, norm_scale=1e38)
    beside = gemma4.but(layers=3, experts=8, experts_used=3, floats=cap)
    cases["gemma4 with experts, Q5_0"] = beside.but(layer_type="Q5_0", hostile=0.05)
    cases["gemma4 with experts, gate and up apart"] = beside.but(
        fused_experts=False, layer_type="Q4_1")
    cases["gemma4 with experts, ties in routing"] = beside.but(router_ties=True)
    cases["gemma4 with experts, one of them overflows"] = beside.but(
        types={"_exps": "F32"}, up_gain=1.0, ffn_scale=1e38)
    cases["gemma4 with experts, Q6_K"] = wide("Q6_K", family="gemma4").but(
        layers=3, feed_forward=256, dense_width=512, experts=6, experts_used=2,
        local_heads=(4, 64), head_dim=128, rope_factors=True)
    phi3 = Shape(family="phi3", heads=3, kv_heads=3, window=0)
    cases["phi3 Q8_0"] = phi3
    cases["phi3, window"] = phi3.but(window=6, layer_type="Q4_0", kv_heads=1)
    magnitude = {"rope.scaling.attn_factor": 1.19}
    cases["phi3, long factors"] = phi3.but(rope_factors=True, floats=magnitude,
                                           numbers={"rope.scaling.original_context_length": 256})
    cases["phi3, short factors"] = phi3.but(rope_factors=True, floats=magnitude,
                                            numbers={"rope.scaling.original_context_length": 512})
    cases["phi3 Q2_K, part of the head"] = wide("Q2_K", family="phi3").but(
        rotary=32, window=0, rope_factors=True, floats=magnitude, hostile=0.05)
    cold = stretched.but(family="mistral3", floats={"attention.temperature_scale": 0.1,
                                                    "rope.scaling.yarn_log_multiplier": 1.0},
                         numbers={"rope.scaling.original_context_length": 7})
    cases["mistral3 Q4_1"] = cold.but(layer_type="Q4_1")
    cases["mistral3, scores that grow fast"] = cold.but(
        floats={"attention.temperature_scale": 3.0}, output_type="F16")
    cases["mistral3 Q4_K"] = wide("Q4_K", family="mistral3", hostile=0.05)
    llama4 = tall.but(family="llama4", layers=5, experts=8, experts_used=1,
                      numbers={"attention.temperature_length": 5})
    cases["llama4 Q4_0"] = llama4.but(layer_type="Q4_0")
    cases["llama4, every layer mixed, factors"] = llama4.but(
        expert_every=1, experts_used=2, layer_type="Q8_0", rope_factors=True, output_type="Q8_0",
        floats={"attention.temperature_scale": 3.0})
    cases["llama4, 128 experts, ties in routing"] = llama4.but(experts=128, router_ties=True,
                                                               hostile=0.05)
    cases["llama4 Q4_K"] = wide("Q4_K", family="llama4").but(
        layers=4, feed_forward=256, dense_width=512, experts=4, experts_used=1)
    return cases


def refused_cases():
    """Files that both must refuse: a scale that is not a number, or too large a power of two."""
    cases = {}
    for kind in LAYOUT:
        shape = wide(kind) if kind in SUPER else Shape(layer_type=kind, embedding_type=kind)
        names = [name for name, _ in LAYOUT[kind] if name in ("d", "m", "dmin", "e")]
        names = names or ["y"]  # which hold d in IQ1_M
        for index, name in enumerate(names):
            bits = 189 if name == "e" else 0x7C00 if index else 0xFE01  # infinity, a NaN
            poison = ("blk.1.ffn_up.weight", name, bits)
            cases[f"{kind}, {name} not finite"] = shape.but(poison=poison)
    return cases


def compare_weights(kind, counts):
    """The oracle's weights with those of gguf's numpy code, whose sums may round otherwise."""
    rng = np.random.default_rng(len(kind))
    raw = rng.integers(0, 256, (8, 16 * block_bytes(kind)), dtype=np.uint8)
    blocks = raw.reshape(8, 16, -1)
    at = 0
    for name, size in LAYOUT[kind]:
        if name in ("d", "m", "dmin"):
            scales = rng.normal(0, 1, (8, 16, 1)).astype(np.float16)
            blocks[..., at:at + 2] = scales.view(np.uint8)
        elif name == "e":
            blocks[..., at] = rng.integers(0, 189, (8, 16))
        elif kind == "IQ1_M" and name == "y":
            put_scattered(blocks, at, rng.normal(0, 1, (8, 16)))
        at += size
    ours = matrix(kind, raw).dequantised(np.arange(8))
    theirs = gguf.quants.dequantize(raw, getattr(gguf.GGMLQuantizationType, kind))
    exact = kind == "MXFP4" or kind.startswith(("IQ1", "IQ2", "IQ3", "TQ"))
    if not np.allclose(ours, theirs, rtol=0 if exact else 1e-6, atol=0 if exact else 1e-6):
        raise Mismatch(f"{kind}: weights differ from those of gguf's numpy code")
    counts.weights += ours.size


def compare_grids():
    """The text's grids with gguf's, entry by entry."""
    for name, values in GRIDS.items():
        published = getattr(gguf.quants, {"IQ1": "IQ1_S"}.get(name, name))
        published.init_grid()
        if not np.array_equal(values, published.grid.reshape(published.grid_shape)):
            raise Mismatch(f"the grid {name} is not gguf's")


def requests_of(rng, vocabulary, rounds):
    """[(prompt, Params)]: greedy, plain sampling, everything at once, a stop token."""
    def prompt(low, high):
        return [int(t) for t in rng.integers(0, vocabulary, rng.integers(low, high))]

    def seed():
        return int(rng.integers(0, 2**64, dtype=np.uint64))

    Params = sampler.Params
    out = []
    for _ in range(rounds):
        out.append((prompt(20, 44), Params(temperature=0.0, max_tokens=5, top_logprobs=4)))
        out.append((prompt(1, 6), Params(temperature=1.0, seed=seed(), max_tokens=6,
                                         top_logprobs=0)))
        bias = [[int(t), float(np.float32(rng.normal(0, 4)))]
                for t in rng.integers(0, vocabulary, 12)]
        bias += [[int(t), None] for t in rng.integers(0, vocabulary, 4)]
        out.append((prompt(3, 12), Params(
            temperature=float(np.float32(rng.uniform(0.3, 2.5))), seed=seed(), max_tokens=6,
            top_k=int(rng.integers(0, 60)), top_p=float(np.float32(rng.uniform(0.3, 1))),
            min_p=float(np.float32(rng.choice([0, 0.01, 0.1]))),
            repetition=float(np.float32(rng.uniform(0.7, 1.6))),
            presence=float(np.float32(rng.uniform(-2, 2))),
            frequency=float(np.float32(rng.uniform(-2, 2))), bias=bias, top_logprobs=20)))
        share = min(60, vocabulary // 3)
        stop = [int(t) for t in rng.integers(0, vocabulary, share)]
        out.append((prompt(2, 8), Params(temperature=0.9, seed=seed(), max_tokens=8, stop=stop,
                                         repetition=1.3)))
        out.append((prompt(5, 30), Params(temperature=0.0, max_tokens=1,
                                          embedding=int(rng.integers(1, 65)))))
    return out


def run_tool(tool, path, requests):
    lines = [json.dumps({"prompt": prompt, **dataclasses.asdict(params)})
             for prompt, params in requests]
    done = subprocess.run([tool, path], input="\n".join(lines), capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip()
    return [json.loads(line) for line in done.stdout.splitlines()], ""


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def compare_hashes(theirs, ours, where, counts):
    """Both: {(boundary, position): hex}, those of failed positions included."""
    for (boundary, position), value in sorted(theirs.items(), key=lambda e: e[0][::-1]):
        if ours.get((boundary, position)) != value:
            raise Mismatch(f"{where}: position {position}, boundary {boundary}: hearth {value}, "
                           f"oracle {ours.get((boundary, position))}")
        counts.hashes += 1


def compare_tokens(theirs, ours, params, where, counts):
    generated = [t for t in theirs if t["finish"] != "error"]
    if len(generated) != len(ours.tokens):
        raise Mismatch(f"{where}: hearth gave {len(generated)} tokens, oracle {len(ours.tokens)}")
    for t, (position, token, finish, logprob, top) in zip(generated, ours.tokens):
        got = (t["position"], t["token"], t["finish"])
        if got != (position, token, finish or ""):
            raise Mismatch(f"{where}: position {position}: hearth {got}, oracle "
                           f"{(position, token, finish or '')}")
        counts.tokens += 1
        if params.top_logprobs is None:
            continue
        want = [[i, bits(p)] for i, p in top]
        if t["logprob"] != bits(logprob) or t["top"] != want:
            raise Mismatch(f"{where}: position {position}: log probabilities differ: hearth "
                           f"{t['logprob']} {t['top']}, oracle {bits(logprob)} {want}")
        counts.logprobs += 1 + len(want)


def compare_answer(answer, result, params, where, counts):
    failed = bool(answer["tokens"]) and answer["tokens"][-1]["finish"] == "error"
    if failed != (result.failed_at is not None):
        raise Mismatch(f"{where}: hearth {'fails' if failed else 'does not fail'}, oracle's first "
                       f"failed position is {result.failed_at}")
    counts.failures += failed
    theirs = {}
    for position, begin, end, h_in, h_out in answer["hashes"]:
        for place, value in (((begin, position), h_in), ((end, position), h_out)):
            if theirs.setdefault(place, value) != value:
                raise Mismatch(f"{where}: two stages of hearth disagree at {place}")
    compare_hashes(theirs, result.hashes, where, counts)
    compare_tokens(answer["tokens"], result, params, where, counts)
    ours = [] if result.embedding is None else [bits(value) for value in result.embedding]
    if answer["embedding"] != ours:
        raise Mismatch(f"{where}: the embeddings of {params.embedding} values differ")
    counts.embedded += len(ours)


@functools.cache
def kept(path):
    """The model of a file that stays as it is, read once: its tokenizer has 100,000 fields."""
    return model.Model(path)


def compare_model(tool, path, requests, name, counts, load=model.Model):
    answers, refusal = run_tool(tool, path, requests)
    if answers is None:
        raise Mismatch(f"{name}: hearth refuses the file or a request: {refusal}")
    loaded = load(path)
    counts.models += 1
    for index, ((prompt, params), answer) in enumerate(zip(requests, answers, strict=True)):
        counts.requests += 1
        result = model.generate(loaded, prompt, params)
        compare_answer(answer, result, params, f"{name}, request {index}", counts)


def compare_refusal(tool, path, name, counts):
    request = [([5], sampler.Params(max_tokens=1, temperature=0.0))]
    answers, refusal = run_tool(tool, path, request)
    try:
        model.generate(model.Model(path), *request[0])
        ours = False
    except arithmetic.NotCanonical:
        ours = True
    if answers is not None or not ours:
        raise Mismatch(f"{name}: hearth {'serves' if answers is not None else 'refuses'} it, the "
                       f"oracle {'refuses' if ours else 'serves'} it")
    if "blk.1.ffn_up" not in refusal:
        raise Mismatch(f"{name}: refused for another reason: {refusal}")
    counts.refusals += 1


def run_cli(hearth, path, text, params, stages, name):
    """`hearth run --local`: (token ids, hashes of {(boundary, position): hex})."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        words = [hearth, "run", "--local", "--raw", "--token-ids", "--ignore-eos", "--hashes",
                 file.name, "--stages", stages, "-n", params.max_tokens, "--temp",
                 params.temperature, "--top-k", params.top_k, "--top-p", params.top_p, "--min-p",
                 params.min_p, "--repeat-penalty", params.repetition, "--presence-penalty",
                 params.presence, "--frequency-penalty", params.frequency, "--seed", params.seed,
                 path, text]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        if done.returncode != 0:
            raise Mismatch(f"{name}: hearth run: {done.stderr.strip()}")
        found = {}
        for line in pathlib.Path(file.name).read_text().splitlines():
            line = json.loads(line)
            found[line["layers"][0], line["step"]] = line["in"]
            found[line["layers"][1], line["step"]] = line["out"]
    return [int(word) for word in done.stdout.split()], found


def prompt_of(found, generated, vocabulary, name):
    """The prompt's ids, from the hashes into the first stage: the tokenizer is no part of this."""
    ids = []
    for position in range(sum(boundary == 0 for boundary, _ in found) - generated + 1):
        ids += [t for t in range(vocabulary)
                if hashes.token_in(position, t) == found[0, position]]
        if len(ids) != position + 1:
            raise Mismatch(f"{name}: position {position}, boundary 0: the hash of no token")
    return ids


def compare_cli(hearth, path, text, params, stages, name, counts, load=model.Model):
    tokens, found = run_cli(hearth, path, text, params, stages, name)
    loaded = load(path)
    prompt = prompt_of(found, len(tokens), loaded.vocabulary, name)
    result = model.generate(loaded, prompt, params)
    counts.requests += 1
    compare_hashes(found, result.hashes, name, counts)
    if tokens != [t[1] for t in result.tokens]:
        raise Mismatch(f"{name}: hearth {tokens}, oracle {[t[1] for t in result.tokens]}")
    counts.tokens += len(tokens)


def run_cli_small(hearth, folder, counts):
    path = os.path.join(folder, "cli.gguf")
    small_models.write(path, Shape(layer_type="Q4_1", layers=4), 99)
    params = sampler.Params(temperature=0.8, top_k=40, top_p=0.95, min_p=0.02, repetition=1.1,
                            presence=0.2, frequency=0.1, seed=4242, max_tokens=12)
    compare_cli(hearth, path, PROMPT, params, 3, "hearth run", counts)


def run_cli_demo(hearth, path, counts):
    params = sampler.Params(temperature=0.8, top_k=40, top_p=0.95, seed=7, max_tokens=6)
    compare_cli(hearth, path, PROMPT, params, 4, "hearth run, demo model", counts, kept)


def run_file(tool, path, rounds, counts):
    """A real model: a prompt of 24 tokens and 8 generated ones, greedy; then sampled."""
    rng = np.random.default_rng(11)
    vocabulary = kept(path).vocabulary
    ids = [int(t) for t in rng.integers(0, vocabulary, 24)]
    requests = [(ids, sampler.Params(temperature=0.0, max_tokens=8, top_logprobs=2))]
    requests += requests_of(rng, vocabulary, rounds)[1:3]
    compare_model(tool, path, requests, pathlib.Path(path).name, counts, kept)


class HalfAway:
    """numpy whose rint rounds halves away from zero."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def rint(x):
        tie = np.abs(x - np.trunc(x)) == 0.5
        return np.where(tie, np.trunc(x) + np.sign(x), np.rint(x))


def round_half_away():
    quantise.np = HalfAway()


def grid_half_away():
    sys.modules["canonical.matmul"].np = HalfAway()


def split_fma():
    def split(a, b, c):
        return np.float32(1) * (np.multiply(a, b, dtype=np.float32) + c)

    for module in ("matmul", "elementwise", "attention"):
        sys.modules["canonical." + module].fma = split


def top_p_of_all():
    sampler._kept, kept = (lambda candidates, params: kept(
        candidates, dataclasses.replace(params, top_p=1.0))), sampler._kept


def first_angle():
    table = model.angles.table
    model.angles.table = lambda positions, *rest: table([p + (p == 7) for p in positions], *rest)


def expert_ties():
    experts.sorted = lambda items, key=None: sorted(
        items, key=(lambda e: (key(e)[0], -e)) if key else None)


def shared_gate():
    experts.shared_weight = lambda s: (np.float32(0.5) + 0 * s, ~np.isfinite(s))


def no_sinks():
    attention = model.attention
    model.attention = lambda *args: attention(*args[:6])


def unclamped():
    family = model.FAMILIES["gpt-oss"]
    model.FAMILIES["gpt-oss"] = dataclasses.replace(family, act=model.swiglu)


def untiled_heads():
    model.delta_net.Heads.key_heads = lambda heads: np.arange(heads.values) // (
        heads.values // heads.keys)


def no_decay():
    model.delta_net.softplus = lambda t: 0 * t


def rank_scales():
    quantise.factor = lambda exponent: np.ones(exponent.shape, np.float32)


PERTURBATIONS = {"rank-scales": rank_scales, "untiled-heads": untiled_heads, "no-decay": no_decay, "no-sinks": no_sinks, "unclamped": unclamped,
                 "expert-ties": expert_ties, "shared-gate": shared_gate,
                 "round-half-away": round_half_away, "grid-half-away": grid_half_away,
                 "split-fma": split_fma, "no-top-p": top_p_of_all, "angle": first_angle}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool")
    parser.add_argument("hearth")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--model", help="compare over this file alone")
    parser.add_argument("--perturb", choices=PERTURBATIONS)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def work(args, folder):
    """Yields (name, function of the counts)."""
    if args.model:
        yield args.model, lambda counts: run_file(args.tool, args.model, args.seeds, counts)
        return
    yield "grids as numpy reads them", lambda counts: compare_grids()
    for kind in LAYOUT:
        yield f"{kind} as numpy reads it", lambda counts, kind=kind: compare_weights(kind, counts)
    path = os.path.join(folder, "small.gguf")
    for seed in range(args.seeds):
        for index, (name, shape) in enumerate(small_cases().items()):
            def compare(counts, name=name, shape=shape, seed=1000 * seed + index):
                small_models.write(path, shape, seed)
                requests = requests_of(np.random.default_rng(seed), shape.vocabulary, 1)
                if shape.poison:
                    prompt = requests[0][0]
                    prompt[len(prompt) // 2] = shape.vocabulary // 2
                ranks = 1 + seed % 8 if shape.family in DIVIDED else 1
                compare_model(args.tool, path, requests, f"{name}, seed {seed}, {ranks} ranks",
                              counts, functools.partial(model.Model, ranks=ranks))
            yield name, compare
    for index, (name, shape) in enumerate(refused_cases().items()):
        def refuse(counts, name=name, shape=shape, index=index):
            small_models.write(path, shape, index)
            compare_refusal(args.tool, path, name, counts)
        yield name, refuse
    yield "hearth run", lambda counts: run_cli_small(args.hearth, folder, counts)
    demo = os.environ.get("HEARTH_DEMO_MODEL")
    if demo:
        yield "hearth run, demo model", lambda counts: run_cli_demo(args.hearth, demo, counts)
        yield "demo model", lambda counts: run_file(args.tool, demo, 1, counts)
    else:
        print("not run: HEARTH_DEMO_MODEL names no file")


def main():
    args = arguments()
    arithmetic.self_check()
    if args.perturb:
        PERTURBATIONS[args.perturb]()
    counts, mismatches = Counts(), []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for name, compare in work(args, folder):
            if args.only not in name:
                continue
            at = time.monotonic()
            try:
                compare(counts)
                verdict = "equal"
            except Mismatch as mismatch:
                mismatches.append(str(mismatch))
                verdict = f"MISMATCH {mismatch}"
            if args.verbose or verdict != "equal":
                print(f"{name}: {verdict} ({time.monotonic() - at:.1f} s)", flush=True)
    print(", ".join(f"{value} {name}" for name, value in dataclasses.asdict(counts).items()),
          f"compared in {time.monotonic() - begun:.0f} s; {len(mismatches)} mismatches")
    compared = counts.requests + counts.refusals + counts.weights
    return 1 if mismatches or compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

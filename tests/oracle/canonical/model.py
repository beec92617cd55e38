"""Section 12: a GGUF file to tokens and hashes."""

from dataclasses import dataclass

import gguf
import numpy as np

from . import angles, delta_net, experts, hashes, sampler
from .arithmetic import ATTENTION_MAX, F, NotCanonical
from .attention import attention, latent_attention
from .elementwise import (clamped_swiglu, geglu, residual, rms_norm, rope, softcap,
                          sum_of_squares, swiglu)
from .kv import KvCache, Latents, refused
from .matmul import product
from .quantise import Activations, joined
from .weights import matrix


@dataclass(frozen=True)
class Family:
    halves: bool
    biases: bool
    head_norms: bool
    post_norms: bool
    act: object  # of a gate and an up
    shift: int = 6
    to_one: bool = True
    shared: bool = False  # a shared expert with a gate
    routed: bool = False  # the file says how experts are chosen
    oss: bool = False  # what gpt-oss alone has
    pre_norms: bool = True
    fused: bool = False      # the gate's rows before those of ffn_up
    local: object = None     # of layer i: whether it sees a window alone
    unturned: object = None  # of layer i: whether RoPE leaves its heads alone
    delta: bool = False  # gated delta nets and gated attention


FAMILIES = {
    "llama": Family(False, False, False, False, swiglu),
    "qwen2": Family(True, True, False, False, swiglu),
    "qwen3": Family(True, False, True, False, swiglu),
    "gemma3": Family(True, False, True, True, geglu, local=lambda i: i % 6 != 5),
    "qwen2moe": Family(True, True, False, False, swiglu, to_one=False, shared=True),
    "qwen3moe": Family(True, False, True, False, swiglu),
    "olmo2": Family(True, False, True, True, swiglu, pre_norms=False, local=lambda i: i % 4 != 3),
    "granite": Family(False, False, False, False, swiglu),
    "granitemoe": Family(False, False, False, False, swiglu),
    "smollm3": Family(False, False, False, False, swiglu, unturned=lambda i: i % 4 == 3),
    "glm4": Family(False, True, False, True, swiglu, fused=True),
    "glm4moe": Family(True, True, True, False, swiglu, routed=True),
    "deepseek2": Family(False, False, False, False, swiglu, routed=True),
    "gemma2": Family(True, False, False, True, geglu, local=lambda i: i % 2 == 0),
    "gemma4": Family(True, False, True, True, geglu),
    "phi3": Family(True, False, False, False, swiglu, fused=True, local=lambda i: True),
    "mistral3": Family(False, False, False, False, swiglu),
    "gpt-oss": Family(True, True, False, False, clamped_swiglu, oss=True,
                      local=lambda i: i % 2 == 0),
    "llama4": Family(False, False, False, False, swiglu, to_one=False, local=lambda i: i % 4 != 3,
                     unturned=lambda i: i % 4 == 3),
    "qwen3next": Family(True, False, True, False, swiglu, shared=True, delta=True),
    "qwen35": Family(True, False, True, False, swiglu, delta=True),
    "qwen35moe": Family(True, False, True, False, swiglu, shared=True, delta=True),
}


class Model:
    def __init__(self, path, ranks=1):
        self.ranks = ranks  # that put the inputs of products together
        reader = gguf.GGUFReader(path)
        self.fields = {name: field for name, field in reader.fields.items()}
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.matrices = {}
        self.A = self.key("general.architecture", bare=True)
        self.family = FAMILIES[self.A]
        self.layers = self.key("block_count")
        self.hidden = self.key("embedding_length")
        self.vocabulary = int(self.tensors["token_embd.weight"].shape[1])
        self.context = self.key("context_length")
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv", self.heads)
        self.local = [bool(self.family.local and self.family.local(i))
                      for i in range(self.layers)]
        self.head_dim = self.key("attention.key_length", self.hidden // self.heads)
        self.latent = self.A == "deepseek2"
        if self.latent:
            self._read_latent()
        self.experts = self.key("expert_count", 0)
        self.experts_used = self.key("expert_used_count", 0)
        self.shared_width = self.key("expert_shared_feed_forward_length", 0) \
            if self.A == "granitemoe" else 0
        self.dense_layers = 0
        self.routing = experts.Routing(to_one=self.family.to_one)
        self.expert_every = 1
        if self.family.routed:
            self._read_routing()
        if self.A == "llama4":
            self.expert_every = self.key("interleave_moe_layer_step")
            self.shared_width = self.key("expert_feed_forward_length")
            self.routing = experts.Routing(sigmoid=True, to_one=False)
        self.delta = None
        if self.family.delta:
            self._read_delta_net()
        # Of each layer: (kv heads, head_dim).
        self.shapes = [(self.kv_heads, self.head_dim)] * self.layers
        self.source, self.input_width = list(range(self.layers)), 0
        if self.A == "gemma4":
            self._read_two_kinds()
        self.epsilon = F(self.key("attention.layer_norm_rms_epsilon"))
        scaled = self.hidden // self.heads if (self.A, self.layers) in (
            ("gemma3", 62), ("gemma2", 46)) else None
        self.plain_scale = F(1) / np.sqrt(F(scaled or self.head_dim))
        self.rotary = self.turned if self.latent else self.head_dim
        if self.A in ("glm4", "glm4moe", "phi3") or self.delta:
            self.rotary = self.key("rope.dimension_count", self.head_dim)
        self.trained = int(self.key("rope.scaling.original_context_length", self.context))
        self._read_scales()
        self._read_frequencies()

    def _read_two_kinds(self):
        self.local = [bool(x) for x in self.key("attention.sliding_window_pattern")]
        counts = self.kv_heads if isinstance(self.kv_heads, list) else \
            [self.kv_heads] * self.layers
        self.local_dim = self.key("attention.key_length_swa")
        self.input_width = self.key("embedding_length_per_layer_input", 0)
        own = self.layers - self.key("attention.shared_kv_layers", 0)
        self.source = [i if i < own else max(j for j in range(own)
                                             if self.local[j] == self.local[i])
                       for i in range(self.layers)]
        self.shapes = [(count, self.local_dim if local else self.head_dim)
                       for count, local in zip(counts, self.local)]

    def _read_latent(self):
        self.head_dim = self.key("attention.key_length_mla")
        self.value_dim = self.key("attention.value_length_mla")
        self.width = self.key("attention.kv_lora_rank")
        self.turned = self.key("rope.dimension_count")
        self.query_rank = self.key("attention.q_lora_rank", 0)

    def _read_routing(self):
        self.layers -= self.key("nextn_predict_layers", 0)
        self.dense_layers = self.key("leading_dense_block_count", 0)
        self.shared_width = self.key("expert_shared_count", 0)  # in experts
        biased = f"blk.{self.dense_layers}.exp_probs_b.bias" in self.tensors
        function = self.key("expert_gating_func", 0) or (2 if biased else 1)
        self.routing = experts.Routing(
            function == 2, bool(self.key("expert_weights_norm", False)),
            float(self.key("expert_weights_scale", 0.0)) or 1.0,
            self.key("expert_group_count", 1) or 1, self.key("expert_group_used_count", 1))

    def _read_delta_net(self):
        self.layers -= self.key("nextn_predict_layers", 0)
        self.every = self.key("full_attention_interval", 4)
        self.delta = delta_net.Heads(
            self.key("ssm.group_count"), self.key("ssm.time_step_rank"),
            self.key("ssm.state_size"), self.key("ssm.conv_kernel"), self.A != "qwen3next")

    def has_delta_net(self, i):
        return self.delta is not None and (i + 1) % self.every != 0

    def _read_scales(self):
        def scale(name, families, absent):
            return F(self.key(name, 0.0) if self.A in families else 0.0) or F(absent)
        granite = ("granite", "granitemoe")
        self.embedding_scale = scale("embedding_scale", granite, 1)
        if self.A in ("gemma2", "gemma3", "gemma4"):
            self.embedding_scale = np.sqrt(F(self.hidden))
        self.branch_scale = scale("residual_scale", granite, 1)
        self.plain_scale = scale("attention.scale", granite, self.plain_scale)
        self.logit_scale = F(1) / scale("logit_scale", granite, 1)
        self.score_cap = self.logit_cap = None
        if self.A == "gemma2":
            self.score_cap = scale("attn_logit_softcapping", ("gemma2",), 50)
            self.logit_cap = scale("final_logit_softcapping", ("gemma2",), 30)
        if self.A == "gemma4":
            self.plain_scale = F(1)
            self.logit_cap = F(self.key("final_logit_softcapping", 30.0)) or None
        self.temperature = float(self.key("attention.temperature_scale", 0.0)) \
            if self.A == "mistral3" else 0.0
        self.warm_length, self.ahead = self.trained, 0
        if self.A == "llama4":
            self.temperature = float(self.key("attention.temperature_scale", float(F(0.1))))
            self.warm_length = self.key("attention.temperature_length", 8192)
            self.ahead = 1

    def is_turned(self, i):
        return not (self.family.unturned and self.family.unturned(i))

    def score_scale(self, i, position):
        if not self.temperature or (self.A == "llama4" and self.is_turned(i)):
            return self.plain_scale
        spans = float(1 + (position + self.ahead) // self.warm_length)
        return self.plain_scale * F(1.0 + self.temperature * angles.ln(spans))

    def key(self, name, default=None, bare=False):
        field = self.fields.get(name if bare else f"{self.A}.{name}")
        if field is None:
            if default is None:
                raise NotCanonical(f"key {name} is missing")
            return default
        return field.contents()

    def _read_frequencies(self):
        gemma = self.A in ("gemma3", "gemma4")
        base = float(self.key("rope.freq_base", 1000000.0 if gemma else 10000.0))
        stretch = 1.0
        scale, yarn, kind = 1.0, None, self.key("rope.scaling.type", "linear")
        self.magnitude = float(self.key("rope.scaling.attn_factor", 1.0))
        if kind in ("linear", "yarn"):
            factor = self.key("rope.scaling.factor", self.key("rope.scale_linear", 0.0))
            scale = float(factor) or 1.0
        if kind == "yarn":
            yarn = angles.Yarn(
                self.trained, float(self.key("rope.scaling.yarn_beta_fast", 32.0)),
                float(self.key("rope.scaling.yarn_beta_slow", 1.0)))
            multiplier = float(self.key("rope.scaling.yarn_log_multiplier", 0.0))
            if self.latent:
                stretch = 1.0 + multiplier * angles.ln(scale) if scale > 1 else 1.0
            else:
                self.magnitude = angles.yarn_magnitude(scale, multiplier) * self.magnitude
        m = stretch * self.magnitude
        if self.latent and m != 1.0:
            self.plain_scale = self.plain_scale * F(m * m)
        name = "rope_freqs.weight"
        if self.A == "phi3":
            kind = "long" if self.context > self.trained else "short"
            name = f"rope_factors_{kind}.weight"
        factors = self.vector(name) if name in self.tensors else None
        self.frequencies = angles.frequencies(self.rotary, base, factors, scale, yarn)
        absent = {"gemma2": 4096, "llama4": 8192}.get(self.A, 0)
        self.window = self.key("attention.sliding_window", absent)
        self.local_frequencies, self.local_magnitude = self.frequencies, self.magnitude
        local = float(self.key("rope.freq_base_swa", 10000.0 if gemma else base))
        if gemma or self.A == "olmo2":
            width = self.local_dim if self.A == "gemma4" else self.rotary
            self.local_frequencies = angles.frequencies(width, local)
            self.local_magnitude = 1.0
        elif local != base:
            self.local_frequencies = angles.frequencies(self.rotary, local, factors, scale, yarn)

    def vector(self, name):
        tensor = self.tensors[name]
        if tensor.tensor_type.name != "F32":
            raise NotCanonical(f"{name} is not F32")
        return np.asarray(tensor.data, F).reshape(-1)

    def rows(self, name, begin, end):
        """Some rows of the tensor, as a matrix of their own."""
        if (name, begin, end) not in self.matrices:
            tensor = self.tensors[name]
            raw = np.ascontiguousarray(tensor.data).view(np.uint8)
            raw = raw.reshape(int(tensor.shape[1]), -1)[begin:end]
            self.matrices[name, begin, end] = matrix(tensor.tensor_type.name, raw)
        return self.matrices[name, begin, end]

    def weights(self, name, expert=0):
        """The tensor's matrix, or of one that holds several the one of this expert."""
        if (name, expert) not in self.matrices:
            tensor = self.tensors[name]
            shape = [int(n) for n in tensor.shape] + [1, 1]
            rows, count = shape[1], shape[2]
            raw = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8)
            raw = raw.reshape(count, rows, -1)[expert]
            self.matrices[name, expert] = matrix(tensor.tensor_type.name, raw)
        return self.matrices[name, expert]

    def head(self):
        return self.weights("output.weight" if "output.weight" in self.tensors
                            else "token_embd.weight")


class Sequence:
    """One sequence over a model: feed() tokens, sample() after the last one."""

    def __init__(self, model):
        self.model = model
        self.kv = [self._kept(i) for i in range(model.layers)]
        self.tokens = []
        self.hashes = {}  # (boundary, position) -> hex
        self.failed_at = None  # the first position that failed
        self.last = None

    def _kept(self, i):
        model = self.model
        if model.has_delta_net(i):
            return delta_net.State(model.delta)
        if model.latent:
            return Latents(model.width + model.turned)
        return KvCache(*model.shapes[i])

    def feed(self, tokens):
        model, begin = self.model, len(self.tokens)
        positions = np.arange(begin, begin + len(tokens))
        self.tokens += tokens
        self.failed = np.zeros(len(tokens), bool)
        v = model.weights("token_embd.weight").dequantised(np.array(tokens))
        v = v * model.embedding_scale
        x, h = self._residual(v)
        self.inputs = self._layer_inputs(x, tokens) if model.input_width else None
        for position, token in zip(positions, tokens):
            self.hashes[0, int(position)] = hashes.token_in(int(position), token)
        tables = {True: angles.table(positions, model.local_frequencies, model.local_magnitude),
                  False: angles.table(positions, model.frequencies, model.magnitude)}
        for i in range(model.layers):
            x, h = self._layer(i, x, positions, tables)
            for row, position in enumerate(positions):
                if i + 1 < model.layers:
                    at = int(position)
                    self.hashes[i + 1, at] = hashes.boundary(i + 1, at, h[row])
        for position in positions:
            self.hashes[model.layers, int(position)] = hashes.token_out(int(position), None)
        if self.failed.any() and self.failed_at is None:
            self.failed_at = begin + int(np.argmax(self.failed))
        self.last = x[-1:]

    def logits(self):
        model = self.model
        y, failed = rms_norm(self.last, model.vector("output_norm.weight"), model.epsilon)
        a = Activations(y)
        if failed[0] or a.failed[0]:
            raise NotCanonical("the last norm failed")
        y = product(model.head(), a)[0] * model.logit_scale
        return y if model.logit_cap is None else softcap(y, model.logit_cap)

    def embedding(self, values):
        """Section 10b, after the prompt's last token."""
        y, failed = rms_norm(self.last, self.model.vector("output_norm.weight"),
                             self.model.epsilon)
        y = y[0, :values]
        s = sum_of_squares(y)
        if failed[0] or not np.isfinite(s) or s == 0:
            raise NotCanonical("the embedding failed")
        return y / np.sqrt(s)

    def _layer_inputs(self, x, tokens):
        """gemma4's of all layers: (tokens, layers, width)"""
        model = self.model
        shape = (len(tokens), model.layers, model.input_width)
        e, = self._project(["per_layer_model_proj.weight"], x)
        e = (e * (F(1) / np.sqrt(F(model.hidden)))).reshape(shape)
        e = self._norm(e, "per_layer_proj_norm.weight")
        t = model.weights("per_layer_token_embd.weight").dequantised(np.array(tokens))
        p = e + t.reshape(shape) * np.sqrt(F(model.input_width))
        return p * (F(1) / np.sqrt(F(2)))

    def _fail(self, failed):
        self.failed |= failed

    def _residual(self, x):
        """At the end of the embedding and of every layer: a failure takes all later positions."""
        h, x, failed = residual(x, self.model.family.shift)
        self.failed = np.logical_or.accumulate(self.failed | failed)
        x[self.failed], h[self.failed] = 0, 0
        return x, h

    def _norm(self, x, name):
        return self._norm_by(x, self.model.vector(name))

    def _norm_by(self, x, weights):
        y, failed = rms_norm(x, weights, self.model.epsilon)
        self._fail(failed.reshape(len(x), -1).any(axis=1))
        return y

    def _project(self, names, x, expert=0, rows=slice(None)):
        a = joined(x, self.model.ranks)
        self.failed[rows] |= a.failed
        return [product(self.model.weights(name, expert), a) for name in names]

    def _layer(self, i, x, positions, tables):
        family, blk, scale = self.model.family, f"blk.{i}.", self.model.branch_scale
        a = self._norm(x, blk + "attn_norm.weight") if family.pre_norms else x
        y = self._attention(i, a, positions, tables)
        if family.post_norms:
            y = self._norm(y, blk + "post_attention_norm.weight")
        x = x + y * scale
        named = family.oss or self.model.A == "glm4moe" or family.delta
        norm = blk + ("post_attention_norm.weight" if named else "ffn_norm.weight")
        f = self._norm(x, norm) if family.pre_norms else x
        mixed = self.model.experts and i >= self.model.dense_layers and \
            (i + 1) % self.model.expert_every == 0
        if mixed and self.model.A == "gemma4":
            y = self._beside(blk, x, f)
        else:
            y = self._experts(blk, f) if mixed else self._feed_forward(blk, "", f)
        if family.post_norms:
            y = self._norm(y, blk + "post_ffw_norm.weight")
        x = x + y * scale
        if self.inputs is not None:
            gate, = self._project([blk + "inp_gate.weight"], x)
            z, = self._project([blk + "proj.weight"], geglu(gate, self.inputs[:, i]))
            x = x + self._norm(z, blk + "post_norm.weight")
        if self.model.A == "gemma4" and blk + "layer_output_scale.weight" in self.model.tensors:
            x = x * self.model.vector(blk + "layer_output_scale.weight")[0]
        return self._residual(x)

    def _beside(self, blk, x, f):
        """gemma4's experts, and the feed-forward beside them."""
        c = F(1) / np.sqrt(F(self.model.hidden))
        routed = self._norm_by(x, self.model.vector(blk + "ffn_gate_inp.scale") * c)
        y = self._experts(blk, self._norm(x, blk + "pre_ffw_norm_2.weight"), routed,
                          self.model.vector(blk + "ffn_down_exps.scale"))
        y = self._norm(y, blk + "post_ffw_norm_2.weight")
        beside = self._feed_forward(blk, "", f)
        return y + self._norm(beside, blk + "post_ffw_norm_1.weight")

    def _project_rows(self, name, sizes, x):
        """As many products, of the tensor's rows one after the other."""
        a = Activations(x)
        self.failed |= a.failed
        ends = np.cumsum(sizes)
        return [product(self.model.rows(name, int(end - size), int(end)), a)
                for size, end in zip(sizes, ends)]

    def _feed_forward(self, blk, kind, f, expert=0, rows=slice(None), given=None):
        """given: what the products of f are multiplied by (rows), or None"""
        gate, up = (f"{blk}ffn_{part}{kind}.weight" for part in ("gate", "up"))
        if kind == "_exps" and f"{blk}ffn_gate_up_exps.weight" in self.model.tensors:
            both, = self._project([f"{blk}ffn_gate_up_exps.weight"], f, expert, rows)
            gate, up = np.split(both, 2, axis=1)
        elif self.model.family.fused:
            width = self.model.key("feed_forward_length")
            gate, up = self._project_rows(up, (width, width), f)
        else:
            gate, up = self._project([gate, up], f, expert, rows)
        gate = self._biased(gate, f"{blk}ffn_gate{kind}", expert)
        up = self._biased(up, f"{blk}ffn_up{kind}", expert)
        if given is not None:
            gate, up = gate * given[:, None], up * given[:, None]
        middle = self.model.family.act(gate, up)
        y = self._project([f"{blk}ffn_down{kind}.weight"], middle, expert, rows)[0]
        return self._biased(y, f"{blk}ffn_down{kind}", expert)

    def _biased(self, y, name, expert=0):
        """y plus the expert's row of the tensor's biases, where the family has any."""
        if not self.model.family.oss:
            return y
        return y + self.model.vector(name + ".bias").reshape(-1, y.shape[-1])[expert]

    def _experts(self, blk, f, routed=None, scales=None):
        """routed: what the router reads, where it is not f; scales: of the experts' weights"""
        model, family = self.model, self.model.family
        logits, = self._project([blk + "ffn_gate_inp.weight"], f if routed is None else routed)
        logits = self._biased(logits, blk + "ffn_gate_inp")
        name = blk + "exp_probs_b.bias"
        bias = model.vector(name) if name in model.tensors else None
        chosen, w, failed = experts.choose(logits, model.experts_used, model.routing, bias)
        self._fail(failed)
        if scales is not None:
            w = w * scales[chosen]
        total = experts.Sum(*f.shape)
        for expert in range(model.experts):
            rows, places = np.nonzero(chosen == expert)
            if len(rows):
                own, given = w[rows, places], None
                if model.A == "llama4":
                    own, given = np.ones_like(own), own
                y = self._feed_forward(blk, "_exps", f[rows], expert, rows, given)
                total.add(rows, own, y)
        w = None
        if family.shared:
            s, = self._project([blk + "ffn_gate_inp_shexp.weight"], f)
            w, failed = experts.shared_weight(s[:, 0])
            self._fail(failed)
        elif model.shared_width:
            w = np.ones(len(f), F)
        if w is not None:
            total.add(np.arange(len(f)), w, self._feed_forward(blk, "_shexp", f))
        self._fail(total.failed)
        return total.outputs()

    def _latent_attention(self, i, a, positions, tables):
        model, blk, tokens = self.model, f"blk.{i}.", len(a)
        if model.query_rank:
            z, q = self._project([blk + "attn_kv_a_mqa.weight", blk + "attn_q_a.weight"], a)
            q = self._norm(q, blk + "attn_q_a_norm.weight")
            q, = self._project([blk + "attn_q_b.weight"], q)
        else:
            z, q = self._project([blk + "attn_kv_a_mqa.weight", blk + "attn_q.weight"], a)
        q = q.reshape(tokens, model.heads, model.head_dim)
        plain = model.head_dim - model.turned
        q_turned = rope(q[..., plain:], *tables[False], False)
        row = self._norm(z[:, :model.width], blk + "attn_kv_a_norm.weight")
        z_turned = rope(z[:, None, model.width:], *tables[False], False)[:, 0]
        self._fail(self.kv[i].append(np.concatenate([row, z_turned], axis=1)))
        u = np.zeros((tokens, model.heads, model.width), F)
        queries = np.empty((tokens, model.heads, model.width + model.turned), F)
        for j in range(model.heads):
            inner, = self._project([blk + "attn_k_b.weight"], q[:, j, :plain], j)
            queries[:, j] = np.concatenate([inner, q_turned[:, j]], axis=1)
        self._fail(refused(queries))
        queries = np.where(self.failed[:, None, None], F(0), queries)
        for t, position in enumerate(positions):
            u[t] = latent_attention(queries[t], self.kv[i], int(position) + 1, model.width,
                                    model.score_scale(i, int(position)))
        o = [self._project([blk + "attn_v_b.weight"], u[:, j], j)[0] for j in range(model.heads)]
        return self._project([blk + "attn_output.weight"], np.concatenate(o, axis=1))[0]

    def _delta_inputs(self, blk, a):
        """m (tokens, C), z (tokens, V, d), b and t (tokens, V) without its bias"""
        model, heads, tokens = self.model, self.model.delta, len(a)
        each, d = heads.values // heads.keys, heads.width
        if blk + "ssm_in.weight" in model.tensors:
            y, = self._project([blk + "ssm_in.weight"], a)
            y = y.reshape(tokens, heads.keys, -1)
            parts = np.split(y, np.cumsum([d, d, d * each]), axis=2)
            q, k, v, z = (part.reshape(tokens, -1) for part in parts)
            m = np.concatenate([q, k, v], axis=1)
        else:
            m, z = self._project([blk + "attn_qkv.weight", blk + "attn_gate.weight"], a)
        if model.A == "qwen3next":
            y, = self._project([blk + "ssm_ba.weight"], a)
            y = y.reshape(tokens, heads.keys, 2, each)
            b, t = y[:, :, 0].reshape(tokens, -1), y[:, :, 1].reshape(tokens, -1)
        else:
            b, t = self._project([blk + "ssm_beta.weight", blk + "ssm_alpha.weight"], a)
        return m, z.reshape(tokens, heads.values, d), b, t

    def _delta_net(self, i, a):
        model, blk = self.model, f"blk.{i}."
        m, z, b, t = self._delta_inputs(blk, a)
        t = t + model.vector(blk + "ssm_dt.bias")
        taps = model.vector(blk + "ssm_conv1d.weight").reshape(-1, model.delta.taps)
        A, norm = model.vector(blk + "ssm_a"), model.vector(blk + "ssm_norm.weight")
        o = np.zeros((len(a), model.delta.values * model.delta.width), F)
        for row in range(len(a)):
            y, failed = self.kv[i].step(m[row], b[row], t[row], z[row], taps, A, norm,
                                        model.epsilon)
            o[row] = y.reshape(-1)
            self.failed[row] |= failed
        return self._project([blk + "ssm_out.weight"], o)[0]

    def _attention(self, i, a, positions, tables):
        if self.model.latent:
            return self._latent_attention(i, a, positions, tables)
        if self.model.has_delta_net(i):
            return self._delta_net(i, a)
        model, family, blk = self.model, self.model.family, f"blk.{i}."
        kv_heads, head_dim = model.shapes[i]
        parts = ("q", "k", "v")
        keeps = model.source[i] == i
        if not keeps:
            q, = self._project([blk + "attn_q.weight"], a)
            k = v = np.zeros((len(a), kv_heads * head_dim), F)
        elif model.A == "gemma4" and blk + "attn_v.weight" not in model.tensors:
            q, k = self._project([f"{blk}attn_{part}.weight" for part in "qk"], a)
            v = k
        elif model.A == "phi3":
            sizes = [n * model.head_dim for n in (model.heads, model.kv_heads, model.kv_heads)]
            q, k, v = self._project_rows(blk + "attn_qkv.weight", sizes, a)
        else:
            q, k, v = self._project([f"{blk}attn_{part}.weight" for part in parts], a)
        if family.biases and blk + "attn_q.bias" in model.tensors:
            q, k, v = (y + model.vector(f"{blk}attn_{part}.bias")
                       for part, y in zip(parts, (q, k, v)))
        if family.head_norms and model.A == "olmo2":
            q = self._norm(q, blk + "attn_q_norm.weight")
            k = self._norm(k, blk + "attn_k_norm.weight")
        if family.delta:
            q, gate = np.split(q.reshape(len(a), model.heads, -1), 2, axis=2)
            self._fail(~np.isfinite(gate).all(axis=(1, 2)))
        q = q.reshape(len(a), model.heads, head_dim)
        k, v = (y.reshape(len(a), kv_heads, head_dim) for y in (k, v))
        if family.head_norms and model.A != "olmo2" and blk + "attn_q_norm.weight" in model.tensors:
            q = self._norm(q, blk + "attn_q_norm.weight")
            k = self._norm(k, blk + "attn_k_norm.weight") if keeps else k
        if model.A == "gemma4" and keeps:
            v = self._norm_by(v, np.ones(head_dim, F))
        if model.A == "llama4" and model.is_turned(i) and model.experts != 128:
            q, k = (self._norm_by(y, np.ones(head_dim, F)) for y in (q, k))
        local = bool(model.window and model.local[i])
        if model.is_turned(i):
            q, k = (rope(y, *tables[local], family.halves) for y in (q, k))
        if keeps:
            self._fail(self.kv[i].append(k, v))
        self._fail(refused(q))
        sinks = model.vector(blk + "attn_sinks.weight") if family.oss else None
        if sinks is not None and not (np.abs(sinks) <= ATTENTION_MAX).all():
            self._fail(np.ones(len(a), bool))
            sinks = np.zeros_like(sinks)
        q = np.where(self.failed[:, None, None], F(0), q)
        o = np.empty((len(a), model.heads * head_dim), F)
        for row, position in enumerate(positions):
            begin = max(0, int(position) + 1 - model.window) if local else 0
            if local and model.A == "llama4":
                begin = int(position) - int(position) % model.window
            o[row] = attention(q[row], self.kv[model.source[i]], begin, int(position) + 1,
                               model.score_scale(i, int(position)), model.score_cap,
                               sinks).reshape(-1)
        if family.delta:
            o = o * delta_net.sigmoid(gate).reshape(len(a), -1)
        return self._biased(self._project([blk + "attn_output.weight"], o)[0], blk + "attn_output")


@dataclass
class Result:
    tokens: list  # (position, token, finish or None, logprob, [(alternative, its)])
    hashes: dict
    failed_at: object  # position of the first failed row, or None
    embedding: object = None  # of the prompt, where one is wanted


def generate(model, prompt, params):
    """Runs one request to its end."""
    sequence = Sequence(model)
    out, feed, embedding = [], list(prompt), None
    with np.errstate(all="ignore"):
        while True:
            sequence.feed(feed)
            if sequence.failed_at is not None:
                return Result(out, sequence.hashes, sequence.failed_at)
            row = len(sequence.tokens) - 1
            try:
                if params.embedding and not out:
                    embedding = sequence.embedding(params.embedding)
                logits = sequence.logits()
                token = sampler.sample(logits, params, sequence.tokens, len(prompt))
            except NotCanonical:
                return Result(out, sequence.hashes, row, embedding)
            sequence.hashes[model.layers, row] = hashes.token_out(row, token)
            logprob, top = None, []
            if params.top_logprobs is not None:
                logprob, top = sampler.log_probabilities(logits, token, params.top_logprobs)
            end = sampler.finish(token, params, len(out) + 1, row + 1, model.context)
            out.append((row + 1, token, end, logprob, top))
            if end:
                return Result(out, sequence.hashes, None, embedding)
            feed = [token]

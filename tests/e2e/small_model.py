"""Models made of the demo model, for tests that need its vocabulary and not its words."""

import re

import gguf
import numpy as np

FAMILY = "llama"


def _write_keys(writer, reader, changes):
    changes = dict(changes)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, field.contents())
        else:
            writer.add_key_value(name, changes.pop(name, field.contents()), kind)
    assert not changes, f"{changes} are no keys of the file"


def _close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def first_layers(source, path, layers):
    """Writes the first layers of the GGUF file `source`, with its vocabulary and its output."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, FAMILY)
    _write_keys(writer, reader, {f"{FAMILY}.block_count": layers})
    for tensor in reader.tensors:
        of_layer = re.match(r"blk\.(\d+)\.", tensor.name)
        if not of_layer or int(of_layer[1]) < layers:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    _close(writer)


# Of a scripted model.
WIDTH = 256
HEADS = 4
PEAK = 60.0  # logits of the next token; those of others are below two thirds of it
# What comes where the script says nothing, in this order as far as a mask lets it: an end.
ENDS = {"<|im_end|>": 0.95, '"': 0.9, "}": 0.85, "]": 0.8, ",": 0.75, "\n": 0.7}
# ChatML, and a prompt that begins a thought.
THINKS = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
          "message['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}")


def words(text):
    """The tokens of plain words."""
    first, *rest = text.split()
    return [first] + [" " + each for each in rest]


def script(source, path, says, layers=3, template=None):
    """Writes a model that says the tokens `says` of the vocabulary of the GGUF file `source`, and
    ends. It looks at the last token alone: after a newline comes the first, after each the next
    one. Nothing that its layers compute reaches its output."""
    reader = gguf.GGUFReader(source)
    ids = {text: i for i, text in enumerate(reader.fields["tokenizer.ggml.tokens"].contents())}

    def token(text):  # in GPT-2's letters
        return ids[text.replace(" ", "\u0120").replace("\n", "\u010a")]

    chain = [token(text) for text in ["\n", *says]]
    assert len(set(chain)) == len(chain), "what follows a token is one thing"
    rng = np.random.default_rng(1)
    embedding = rng.choice(np.array([-1, 1], np.float32), (len(ids), WIDTH))
    embedding[:, 0] = 1
    output = np.zeros_like(embedding)
    for text, share in ENDS.items():
        output[token(text), 0] = 0.75 * PEAK * share
    for here, following in zip(chain, chain[1:] + [token("<|im_end|>")]):
        output[following, 1:] += embedding[here, 1:] * 1.5 * PEAK / WIDTH
    writer = gguf.GGUFWriter(path, FAMILY)
    changes = {"block_count": layers, "embedding_length": WIDTH, "feed_forward_length": WIDTH,
               "attention.head_count": HEADS, "attention.head_count_kv": HEADS}
    changes = {f"{FAMILY}.{key}": value for key, value in changes.items()}
    if template:
        changes["tokenizer.chat_template"] = template
    _write_keys(writer, reader, changes)
    writer.add_tensor("token_embd.weight", embedding.astype(np.float16))
    writer.add_tensor("output.weight", output.astype(np.float16))
    ones = np.ones(WIDTH, np.float32)
    zeros = np.zeros((WIDTH, WIDTH), np.float16)
    writer.add_tensor("output_norm.weight", ones)
    for i in range(layers):
        for part in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{part}.weight", ones)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            writer.add_tensor(f"blk.{i}.{part}.weight", zeros)
    _close(writer)

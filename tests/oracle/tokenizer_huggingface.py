"""Compares tokenize_tool with the `tokenizers` package on random and natural texts.

Usage: tokenizer_huggingface.py TOOL; HEARTH_DEMO_MODEL names the demo model's file. Where
HEARTH_LLAMACPP_SOURCE is set, the vocabularies of other families in it are compared too.
Exit 77: not run.
"""

import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from gguf_metadata import metadata

SEED = 20
RANDOM_TEXTS = 660  # of each of four kinds
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + TAIL
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def o200k_letters(upper, lower):
    return "|".join(rf"[^\r\n\p{{L}}\p{{N}}]?{letters}{CONTRACTIONS}?"
                    for letters in (f"{upper}*{lower}+", f"{upper}+{lower}*"))


O200K = o200k_letters(UPPER, LOWER) + \
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Of tokenization_kimi.py.
KIMI = r"[\p{Han}]+|" + \
    o200k_letters(*(letters[:-1] + r"&&[^\p{Han}]]" for letters in (UPPER, LOWER))) + \
    r"|\p{N}{1,3}|" + TAIL
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + TAIL

NATURAL = [
    "The quick brown fox jumps over 13 lazy dogs; it's what they'd do, isn't it?",
    "Größe, Straße, Äpfel – »Zitat« und 1.234,56 €.",
    "Où est la bibliothèque? C'est l'été, qu'ils disent, à 37 °C.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "人々は〇二、a々b ⺀c!⺀ 中文English混排ABC中 〡〢〣 𠀀𰀀 﨎",
    "我能吞下玻璃而不伤身体。今天是2024年1月1日，星期一。",
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
    "다람쥐 헌 쳇바퀴에 타고파. 가나다라 123 마바사",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ١٢٣٤٥",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश ०१२३",
    "นายสังฆภัณฑ์ เฮงพิทักษ์ฝั่ง ผู้เฒ่าซึ่งมีอาชีพเป็นฅนขายฃวด",
    "👩‍👩‍👧‍👦 family, 🇩🇪🇫🇷 flags, 👍🏽 skin, ❤️‍🔥, 1️⃣2️⃣",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];  // dot\n}\n\n\n",
    "{\"key\": [1, 2.5e-10, null, true], \"π\": 3.14159265358979}",
    "    indented\n        more\n\t\ttabs\r\n\r\nCRLF \n \n  \n",
    "e\u0301 vs \u00e9, \u200b\u200d\ufeff zero width, \u00a0\u3000\u2003 spaces",
    "<|im_start|>user\nhi<|im_end|>", "<|endoftext|>", "</s><s><unk>", "'S 'RE 'Ll 'x ''s",
]
FRAGMENTS = [" ", "  ", "   ", "\n", "\r\n", "\t", "'", "'s", "'LL", "1", "12", "345", "٣", "Ⅷ", "²",
             "a", "Hello", " world", "ß", "語", "々", "〇", "⼀", "é", "e\u0301", "👍", "👩‍💻",
             "\u200d", "\ufe0f", ".", "...", "!?", "(", ")", "{", "$", "+", "=", "<|", "|>", "_", "\u00a0", "\u3000",
             "\u0085", "\u2028", "the", "The", "THE", "ing", "\x00", "\x7f", "\U0010ffff"]


def texts():
    """Texts that are the same in every run."""
    rng = random.Random(SEED)
    assigned = [chr(c) for c in range(0x110000)
                if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    found = list(NATURAL)
    for source in ("argparse", "typing", "textwrap", "html.entities"):
        module = __import__(source, fromlist=["x"])
        lines = pathlib.Path(module.__file__).read_text().splitlines(keepends=True)
        found += ["".join(lines[i:i + 12]) for i in range(0, len(lines), 12)]
    for _ in range(RANDOM_TEXTS):
        found.append("".join(rng.choice(FRAGMENTS) for _ in range(rng.randrange(1, 40))))
        found.append("".join(rng.choice(assigned) for _ in range(rng.randrange(1, 30))))
        found.append("".join(rng.choice(rng.choice(NATURAL)) for _ in range(rng.randrange(1, 60))))
        words = rng.choice(NATURAL).split()
        rng.shuffle(words)
        found.append(rng.choice([" ", "  ", "\n", ""]).join(words))
    return found


def build(meta):
    """The family's published tokenizer, from the file's vocabulary and merges."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

    def split(pattern):
        return [pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]

    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    steps = {
        "smollm": [pre_tokenizers.Digits(individual_digits=True), gpt2],
        "gpt-2": [gpt2], "llama-bpe": split(LLAMA3), "qwen2": split(QWEN2),
        "gpt-4o": split(O200K), "kimi-k2": split(KIMI),
    }[meta["pre"]]
    vocabulary = {text: id for id, text in enumerate(meta["tokens"])}
    merges = [tuple(merge.split(" ")) for merge in meta["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges,
                                     ignore_merges=meta["pre"] == "llama-bpe"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    control = [text for text, kind in zip(meta["tokens"], meta["token_type"]) if kind == 3]
    parsing = Tokenizer.from_str(tokenizer.to_str())
    parsing.add_special_tokens([AddedToken(text, normalized=False) for text in control])
    return tokenizer, parsing, control


def renamed(path, pre, folder):
    """The file's vocabulary in one whose words are cut in another way."""
    import gguf

    meta = metadata(path, "tokenizer.ggml.")
    out = f"{folder}/{pre}.gguf"
    writer = gguf.GGUFWriter(out, "qwen2")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(meta["tokens"])
    writer.add_token_types(meta["token_type"])
    writer.add_token_merges(meta["merges"])
    writer.add_eos_token_id(meta["eos_token_id"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def ours(tool, path, mode, inputs):
    encoded = [text.encode() for text in inputs]
    records = b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    done = subprocess.run([tool, path, mode], input=records, capture_output=True, check=True)
    return [[int(id) for id in line.split()] for line in done.stdout.decode().split("\n")[:-1]]


def lacking(vocabulary):
    """Bytes that are no entry. What stands for them is our own choice: tokenizers drops them."""
    from tokenizers.pre_tokenizers import ByteLevel

    def printable(byte):
        if byte < 0x80:
            return ByteLevel(add_prefix_space=False).pre_tokenize_str(chr(byte))[0][0]
        other = [b for b in range(256) if not (0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE)]
        return chr(256 + other.index(byte)) if byte in other else chr(byte)

    return {byte for byte in range(256) if printable(byte) not in vocabulary}


def compare(tool, path):
    meta = metadata(path, "tokenizer.ggml.")
    plain, parsing, control = build(meta)
    lost = lacking(set(meta["tokens"]))
    inputs = [text for text in texts() if not lost & set(text.encode())]
    print(f"{pathlib.Path(path).name}: no entry for the bytes {sorted(map(hex, lost))}")
    rng = random.Random(SEED)
    marked = ["".join(part for word in text.split(" ") for part in (word, rng.choice(control), " "))
              for text in inputs[:1500]]
    # "</s>" ends a generation wherever it is an entry, as in llama.cpp; Qwen's is a plain one.
    marked = [text for text in marked if "</s>" not in text]
    wrong = 0
    for mode, oracle, batch in (("text", plain, inputs), ("parse", parsing, marked)):
        got = ours(tool, path, mode, batch)
        want = [encoding.ids for encoding in oracle.encode_batch(batch, add_special_tokens=False)]
        assert len(got) == len(want) == len(batch)
        differ = [i for i in range(len(batch)) if got[i] != want[i]]
        for i in differ[:10]:
            print(f"{batch[i]!r}\n  tokenizers {want[i]}\n  hearth     {got[i]}")
        wrong += len(differ)
        print(f"{pathlib.Path(path).name}, {mode}: {len(batch) - len(differ)} of {len(batch)} "
              f"texts have the ids of tokenizers")
    return wrong


def main():
    demo = os.environ.get("HEARTH_DEMO_MODEL", "")
    if not demo:
        print("not run: HEARTH_DEMO_MODEL names no file")
        return 77
    try:
        import gguf  # noqa: F401
        import tokenizers  # noqa: F401
    except ImportError as missing:
        print(f"not run: {missing}")
        return 77
    paths = [demo]
    source = os.environ.get("HEARTH_LLAMACPP_SOURCE", "")
    if source:
        names = ("gpt-2", "llama-bpe", "qwen2")
        paths += [f"{source}/models/ggml-vocab-{name}.gguf" for name in names]
    with tempfile.TemporaryDirectory() as folder:
        if source:  # no vocabularies of these are at hand; how they cut words is their expressions'
            paths += [renamed(f"{source}/models/ggml-vocab-qwen2.gguf", pre, folder)
                      for pre in ("gpt-4o", "kimi-k2")]
        return 1 if sum(compare(sys.argv[1], path) for path in paths) else 0


if __name__ == "__main__":
    sys.exit(main())

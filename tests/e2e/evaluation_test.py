"""lm-evaluation-harness, unmodified, scores the demo model through a swarm of three workers: by the
log probabilities of a prompt (echo with logprobs), and by what is generated. HEARTH_EVALUATION_PYTHON
is a Python with the packages of evaluation.txt. The questions are below: nothing is fetched.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import swarm

# Each with the answer first; a model of this size knows them.
QUESTIONS = [
    ("One, two, three, four,", [" five", " walrus", " table"]),
    ("Monday, Tuesday, Wednesday,", [" Thursday", " carrots", " seven"]),
    ("The capital of France is", [" Paris", " shoes", " jumping"]),
    ("The opposite of hot is", [" cold", " twelve", " bicycle"]),
    ("A dog is an", [" animal", " purple", " swims"]),
    ("She opened the door and walked", [" into", " green", " seventh"]),
    ("The sun rises in the", [" east", " spoon", " quickly"]),
    ("Two plus two is equal to", [" four", " music", " tables"]),
]
TASKS = {
    "choice": {
        "output_type": "multiple_choice", "doc_to_text": "{{question}}",
        "doc_to_choice": "{{choices}}", "doc_to_target": 0, "target_delimiter": "",
        "metric_list": [{"metric": "acc"}]},
    "words": {
        "output_type": "generate_until", "doc_to_text": "{{question}}",
        "doc_to_target": "{{choices[0]}}",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 4, "temperature": 0},
        "metric_list": [{"metric": "exact_match"}]},
}
TOKENIZER = """
import sys
sys.path.insert(0, sys.argv[1])
from tokenizer_huggingface import build, read_gguf
from transformers import PreTrainedTokenizerFast
parsing = build(read_gguf(sys.argv[2]))[1]
PreTrainedTokenizerFast(tokenizer_object=parsing, bos_token="<|im_start|>", eos_token="<|im_end|>"
                        ).save_pretrained(sys.argv[3])
"""


def write_tasks(folder):
    data = folder / "questions.jsonl"
    data.write_text("".join(json.dumps({"question": question, "choices": choices}) + "\n"
                            for question, choices in QUESTIONS))
    for name, task in TASKS.items():
        task = {"task": name, "dataset_path": "json", "test_split": "test",
                "dataset_kwargs": {"data_files": {"test": str(data)}}, **task}
        (folder / f"{name}.yaml").write_text(json.dumps(task))  # JSON is YAML


def evaluate(python, folder, task, kind, arguments):
    """The samples of a run."""
    out = folder / f"out-{task}-{kind}"
    words = [python, "-m", "lm_eval", "--model", kind, "--model_args",
             ",".join(f"{key}={value}" for key, value in arguments.items()), "--include_path",
             str(folder), "--tasks", task, "--log_samples", "--output_path", str(out)]
    if kind == "local-chat-completions":
        words.append("--apply_chat_template")
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * swarm.PATIENCE_S, env={
        **os.environ, "OPENAI_API_KEY": "any", "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    (samples,) = out.rglob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert len(rows) == len(QUESTIONS), rows
    return rows


def main():
    python = os.environ.get("HEARTH_EVALUATION_PYTHON", "")
    if not os.path.exists(swarm.MODEL) or not os.path.exists(python):
        print("HEARTH_DEMO_MODEL or HEARTH_EVALUATION_PYTHON names no file: nothing is evaluated")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name, swarm.Swarm(3) as s:
        folder = pathlib.Path(name)
        write_tasks(folder)
        oracle = pathlib.Path(__file__).parent.with_name("oracle")
        subprocess.run([python, "-c", TOKENIZER, oracle, swarm.MODEL, folder / "tokenizer"],
                       check=True)
        status, models = s.get("/v1/models")
        assert status == 200, models
        common = {"model": models["data"][0]["id"], "num_concurrent": 4, "max_retries": 1,
                  "timeout": swarm.PATIENCE_S}
        local = {**common, "base_url": s.api + "/v1/completions", "tokenizer": folder / "tokenizer",
                 "tokenizer_backend": "huggingface"}
        scored = evaluate(python, folder, "choice", "local-completions", local)
        right = sum(row["acc"] for row in scored)
        assert right >= len(QUESTIONS) - 1, f"{right} of {len(QUESTIONS)} are right"
        for row in scored:
            for answer in row["filtered_resps"]:
                assert -60 < float(answer[0]) < 0, row
        generated = evaluate(python, folder, "words", "local-completions", local)
        # What is the likeliest is what is generated.
        greedy = [each for row in scored for each in row["filtered_resps"]
                  if each[1] in (True, "True")]
        assert greedy, scored
        for score, words in zip(scored, generated):
            for choice, (_, is_greedy) in zip(score["doc"]["choices"], score["filtered_resps"]):
                begins = words["resps"][0][0].startswith(choice)
                assert begins or is_greedy in (False, "False"), (score, words)
        chats = evaluate(python, folder, "words", "local-chat-completions",
                         {**common, "base_url": s.api + "/v1/chat/completions"})
        assert all(row["resps"][0][0] for row in chats), chats
    print("the harness scored and generated")


if __name__ == "__main__":
    main()

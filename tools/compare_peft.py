#!/usr/bin/env python3
"""Adapters against PEFT: random models of several families, with LoRA, rsLoRA and DoRA, both ways.

For each family and kind
  PEFT's adapter     made there with values that are not zero: plumb's logits with it, and of the merged folder in
                     plumb and in transformers, against PEFT's own;
  plumb's adapter    trained for a few steps here: PEFT's logits with it against plumb's.

Needs torch, transformers and peft; exits 1 where logits differ by more than --tolerance of their largest.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file

IDS = [3, 17, 29, 5, 41, 8, 2, 33, 12, 7]
KINDS = {"lora": {}, "rslora": {"use_rslora": True}, "dora": {"use_dora": True}}


def families():
    t = transformers
    common = dict(vocab_size=320, bos_token_id=0, eos_token_id=1, pad_token_id=2)
    shape = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                 max_position_embeddings=64)
    return {
        "llama": (t.LlamaConfig(**common, **shape, num_key_value_heads=2, attention_bias=True), "all-linear"),
        "gpt2": (t.GPT2Config(**common, n_embd=32, n_layer=2, n_head=4, n_positions=64, n_inner=48),
                 ["c_attn", "c_proj", "c_fc"]),
        "gpt_neox": (t.GPTNeoXConfig(**common, **shape), "all-linear"),
        "bloom": (t.BloomConfig(**common, hidden_size=32, n_layer=2, n_head=4), ["query_key_value", "dense_4h_to_h"]),
        "mixtral": (t.MixtralConfig(**common, **shape, num_key_value_heads=2, num_local_experts=4,
                                    num_experts_per_tok=2, head_dim=8), r".*\.self_attn\.[qv]_proj"),
    }


def reference(model):
    model.eval()
    with torch.no_grad():
        return model(torch.tensor([IDS])).logits[0]


def run(plumb, *arguments):
    done = subprocess.run([plumb, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{plumb} {' '.join(map(str, arguments))}: {done.stderr}")


def logits(plumb, folder, work):
    run(plumb, "eval", folder, "--ids", ",".join(map(str, IDS)), "--logits", work / "logits.safetensors")
    return load_file(work / "logits.safetensors")["logits"][0]


def distance(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def of_peft(plumb, base, targets, kind, work):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    peft = get_peft_model(model, LoraConfig(r=4, lora_alpha=7, target_modules=targets, task_type="CAUSAL_LM",
                                            **KINDS[kind]))
    for name, p in peft.named_parameters():
        if "lora_" in name:
            p.data += 0.3 * torch.randn_like(p) * p.abs().mean().clamp(min=0.1)
    wanted = reference(peft)
    peft.save_pretrained(work / "peft")
    with_adapter = distance(logits(plumb, work / "peft", work), wanted)
    run(plumb, "merge", work / "peft", work / "merged")
    merged = distance(logits(plumb, work / "merged", work), wanted)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(work / "merged", dtype=torch.float32)
    own = reference(peft.merge_and_unload())
    return {"adapter": with_adapter, "merged": merged, "in transformers": distance(reference(loaded), own)}


def of_plumb(plumb, base, targets, kind, work):
    text = work / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 200)
    flags = {"lora": [], "rslora": ["--rslora"], "dora": ["--dora"]}[kind]
    named = [f"--lora-targets={t}" for t in ([targets] if isinstance(targets, str) else targets)]
    run(plumb, "train", "--from", base, "--text", text, "--lora", 4, *named, *flags, "--steps", 5,
        "--batch", 2, "--length", 16, "--lr", 0.02, "--sample-tokens", 0, "--probe-every", 0, "--out", work / "run")
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    before = reference(model)
    peft = PeftModel.from_pretrained(model, work / "run/model")
    wanted = reference(peft)
    if distance(wanted, before) < 1e-3:
        sys.exit(f"{base}: training changed nothing")
    return {"trained here": distance(logits(plumb, work / "run/model", work), wanted)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plumb", default="build/cli/plumb")
    parser.add_argument("--tolerance", type=float, default=2e-5)
    parser.add_argument("--families", nargs="*", default=list(families()))
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    bad = 0
    for name in arguments.families:
        config, targets = families()[name]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            torch.manual_seed(1)
            base = folder / "base"
            model = transformers.AutoModelForCausalLM.from_config(config)
            for p in model.parameters():
                p.data += 0.05 * torch.randn_like(p)
            model.save_pretrained(base)
            run(arguments.plumb, "tokenizer", "train", "README.md", "--vocab-size", 320, "--out",
                base / "tokenizer.json")
            for kind in KINDS:
                work = folder / kind
                work.mkdir()
                found = of_peft(arguments.plumb, base, targets, kind, work) | of_plumb(arguments.plumb, base, targets,
                                                                                     kind, work)
                bad += max(found.values()) > arguments.tolerance
                print(f"{name:10} {kind:7}", "  ".join(f"{k} {v:.1e}" for k, v in found.items()), flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

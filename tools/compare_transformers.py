#!/usr/bin/env python3
"""Trains small models with plumb, loads their folders in transformers, and compares the logits.

A GPT-2 shape, a LLaMA shape with grouped keys and values, and a BERT shape, a few steps each on a text of this tree:
what `plumb train` saves has to load there without a missing or unexpected tensor, and give the same logits to 1e-4.
Needs Python with torch, transformers and safetensors, and a built plumb; no network.

With --folders, published ones instead: `plumb convert` writes each again, and what it wrote has to load there in the
same way and give the logits of the folder that it was.

    tools/compare_transformers.py [--plumb build/cli/plumb] [--text FILE] [--steps N] [--keep FOLDER]
    tools/compare_transformers.py [--plumb build/cli/plumb] --folders FOLDER...
"""
import argparse
import os
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from safetensors.torch import load_file

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOLERANCE = 1e-4
SIZES = ["--width", "64", "--layers", "3", "--heads", "4", "--max-length", "64"]
MODELS = {
    "gpt2": (["--model-type", "gpt2"], transformers.AutoModelForCausalLM),
    "llama": (["--model-type", "llama", "--kv-heads", "2", "--head-dim", "24"], transformers.AutoModelForCausalLM),
    "bert": (["--model-type", "bert", "--kind", "encoder"], transformers.AutoModelForMaskedLM),
}


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise ChildProcessError(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def theirs_of(folder, loader, ids, strict=True):
    model, loading = loader.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                            output_loading_info=True)
    wrong = {what: names for what, names in loading.items() if names}
    if wrong and strict:
        raise ValueError(f"transformers reports {wrong} of {folder}")
    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor([ids])).logits


def difference(plumb, folder, loader, ids):
    """Largest difference of two logits, and the largest logit."""
    file = os.path.join(folder, "compared_logits.safetensors")
    run(plumb, "eval", folder, "--ids", ",".join(map(str, ids)), "--logits", file)
    ours = load_file(file)["logits"]
    os.remove(file)
    theirs = theirs_of(folder, loader, ids)
    return (ours - theirs).abs().max().item(), theirs.abs().max().item()


def rewritten(plumb, folder, temporary):
    """Prints whether a causal model, written again, has the logits that it had; returns it."""
    ids, loader = list(range(3, 23)), transformers.AutoModelForCausalLM
    before = theirs_of(folder, loader, ids, strict=False)  # old files hold buffers that are reported
    out = os.path.join(temporary, os.path.basename(os.path.normpath(folder)))
    run(plumb, "convert", folder, out)
    change = (theirs_of(out, loader, ids) - before).abs().max().item()
    run(plumb, "convert", folder, out + "-f32", "--dtype", "f32")  # with weights in 16 bits plumb rounds the rest, too
    ours, scale = difference(plumb, out + "-f32", loader, ids)
    same = max(change, ours) <= TOLERANCE
    print(f"{folder} {'same' if same else 'DIFFERENT'}: logits up to {scale:.3g} differ by at most {change:.2e} from the "
          f"first folder's, plumb's by {ours:.2e}")
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plumb", default=os.path.join(ROOT, "build/cli/plumb"))
    parser.add_argument("--text", default=os.path.join(ROOT, "docs"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--keep", help="folder that the runs stay in (default: a temporary one)")
    parser.add_argument("--folders", nargs="+", help="folders of causal models, to be written again")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        if options.folders:
            for folder in options.folders:
                try:
                    failed |= not rewritten(options.plumb, folder, temporary)
                except Exception as error:
                    failed = True
                    print(f"{folder} FAILED: {type(error).__name__}: {error}")
            sys.exit(failed)
        for name, (flags, loader) in MODELS.items():
            out = os.path.join(options.keep or temporary, name)
            run(options.plumb, "train", "--text", options.text, "--tokenizer", "bytes", "--out", out, "--steps",
                options.steps, "--length", 64, "--batch", 8, "--lr", 0.01, "--sample-tokens", 0, *SIZES, *flags)
            worst, scale = difference(options.plumb, os.path.join(out, "model"), loader, list(b"The residual stream"))
            ok = worst <= TOLERANCE
            failed |= not ok
            print(f"{name:6} {'same' if ok else 'DIFFERENT'}: logits up to {scale:.3g} differ by at most {worst:.2e}")
    sys.exit(failed)


if __name__ == "__main__":
    main()

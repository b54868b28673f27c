#!/usr/bin/env python3
"""Makes a Hugging Face folder (bf16, with its tokenizer) of a GGUF file, by transformers: plumb reads the folder.

Needs Python with torch, transformers and gguf; no network.

    tools/gguf_folder.py FILE.gguf FOLDER
"""
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

if len(sys.argv) != 3:
    sys.exit(__doc__)
folder, file = os.path.split(os.path.abspath(sys.argv[1]))
read = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
# A model that was read from a quantised file refuses to be saved, so its weights move to one that was not.
plain = AutoModelForCausalLM.from_config(read.config)
plain.load_state_dict(read.state_dict())
plain.tie_weights()
plain.config.quantization_config = None
plain.to(torch.bfloat16).save_pretrained(sys.argv[2])
AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(sys.argv[2])

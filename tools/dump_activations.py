#!/usr/bin/env python3
"""Records the activations of a Hugging Face model under the names that `plumb compare MODEL FILE` reads.

    tools/dump_activations.py FOLDER OUT.safetensors --text "Once upon a time"
    tools/dump_activations.py FOLDER OUT.safetensors --ids 5,7,9 [--decoder-ids 1,2]

Needs torch, transformers and safetensors. Families: gpt2, llama, bert, marian. Everything is computed in float64 unless
--dtype float32 says otherwise, and stored as float32.
"""
import argparse

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer, BertForMaskedLM, GPT2LMHeadModel, LlamaForCausalLM, MarianMTModel


class Recorder:
    def __init__(self):
        self.seen = {}

    def keep(self, name, value):
        self.seen[name] = value.detach().to(torch.float32).reshape(1, value.shape[-2], value.shape[-1]).clone().contiguous()

    @staticmethod
    def first(value):
        return value if torch.is_tensor(value) else value[0]

    def output(self, module, name, part=None):
        """part (i, n): the i-th of n equal parts of the columns."""
        def hook(_, inputs, result):
            value = self.first(result)
            self.keep(name, value if part is None else value.chunk(part[1], dim=-1)[part[0]])
        module.register_forward_hook(hook)

    def input(self, module, *names):
        def hook(_, inputs, keywords):
            value = inputs[0] if inputs else keywords["hidden_states"]
            for name in names:
                self.keep(name, value)
        module.register_forward_pre_hook(hook, with_kwargs=True)


def gpt2(r, model):
    base = model.transformer
    r.output(base.drop, "decoder.embedding")
    for i, layer in enumerate(base.h):
        attention, ffn = f"decoder.{i}.attention", f"decoder.{i}.feed_forward"
        r.input(layer.ln_1, attention + ".stream")
        r.output(layer.ln_1, attention + ".input")
        for part, name in enumerate(("query", "key", "value")):
            r.output(layer.attn.c_attn, f"{attention}.{name}", (part, 3))
        r.input(layer.attn.c_proj, attention + ".heads")
        r.output(layer.attn.c_proj, attention + ".raw")
        r.input(layer.ln_2, attention + ".output", ffn + ".stream")
        r.output(layer.ln_2, ffn + ".input")
        r.output(layer.mlp.c_fc, ffn + ".up")
        r.output(layer.mlp.c_proj, ffn + ".raw")
        r.output(layer, ffn + ".output")
    r.output(base.ln_f, "decoder.final")
    r.output(model.lm_head, "head.logits")


def llama(r, model):
    base = model.model
    r.output(base.embed_tokens, "decoder.embedding")
    for i, layer in enumerate(base.layers):
        attention, ffn = f"decoder.{i}.attention", f"decoder.{i}.feed_forward"
        r.input(layer.input_layernorm, attention + ".stream")
        r.output(layer.input_layernorm, attention + ".input")
        r.output(layer.self_attn.q_proj, attention + ".query")
        r.output(layer.self_attn.k_proj, attention + ".key")
        r.output(layer.self_attn.v_proj, attention + ".value")
        r.input(layer.self_attn.o_proj, attention + ".heads")
        r.output(layer.self_attn.o_proj, attention + ".raw")
        r.input(layer.post_attention_layernorm, attention + ".output", ffn + ".stream")
        r.output(layer.post_attention_layernorm, ffn + ".input")
        r.output(layer.mlp.gate_proj, ffn + ".gate")
        r.output(layer.mlp.up_proj, ffn + ".up")
        r.output(layer.mlp.down_proj, ffn + ".raw")
        r.output(layer, ffn + ".output")
    r.output(base.norm, "decoder.final")
    r.output(model.lm_head, "head.logits")


def bert(r, model):
    base = model.bert
    r.input(base.embeddings.LayerNorm, "encoder.embedding")
    for i, layer in enumerate(base.encoder.layer):
        attention, ffn = f"encoder.{i}.attention", f"encoder.{i}.feed_forward"
        r.input(layer, attention + ".stream", attention + ".input")
        own = layer.attention.self
        r.output(own.query, attention + ".query")
        r.output(own.key, attention + ".key")
        r.output(own.value, attention + ".value")
        r.input(layer.attention.output.dense, attention + ".heads")
        r.output(layer.attention.output.dense, attention + ".raw")
        r.input(layer.attention.output.LayerNorm, attention + ".sum")
        r.output(layer.attention.output.LayerNorm, attention + ".output")
        r.input(layer.intermediate.dense, ffn + ".stream", ffn + ".input")
        r.output(layer.intermediate.dense, ffn + ".up")
        r.output(layer.output.dense, ffn + ".raw")
        r.input(layer.output.LayerNorm, ffn + ".sum")
        r.output(layer.output.LayerNorm, ffn + ".output")
    r.output(base.encoder, "encoder.final")
    r.input(model.cls.predictions.transform.LayerNorm, "head.hidden")
    r.output(model.cls.predictions.transform.LayerNorm, "head.inner")
    r.output(model.cls.predictions.decoder, "head.logits")


def marian_attention(r, attention, norm, name):
    r.output(attention.q_proj, name + ".query")
    r.output(attention.k_proj, name + ".key")
    r.output(attention.v_proj, name + ".value")
    r.input(attention.q_proj, name + ".stream", name + ".input")
    r.input(attention.out_proj, name + ".heads")
    r.output(attention.out_proj, name + ".raw")
    r.input(norm, name + ".sum")
    r.output(norm, name + ".output")


def marian_stack(r, stack, name):
    r.input(stack.layers[0], name + ".embedding")
    for i, layer in enumerate(stack.layers):
        marian_attention(r, layer.self_attn, layer.self_attn_layer_norm, f"{name}.{i}.attention")
        if name == "decoder":
            marian_attention(r, layer.encoder_attn, layer.encoder_attn_layer_norm, f"{name}.{i}.cross_attention")
        ffn = f"{name}.{i}.feed_forward"
        r.input(layer.fc1, ffn + ".stream", ffn + ".input")
        r.output(layer.fc1, ffn + ".up")
        r.output(layer.fc2, ffn + ".raw")
        r.input(layer.final_layer_norm, ffn + ".sum")
        r.output(layer.final_layer_norm, ffn + ".output")
    r.output(stack.layers[-1], name + ".final")


def marian(r, model):
    marian_stack(r, model.model.encoder, "encoder")
    marian_stack(r, model.model.decoder, "decoder")


FAMILIES = {
    "gpt2": (GPT2LMHeadModel, gpt2),
    "llama": (LlamaForCausalLM, llama),
    "bert": (BertForMaskedLM, bert),
    "marian": (MarianMTModel, marian),
}


def numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("out")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--text")
    what.add_argument("--ids", type=numbers)
    parser.add_argument("--decoder-ids", type=numbers, help="of an encoder-decoder; default: its start token alone")
    parser.add_argument("--dtype", default="float64", choices=("float64", "float32"))
    options = parser.parse_args()

    config = AutoConfig.from_pretrained(options.folder)
    if config.model_type not in FAMILIES:
        parser.error(f"model_type {config.model_type} is not among {', '.join(FAMILIES)}")
    ids = options.ids or AutoTokenizer.from_pretrained(options.folder)(options.text)["input_ids"]
    kind, hook = FAMILIES[config.model_type]
    model = kind.from_pretrained(options.folder, attn_implementation="eager").to(getattr(torch, options.dtype)).eval()
    recorder = Recorder()
    hook(recorder, model)
    inputs = {"input_ids": torch.tensor([ids])}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([options.decoder_ids or [config.decoder_start_token_id]])
    elif options.decoder_ids:
        parser.error("--decoder-ids are for encoder-decoders")
    with torch.no_grad():
        result = model(**inputs)
    recorder.keep("head.logits", result.logits)
    save_file({**recorder.seen, **inputs}, options.out, metadata={"format": "pt"})
    print(f"{options.out}: {len(recorder.seen)} places of {len(ids)} tokens")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The same training step of the 124 M GPT-2 shape in PyTorch and in plumb, side by side in one run.

    tools/compare_step.py [--dtype f32|bf16] [--mode eager|compile] [--rounds 2] [--plumb build/cli/plumb]

Needs torch (PyPI); plumb itself does not. A step is forward, loss, backward, clipping by global norm and AdamW, on 4 x 512
tokens with two threads. FLOPs are counted alike: (6 N + 12 L C T) per token, N without the position table. The two take
turns, so that both meet the same machine; the best of each is compared.
"""
import argparse
import contextlib
import json
import subprocess
import sys
import time

WIDTH, LAYERS, HEADS, VOCABULARY, BATCH, LENGTH = 768, 12, 12, 50257, 4, 512


def torch_model(torch):
    functional = torch.nn.functional

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.ffn_norm = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.qkv, self.output = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            b, t, _ = x.shape
            parts = self.qkv(self.attention_norm(x)).split(WIDTH, dim=2)
            q, k, v = (p.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.output(y.transpose(1, 2).reshape(b, t, WIDTH))
            return x + self.down(functional.gelu(self.up(self.ffn_norm(x)), approximate="tanh"))

    class Gpt2(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Embedding(1024, WIDTH)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
            self.norm = torch.nn.LayerNorm(WIDTH)

        def forward(self, ids, targets):
            x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
            for layer in self.layers:
                x = layer(x)
            logits = self.norm(x) @ self.tokens.weight.t()
            return functional.cross_entropy(logits.float().view(-1, VOCABULARY), targets.view(-1))

    return Gpt2()


class TorchStep:
    def __init__(self, mode, dtype):
        import torch
        self.torch = torch
        torch.set_num_threads(2)
        self.model = torch_model(torch)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=True)
        self.forward = torch.compile(self.model) if mode == "compile" else self.model
        self.ids, self.targets = (torch.randint(0, VOCABULARY, (BATCH, LENGTH)) for _ in range(2))
        self.bf16 = dtype == "bf16"
        n = sum(p.numel() for p in self.model.parameters()) - 1024 * WIDTH
        self.flops = (6 * n + 12 * LAYERS * WIDTH * LENGTH) * BATCH * LENGTH
        self.step()

    def step(self):
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=True)
        cast = torch.autocast("cpu", torch.bfloat16) if self.bf16 else contextlib.nullcontext()
        with cast:
            loss = self.forward(self.ids, self.targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def rate(self):
        best = 0.0
        for _ in range(3):
            start = time.perf_counter()
            self.step()
            best = max(best, self.flops / (time.perf_counter() - start) / 1e9)
        return best


def plumb_row(plumb, dtype):
    out = subprocess.run([plumb, "bench", f"train-{dtype}", "--json", "--threads", "2"], check=True,
                         capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[0])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    p.add_argument("--mode", default="eager", choices=["eager", "compile"])
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--plumb", default="build/cli/plumb")
    a = p.parse_args()
    try:
        peer = TorchStep(a.mode, a.dtype)
    except ImportError:
        sys.exit("compare_step.py needs torch: pip install torch")
    rows, rates = [], []
    for _ in range(a.rounds):
        rows.append(plumb_row(a.plumb, a.dtype))
        rates.append(peer.rate())
        print(f"plumb {rows[-1]['rate']:.0f} GF/s, torch {a.mode} {rates[-1]:.0f} GF/s", flush=True)
    ours, best = max(rows, key=lambda r: r["rate"]), max(rates)
    print(f"{a.dtype}: plumb {ours['rate']:.0f} GF/s ({100 * ours['share']:.0f} % of {ours['peak']:.0f}), "
          f"torch {peer.torch.__version__} {a.mode} {best:.0f} GF/s: {ours['rate'] / best:.2f} times")


if __name__ == "__main__":
    main()

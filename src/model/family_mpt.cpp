// MPT (MosaicML 2023): pre-norm with ALiBi, without any bias. The reference takes nothing else from
// attn_config than what is read here: it always has ALiBi with slopes up to 8, and a hidden layer of 4 width.
#include <fmt/format.h>

#include "base/log.h"
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.width = "d_model",
                            .layers = "n_layers",
                            .heads = "n_heads",
                            .max_length = "max_seq_len",
                            .kv_heads = nullptr,
                            .head_dim = nullptr,
                            .ffn_width = nullptr,
                            .norm_eps = "layer_norm_epsilon",
                            .activation = nullptr,
                            .attention_dropout = nullptr,
                            .rope = RopeKeys::none};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "mpt",
                                   .vocab_size = 50368,
                                   .width = 2048,
                                   .layers = 24,
                                   .heads = 16,
                                   .ffn_width = 0,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu",
                                   .gated = false,
                                   .tied = true,
                                   .padding_row = false,
                                   .keys = kKeys});
  c.positions = Positions::alibi;
  const JsonFields attention = f.object("attn_config");
  c.dropout = c.attention_dropout = attention.number("attn_pdrop", 0);
  LayerConfig& l = c.layer;
  l.norm_bias = false;
  l.qkv_fused = true;
  l.qkv_limit = attention.number("clip_qkv", 0);
  l.attention_scale = attention.number("softmax_scale", 0);
  if (!attention.flag("alibi", true) || attention.number("alibi_bias_max", 8) != 8) {
    log_warning(
        fmt::format("{}: alibi and alibi_bias_max have no effect, as in the reference: ALiBi's "
                    "slopes go up to 8",
                    attention.name()));
  }
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j, kKeys);
  JsonObject attention = j.object("attn_config");
  attention["alibi"] = true;
  attention["alibi_bias_max"] = 8;
  attention["attn_pdrop"] = c.attention_dropout == 0 ? JsonValue(0) : JsonValue(c.attention_dropout);
  attention["clip_qkv"] = nullptr;
  if (l.qkv_limit != 0) attention["clip_qkv"] = l.qkv_limit;
  attention["softmax_scale"] = nullptr;
  if (l.attention_scale != 0) attention["softmax_scale"] = l.attention_scale;
  j["expansion_ratio"] = 4;
  j["no_bias"] = true;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "transformer.wte"},
    {"decoder.#.attention.norm_in", "transformer.blocks.#.norm_1"},
    {"decoder.#.attention.qkv", "transformer.blocks.#.attn.Wqkv"},
    {"decoder.#.attention.output", "transformer.blocks.#.attn.out_proj"},
    {"decoder.#.feed_forward.norm_in", "transformer.blocks.#.norm_2"},
    {"decoder.#.feed_forward.up", "transformer.blocks.#.ffn.up_proj"},
    {"decoder.#.feed_forward.down", "transformer.blocks.#.ffn.down_proj"},
    {"decoder.final_norm", "transformer.norm_f"},
    {"head", "lm_head"},
};

}  // namespace

const Family kMpt{.type = "mpt",
                  .architecture = "MptForCausalLM",
                  .read = read,
                  .write = write,
                  .prefix = "transformer.",
                  .names = kNames,
                  .copies = kLlamaCopies};

}  // namespace plumb

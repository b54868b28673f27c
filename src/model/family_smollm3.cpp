// SmolLM3: LLaMA with layers that have no positions (2501.18795).
#include <nlohmann/json.hpp>

#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{
    .attention_bias = "attention_bias", .output_bias = "attention_bias", .ffn_bias = "mlp_bias"};

// no_rope_layers: 1 where a layer has positions.
std::vector<bool> rotary_layers(const JsonFields& f, int64_t layers) {
  std::vector<bool> rotary;
  if (!f.has("no_rope_layers")) {
    const int64_t every = f.integer("no_rope_layer_interval", 4);
    if (every < 1) f.wrong("no_rope_layer_interval", "at least 1");
    for (int64_t i = 0; i < layers && i < 100000; ++i) rotary.push_back((i + 1) % every != 0);
    return rotary;
  }
  const Json& list = f.raw("no_rope_layers");
  if (!list.is_array() || static_cast<int64_t>(list.size()) != layers)
    f.wrong("no_rope_layers", "a number for each layer");
  for (const Json& item : list) {
    if (!item.is_number_integer() && !item.is_boolean()) f.wrong("no_rope_layers", "a list of 0 and 1");
    rotary.push_back(item != 0 && item != false);
  }
  return rotary;
}

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "smollm3",
                                   .vocab_size = 128256,
                                   .width = 2048,
                                   .layers = 36,
                                   .heads = 16,
                                   .kv_heads = 4,
                                   .max_length = 32768,
                                   .tied = true,
                                   .rope = {.base = 2e6},
                                   .bos_id = 128000,
                                   .eos_id = 128001,
                                   .pad_id = 128004,
                                   .keys = kKeys});
  const std::vector<bool> rotary = rotary_layers(f, c.decoder_layers);
  const int64_t window = f.integer_or_none("sliding_window", 0);
  const bool used = f.flag("use_sliding_window", false) && window > 0;
  const auto absent = [&](int64_t i) { return used && !rotary[i]; };
  size_t i = 0;
  read_windows(f, read_sliding(f, c.decoder_layers, absent), window, c,
               [&](LayerConfig& l, bool) { l.rotary = rotary[i++]; });
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
  const int64_t window = write_windows(c, j);
  j["use_sliding_window"] = window > 0;
  std::vector<int64_t> rotary;
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    rotary.push_back(layer_config(c, Side::decoder, i).rotary ? 1 : 0);
  }
  j["no_rope_layers"] = std::move(rotary);
}

}  // namespace

const Family kSmolLm3{.type = "smollm3",
                      .architecture = "SmolLM3ForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "model.",
                      .names = kLlamaNames,
                      .copies = kLlamaCopies,
                      .ignored = kLlamaIgnored};

}  // namespace plumb

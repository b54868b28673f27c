// GPT-Neo (Black et al. 2021): GPT-2 without a scale on attention, and with a window in every other layer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.layers = "num_layers",
                            .heads = "num_heads",
                            .kv_heads = nullptr,
                            .head_dim = nullptr,
                            .norm_eps = "layer_norm_epsilon",
                            .activation = "activation_function",
                            .dropout = "resid_dropout",
                            .embedding_dropout = "embed_dropout",
                            .rope = RopeKeys::none};

// [[["global", "local"], 12]]: lists of kinds, and how often each stands there.
std::vector<std::string> unrolled(const JsonFields& f) {
  std::vector<std::string> kinds;
  const auto wrong = [&] { f.wrong("attention_types", "a list of pairs: kinds of layers, and how often"); };
  if (!f.raw("attention_types").is_array()) wrong();
  for (const Json& item : f.raw("attention_types")) {
    const bool pair = item.is_array() && item.size() == 2 && item[0].is_array() &&
                      item[1].is_number_integer() && item[1] >= 0 && item[1] <= 100000;
    if (!pair) wrong();
    for (int64_t i = 0; i < item[1].get<int64_t>() && kinds.size() <= 100000; ++i) {
      for (const Json& kind : item[0])
        kinds.push_back(kind.is_string() ? kind.get<std::string>() : kind.dump());
    }
  }
  return kinds;
}

std::vector<std::string> layer_kinds(const JsonFields& f) {
  if (f.has("attention_layers")) return f.texts("attention_layers");
  if (f.has("attention_types")) return unrolled(f);
  std::vector<std::string> kinds;
  for (int i = 0; i < 12; ++i) kinds.insert(kinds.end(), {"global", "local"});
  return kinds;
}

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "gpt_neo",
                                   .vocab_size = 50257,
                                   .width = 2048,
                                   .layers = 24,
                                   .heads = 16,
                                   .ffn_width = 0,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu_new",
                                   .gated = false,
                                   .tied = true,
                                   .padding_row = false,
                                   .bos_id = 50256,
                                   .eos_id = 50256,
                                   .keys = kKeys});
  c.positions = Positions::learned;
  c.layer.attention_output_bias = c.layer.ffn_bias = true;
  c.layer.attention_scale = 1;
  std::vector<LayerConfig> layers;
  for (const std::string& kind : layer_kinds(f)) {
    if (kind != "global" && kind != "local") {
      throw Error(
          ErrorKind::unsupported,
          fmt::format("{}: a layer's attention is \"{}\"; plumb has global and local", f.name(), kind));
    }
    layers.push_back(c.layer);
    layers.back().window = kind == "local" ? f.integer("window_size", 256) : 0;
  }
  if (static_cast<int64_t>(layers.size()) != c.decoder_layers) {
    throw Error(ErrorKind::config,
                fmt::format("{}: attention_types says what {} layers are, and num_layers is {}", f.name(),
                            layers.size(), c.decoder_layers));
  }
  set_layers(c, layers);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
  int64_t window = 256;
  std::vector<std::string> kinds;
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const int64_t own = layer_config(c, Side::decoder, i).window;
    kinds.emplace_back(own > 0 ? "local" : "global");
    if (own > 0) window = own;
  }
  j["window_size"] = window;
  j["attention_layers"] = kinds;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "transformer.wte"},
    {"decoder.position_embedding", "transformer.wpe"},
    {"decoder.#.attention.norm_in", "transformer.h.#.ln_1"},
    {"decoder.#.attention.query", "transformer.h.#.attn.attention.q_proj"},
    {"decoder.#.attention.key", "transformer.h.#.attn.attention.k_proj"},
    {"decoder.#.attention.value", "transformer.h.#.attn.attention.v_proj"},
    {"decoder.#.attention.output", "transformer.h.#.attn.attention.out_proj"},
    {"decoder.#.feed_forward.norm_in", "transformer.h.#.ln_2"},
    {"decoder.#.feed_forward.up", "transformer.h.#.mlp.c_fc"},
    {"decoder.#.feed_forward.down", "transformer.h.#.mlp.c_proj"},
    {"decoder.final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};
constexpr std::string_view kIgnored[] = {"h.#.attn.attention.bias",  // the causal mask
                                         "h.#.attn.attention.masked_bias"};

}  // namespace

const Family kGptNeo{.type = "gpt_neo",
                     .architecture = "GPTNeoForCausalLM",
                     .read = read,
                     .write = write,
                     .prefix = "transformer.",
                     .names = kNames,
                     .copies = kLlamaCopies,
                     .ignored = kIgnored};

}  // namespace plumb

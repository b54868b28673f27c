// Ministral: Mistral with a window in some layers.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "ministral", .ffn_width = 14336, .kv_heads = 8, .max_length = 131072};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  const int64_t window = f.integer_or_none("sliding_window", 4096);
  const auto absent = [&](int64_t) { return window > 0; };
  read_windows(f, read_sliding(f, c.decoder_layers, absent), window, c);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
  write_windows(c, j);
}

}  // namespace

const Family kMinistral{.type = "ministral",
                        .architecture = "MinistralForCausalLM",
                        .read = read,
                        .write = write,
                        .prefix = "model.",
                        .names = kLlamaNames,
                        .copies = kLlamaCopies,
                        .ignored = kLlamaIgnored};

}  // namespace plumb

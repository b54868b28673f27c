// Mistral (Jiang 2023, 2310.06825): LLaMA with a window in every layer.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "mistral", .ffn_width = 14336, .kv_heads = 8, .max_length = 131072};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  c.layer.window = f.integer_or_none("sliding_window", 4096);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
  const int64_t window = c.layer.window;
  j["sliding_window"] = nullptr;
  if (window > 0) j["sliding_window"] = window;
}

}  // namespace

const Family kMistral{.type = "mistral",
                      .architecture = "MistralForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "model.",
                      .names = kLlamaNames,
                      .copies = kLlamaCopies,
                      .ignored = kLlamaIgnored};

}  // namespace plumb

// Mistral (Jiang 2023, 2310.06825): LLaMA with a window in every layer.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(
      f,
      {.type = "mistral", .kv_heads = 8, .ffn_width = 14336, .max_length = 131072, .bos_id = 1, .eos_id = 2});
  c.layer.window = f.integer_or_none("sliding_window", 4096);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j);
  write_window(c.layer.window, j);
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

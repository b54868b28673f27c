// Ministral: Mistral with a window in some layers.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr int64_t kUsualWindow = 4096;

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "ministral",
                                   .kv_heads = 8,
                                   .ffn_width = 14336,
                                   .max_length = 131072,
                                   .bos_id = 1,
                                   .eos_id = 2});
  const int64_t window = f.integer_or_none("sliding_window", kUsualWindow);
  const auto absent = [&](int64_t) { return window > 0; };
  read_windows(f, read_sliding(f, c.decoder_layers, absent), window, c);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j);
  write_windows(c, j, kUsualWindow);
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

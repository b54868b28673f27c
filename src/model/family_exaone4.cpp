// EXAONE 4 (2507.11407): norms behind the branches; where some layers have a window, the others have no
// positions.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "exaone4",
                                   .vocab_size = 102400,
                                   .kv_heads = 32,
                                   .ffn_width = 16384,
                                   .norm_eps = 1e-5,
                                   .bos_id = 0,
                                   .eos_id = 2});
  c.layer.placement = Placement::reordered;
  c.layer.qk_norm = QkNorm::per_head;
  const int64_t window = f.integer_or_none("sliding_window", 4096);
  const auto absent = [&](int64_t i) {
    const int64_t pattern = window > 0 ? f.integer("sliding_window_pattern", 4) : 0;
    return pattern > 0 && (i + 1) % pattern != 0;
  };
  read_windows(f, read_sliding(f, c.decoder_layers, absent), window, c,
               [&](LayerConfig& l, bool sliding) { l.rotary = sliding || window == 0; });
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j);
  const int64_t window = write_windows(c, j);
  // No window anywhere, and no positions either.
  if (window == 0 && !c.layer.rotary) j["sliding_window"] = c.max_length;
}

}  // namespace

const Family kExaone4{.type = "exaone4",
                      .architecture = "Exaone4ForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "model.",
                      .names = kLlamaNames,
                      .copies = kLlamaCopies,
                      .ignored = kLlamaIgnored};

}  // namespace plumb

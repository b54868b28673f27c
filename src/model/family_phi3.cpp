// Phi-3 and Phi-4 (2404.14219): LLaMA with fused projections and LongRoPE.
#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "model/rope_fields.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.dropout = "resid_pdrop", .rope = RopeKeys::part};
constexpr int64_t kOriginal = 4096;

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "phi3",
                                   .vocab_size = 32064,
                                   .width = 3072,
                                   .ffn_width = 8192,
                                   .max_length = 4096,
                                   .norm_eps = 1e-5,
                                   .bos_id = 1,
                                   .eos_id = 32000,
                                   .pad_id = 32000,
                                   .keys = kKeys});
  LayerConfig& l = c.layer;
  const RopeScaling scaling = l.rope.scaling;
  if (scaling != RopeScaling::none && scaling != RopeScaling::longrope) {
    throw Error(ErrorKind::unsupported, f.name() + ": model_type phi3 has rope_type default and longrope");
  }
  l.qkv_fused = l.gate_up_fused = true;
  l.window = f.integer_or_none("sliding_window", 0);
  if (scaling == RopeScaling::longrope) {  // the length stands beside the object, which repeats it
    l.rope.original_length = f.integer("original_max_position_embeddings", kOriginal);
    const double longer = static_cast<double>(c.max_length) / static_cast<double>(l.rope.original_length);
    l.rope.factor = rope_object(f).number("factor", longer);
  }
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
  write_window(c.layer.window, j);
  const RopeConfig r = resolved_layer(c, Side::decoder, 0).rope;
  j["original_max_position_embeddings"] = r.scaling == RopeScaling::longrope ? r.original_length : kOriginal;
}

}  // namespace

const Family kPhi3{.type = "phi3",
                   .architecture = "Phi3ForCausalLM",
                   .read = read,
                   .write = write,
                   .prefix = "model.",
                   .names = kLlamaNames,
                   .copies = kLlamaCopies,
                   .ignored = kLlamaIgnored};

}  // namespace plumb

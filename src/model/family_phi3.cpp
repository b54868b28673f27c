// Phi-3 and Phi-4 (2404.14219): LLaMA with fused projections and LongRoPE.
#include "model/llama_kin.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "phi3",
                        .vocab_size = 32064,
                        .width = 3072,
                        .ffn_width = 8192,
                        .max_length = 4096,
                        .eps = 1e-5,
                        .eos = 32000,
                        .pad = 32000,
                        .rope_fraction = 1};
constexpr int64_t kOriginal = 4096;

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  c.dropout = f.number("resid_pdrop", 0);
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
    l.rope.factor = rope_fields(f).number("factor", longer);
  }
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
  j["resid_pdrop"] = c.dropout;
  const int64_t window = c.layer.window;
  j["sliding_window"] = nullptr;
  if (window > 0) j["sliding_window"] = window;
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

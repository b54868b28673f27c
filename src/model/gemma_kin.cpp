#include "model/gemma_kin.h"

#include <cmath>

#include "nn/rotary.h"

namespace plumb {

ModelConfig read_gemma_kin(const JsonFields& f, const DecoderDefaults& absent, double softcap) {
  refuse_unless(f, "use_bidirectional_attention", false);
  ModelConfig c = read_decoder(f, absent);
  c.embedding_scale = std::sqrt(static_cast<double>(c.width));
  c.logits_softcap = f.number_or_none("final_logit_softcapping", softcap);
  c.layer.placement = Placement::sandwich;
  c.layer.norm_unit_offset = true;
  c.layer.attention_scale = 1 / std::sqrt(f.number("query_pre_attn_scalar", 256));
  return c;
}

void write_gemma_kin(const ModelConfig& c, JsonObject j, const DecoderKeys& keys) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j, keys);
  write_windows(c, j, kUsualWindow);
  const double scale = attention_scale(l, false);
  j["query_pre_attn_scalar"] = static_cast<int64_t>(std::llround(1 / (scale * scale)));
  j["final_logit_softcapping"] = nullptr;
  if (c.logits_softcap > 0) j["final_logit_softcapping"] = c.logits_softcap;
}

}  // namespace plumb

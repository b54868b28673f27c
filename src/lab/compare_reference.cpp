// Recorded activations of another engine.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lab/compare_data.h"
#include "model/safetensors.h"
#include "nn/depth.h"
#include "plumb/error.h"
#include "plumb/suggest.h"

namespace plumb {
namespace {

std::vector<int32_t> read_ids(const SafetensorsFile& file, const char* name, const ModelConfig& config) {
  const SafetensorsFile::Entry* entry = file.find(name);
  if (!entry) return {};
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::file, fmt::format("{}: {} {}", file.path(), name, why));
  };
  if (entry->shape.rank() == 0 || entry->shape.numel() != entry->shape[-1]) {
    refuse(fmt::format("is {}, expected one sequence (1, T)", entry->shape.str()));
  }
  if (entry->dtype != DType::i64 && entry->dtype != DType::i32) refuse("are no integers");
  const Tensor t = file.tensor(*entry);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < t.numel(); ++i) {
    const int64_t id = t.dtype() == DType::i64 ? t.data<int64_t>()[i] : t.data<int32_t>()[i];
    if (id < 0 || id >= config.vocab_size) {
      refuse(fmt::format("holds {}, which is outside the vocabulary of {}", id, config.vocab_size));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// Every place that a model of these layers could have, whatever its placement.
std::vector<std::string> possible_places(const ModelConfig& c) {
  std::vector<std::string> names{"head.hidden", "head.inner", "head.logits"};
  for (const Side side : {Side::encoder, Side::decoder}) {
    if (layers_of(c, side) == 0) continue;
    for (const char* q : {"embedding", "output", "final"})
      names.push_back(std::string(stack_name(side)) + "." + q);
    for (int64_t i = 0; i < layers_of(c, side); ++i) {
      for (const char* part : {"attention", "cross_attention", "feed_forward"}) {
        if (std::string_view(part) == "cross_attention" && !(side == Side::decoder && c.has_encoder()))
          continue;
        for (const char* q : {"stream", "read", "res", "input", "query", "key", "value", "q", "k", "heads",
                              "gate", "up", "hidden", "inner", "raw", "branch", "sum", "output"}) {
          names.push_back(fmt::format("{}.{}.{}.{}", stack_name(side), i, part, q));
        }
      }
    }
  }
  return names;
}

// Layers of a stack that the tensors' names speak of.
int64_t layers_named(const SafetensorsFile& file, Side side) {
  int64_t layers = 0;
  const std::string prefix = std::string(stack_name(side)) + ".";
  for (const auto& e : file.entries()) {
    int64_t layer = -1;
    if (e.name.starts_with(prefix))
      std::from_chars(e.name.data() + prefix.size(), e.name.data() + e.name.size(), layer);
    layers = std::max(layers, layer + 1);
  }
  return layers;
}

Tensor activation(const SafetensorsFile& file, const SafetensorsFile::Entry& e) {
  const Shape& s = e.shape;
  const bool right = (s.rank() == 3 && s[0] == 1) || s.rank() == 2;
  if (!right) {
    throw Error(ErrorKind::file,
                fmt::format("{}: {} is {}, expected (1, T, C)", file.path(), e.name, s.str()));
  }
  const Tensor t = file.tensor(e);
  const Shape shape{1, s[-2], s[-1]};
  if (e.dtype == DType::f64) {
    Tensor narrow = Tensor::empty(shape);
    std::copy(t.data<double>(), t.data<double>() + t.numel(), narrow.f32());
    return narrow;
  }
  if (e.dtype != DType::f32 && e.dtype != DType::f16 && e.dtype != DType::bf16) {
    throw Error(ErrorKind::file,
                fmt::format("{}: {} is {}, expected floats", file.path(), e.name, dtype_name(e.dtype)));
  }
  return f32_of(t).reshape(shape);
}

// Columns that the model's place has; 0 where the config does not say.
int64_t columns_of(const ModelConfig& c, const std::string& module, const std::string& quantity) {
  if (quantity == "logits") return c.vocab_size;
  const bool part = std::count(module.begin(), module.end(), '.') == 2;
  const Side side = module.starts_with("encoder") ? Side::encoder : Side::decoder;
  const int64_t streams = sublayer_formula(c, side, 0).streams;
  if (quantity == "res") return streams * streams;
  if (quantity == "stream" || quantity == "output") return streams * c.width;
  if (!part) return c.width;
  const LayerConfig l = resolved_layer(c, side, std::stoll(module.substr(8)));
  const bool feed_forward = module.ends_with("feed_forward");
  if (quantity == "query" || quantity == "q" || quantity == "heads") return l.heads * l.head_dim;
  if (quantity == "key" || quantity == "value" || quantity == "k") return l.kv_heads * l.head_dim;
  if (quantity == "gate" || quantity == "up" || quantity == "hidden") return l.ffn_width;
  if (quantity == "inner") return feed_forward ? l.ffn_width : l.heads * l.head_dim;
  return c.width;
}

void check_shape(const SafetensorsFile& file, const std::string& name, const Tensor& t, int64_t tokens,
                 int64_t columns) {
  if (t.size(1) == tokens && t.size(2) == columns) return;
  throw Error(ErrorKind::file, fmt::format("{}: {} is {}, and the model's is {}", file.path(), name,
                                           t.shape().str(), Shape({1, tokens, columns}).str()));
}

}  // namespace

Reference read_reference(const Model& model, const std::string& path) {
  const ModelConfig& c = model.config();
  const SafetensorsFile file(path);
  Reference r{.input = {read_ids(file, "input_ids", c), read_ids(file, "decoder_input_ids", c)}};
  if (r.input.ids.empty()) {
    throw Error(ErrorKind::file,
                fmt::format("{}: there is no input_ids, and so nothing says what was read", path));
  }
  for (const Side side : {Side::encoder, Side::decoder}) {
    if (layers_named(file, side) <= layers_of(c, side)) continue;
    throw Error(ErrorKind::input,
                fmt::format("{} is of {} {} layers, and the model has {}", path, layers_named(file, side),
                            stack_name(side), layers_of(c, side)));
  }
  const std::vector<std::string> known = possible_places(c);
  for (const auto& e : file.entries()) {
    if (e.name == "input_ids" || e.name == "decoder_input_ids") continue;
    if (std::find(known.begin(), known.end(), e.name) == known.end()) {
      throw Error(ErrorKind::file,
                  fmt::format("{}: the model has no place {}{}", path, e.name, did_you_mean(e.name, known)));
    }
    const std::string module = e.name.substr(0, e.name.rfind('.')),
                      quantity = e.name.substr(e.name.rfind('.') + 1);
    const bool of_encoder = module.starts_with("encoder") || !c.has_encoder() ||
                            (module.ends_with("cross_attention") &&
                             (quantity == "key" || quantity == "value" || quantity == "k")) ||
                            !c.has_decoder();
    const auto& ids = of_encoder ? r.input.ids : r.input.decoder_ids;
    const Tensor t = activation(file, e);
    check_shape(file, e.name, t, static_cast<int64_t>(ids.size()), columns_of(c, module, quantity));
    r.observed.add(module, quantity, t);
  }
  return r;
}

}  // namespace plumb

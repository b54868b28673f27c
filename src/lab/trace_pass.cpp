#include "lab/trace_pass.h"

#include <fmt/format.h>

#include <cmath>

#include "model/generation_defaults.h"
#include "nn/depth.h"
#include "ops/scale.h"
#include "plumb/error.h"

namespace plumb {
namespace {

Tokens one_sequence(const std::vector<int32_t>& ids) {
  return {.ids = Tensor::of<int32_t>({1, static_cast<int64_t>(ids.size())}, ids)};
}

int64_t decoder_start(const Model& model) {
  const int64_t id = model.generation().decoder_start_id >= 0 ? model.generation().decoder_start_id
                                                              : model.config().decoder_start_id;
  if (id >= 0) return id;
  throw Error(
      ErrorKind::config,
      "the model's files do not say what its decoder starts from: add decoder_start_token_id to config.json");
}

int64_t end_of(const Model& model, const Tokenizer& tokenizer) {
  const std::vector<int64_t>& ends = model.generation().eos_ids;
  return !ends.empty() ? ends[0] : tokenizer.special(TokenRole::eos).value_or(-1);
}

Tensor value_of(const ParameterTable& parameters, const std::string& name) {
  const Parameter* p = parameters.find(name);
  return p ? p->value : Tensor();
}

}  // namespace

PassInput read_input(const Model& model, const Tokenizer& tokenizer, std::string_view text,
                     std::string_view target) {
  const ModelConfig& c = model.config();
  const bool both = c.has_encoder() && c.has_decoder();
  if (!both && !target.empty()) {
    throw Error(ErrorKind::usage, "a target is for encoder-decoders; this model reads one text");
  }
  PassInput input{.ids = tokenizer.encode(text)};
  if (input.ids.empty()) throw Error(ErrorKind::input, "the text is empty: there is nothing to run");
  if (!both) return input;
  const int64_t end = end_of(model, tokenizer);
  if (end >= 0 && input.ids.back() != end) input.ids.push_back(static_cast<int32_t>(end));
  input.decoder_ids = tokenizer.encode(target);
  input.decoder_ids.insert(input.decoder_ids.begin(), static_cast<int32_t>(decoder_start(model)));
  return input;
}

void Observed::forward(const Site& site, const Tensor& value) {
  if (value.shape().rank() == 3)
    add(site.module, site.quantity, value.without_grad());  // else rows of an expert
}

void Observed::backward(const Site& site, const Tensor&, const Tensor& gradient) {
  const auto found = index_.find({site.module, site.quantity});
  if (found != index_.end()) kept_[found->second].gradient = gradient.clone();
}

void Observed::streams(const std::string& module, const Tensor&, const Tensor& res) {
  add(module, "res", res.without_grad().reshape({1, res.size(0), res.size(1) * res.size(2)}));
}

void Observed::add(const std::string& module, const std::string& quantity, const Tensor& value) {
  PLUMB_CHECK(index_.emplace(std::pair(module, quantity), kept_.size()).second, "{}.{} twice", module,
              quantity);
  kept_.push_back({module, quantity, value, {}});
}

const Kept* Observed::find(const std::string& module, const std::string& quantity) const {
  const auto found = index_.find({module, quantity});
  return found == index_.end() ? nullptr : &kept_[found->second];
}

Tensor Observed::value(const std::string& module, const std::string& quantity) const {
  const Kept* kept = find(module, quantity);
  return kept ? kept->value : Tensor();
}

Tensor Observed::gradient(const std::string& module, const std::string& quantity) const {
  const Kept* kept = find(module, quantity);
  return kept ? kept->gradient : Tensor();
}

Tensor run_stacks(Context& context, const Transformer& model, const PassInput& input) {
  const ModelConfig& c = model.config();
  if (!c.has_decoder()) return model.encode(context, one_sequence(input.ids));
  if (!c.has_encoder()) return model.decode(context, one_sequence(input.ids));
  return model.decode(context, one_sequence(input.decoder_ids),
                      model.encode(context, one_sequence(input.ids)));
}

Observed observe_pass(const Transformer& model, const PassInput& input) {
  Observed observed;
  Context context{.observer = &observed};
  const Tensor hidden = run_stacks(context, model, input);
  if (model.config().head == Head::language_model) {
    observed.add("head", "logits", model.logits(context, hidden));
  }
  return observed;
}

void probe_pass(const Transformer& model, const PassInput& input, RunObserver* probe) {
  if (!probe || !probe->wants_pass()) return;
  Context context{.observer = probe};
  const Tensor hidden = run_stacks(context, model, input);
  if (model.config().head == Head::language_model) model.logits(context, hidden);
  probe->finish_pass(std::nullopt);
}

std::vector<SublayerName> sublayers_of(const ModelConfig& config) {
  std::vector<SublayerName> result;
  for (const Side side : {Side::encoder, Side::decoder}) {
    for (int64_t i = 0; i < layers_of(config, side); ++i) {
      const auto add = [&](const std::string& part) {
        result.push_back({side, i, fmt::format("{}.{}.{}", stack_name(side), i, part), part});
      };
      add("attention");
      if (side == Side::decoder && config.has_encoder()) add("cross_attention");
      if (layer_config(config, side, i).parallel == Parallel::no) add("feed_forward");
    }
  }
  return result;
}

const char* stack_name(Side side) {
  return side == Side::encoder ? "encoder" : "decoder";
}

ops::NormWeights norm_weights(const ParameterTable& parameters, const std::string& module,
                              const LayerConfig& c) {
  return {c.norm,
          c.norm_eps,
          c.norm_unit_offset,
          value_of(parameters, module + ".gain"),
          value_of(parameters, module + ".bias"),
          value_of(parameters, module + ".alpha"),
          value_of(parameters, module + ".running_mean"),
          value_of(parameters, module + ".running_var")};
}

namespace {

Tensor one_number(double v) {
  return Tensor::of<float>({1}, {static_cast<float>(v)});
}

}  // namespace

Tensor gate_of(const ParameterTable& parameters, const std::string& module, const SublayerFormula& formula) {
  if (formula.gate == GateKind::constant) return one_number(formula.gate_value);
  Tensor stored = value_of(parameters, module + ".gate");
  if (!formula.unit) return stored;
  Context context;
  return ops::magnitude(context, stored, formula.gate_value * std::sqrt(static_cast<double>(stored.numel())));
}

Tensor shortcut_of(const ParameterTable& parameters, const std::string& module,
                   const SublayerFormula& formula) {
  if (formula.shortcut != GateKind::constant) return value_of(parameters, module + ".shortcut");
  if (!formula.unit) return one_number(formula.alpha);
  Tensor rest = gate_of(parameters, module, formula);
  for (int64_t i = 0; i < rest.numel(); ++i) rest.f32()[i] = 1 - rest.f32()[i];
  return rest;
}

}  // namespace plumb

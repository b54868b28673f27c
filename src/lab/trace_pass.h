// One input through a model, with everything that a close observer sees (ops/context.h) kept: what `plumb
// trace` and `plumb compare` read. Memory: all of it, so for texts and not for corpora.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/run_observer.h"
#include "model/transformer.h"
#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb {

// What a model reads: one sequence for its only stack, or one for each.
struct PassInput {
  std::vector<int32_t> ids;          // of the encoder where there is one, else of the decoder
  std::vector<int32_t> decoder_ids;  // of an encoder-decoder's decoder, from its start token on
};

// `text` as the model's generator reads it; `target` behind the start token for an encoder-decoder's decoder.
// Throws Error(input) for a text of no tokens, Error(config) where nothing says what the decoder starts from,
// Error(usage) for a target that nothing reads.
PassInput read_input(const Model& model, const Tokenizer& tokenizer, std::string_view text,
                     std::string_view target);

struct Kept {
  std::string module, quantity;
  Tensor value;     // (1, T, C)
  Tensor gradient;  // the same, or undefined
  std::string name() const { return module + "." + quantity; }
};

class Observed : public Observer {
 public:
  bool closely() const override { return true; }
  void forward(const Site& site, const Tensor& value) override;
  void backward(const Site& site, const Tensor& value, const Tensor& gradient) override;

  void streams(const std::string& module, const Tensor& x, const Tensor& res) override;  // {module, "res"}

  const std::vector<Kept>& all() const { return kept_; }  // in the order of the pass
  const Kept* find(const std::string& module, const std::string& quantity) const;
  Tensor value(const std::string& module, const std::string& quantity) const;  // undefined if there is none
  Tensor gradient(const std::string& module, const std::string& quantity) const;  // likewise
  void add(const std::string& module, const std::string& quantity, const Tensor& value);

 private:
  std::vector<Kept> kept_;
  std::map<std::pair<std::string, std::string>, size_t> index_;
};

// Runs the stacks that there are; hidden states of the last (1, T, C). Throws Error(input) for ids or lengths
// that the model has no rows for.
Tensor run_stacks(Context& context, const Transformer& model, const PassInput& input);

// The same with everything kept, and the logits as {"head", "logits"} where there is a head.
Observed observe_pass(const Transformer& model, const PassInput& input);

// The same for a probe that wants the pass, or null: nothing is kept.
void probe_pass(const Transformer& model, const PassInput& input, RunObserver* probe);

// The layers' sub-layers by name, in the order of the pass: {encoder, 0, "encoder.0.attention", "attention"}.
// A feed-forward that shares its attention's add is no sub-layer of its own.
struct SublayerName {
  Side side;
  int64_t layer = 0;
  std::string module, part;
};
std::vector<SublayerName> sublayers_of(const ModelConfig& config);

const char* stack_name(Side side);  // "encoder"

// A norm's weights by the module's name ("decoder.0.attention.norm_in").
ops::NormWeights norm_weights(const ParameterTable& parameters, const std::string& module,
                              const LayerConfig& c);

// g and alpha of a sub-layer, (1) or (C): the constant, or what was learned. f32.
Tensor gate_of(const ParameterTable& parameters, const std::string& module, const SublayerFormula& formula);
Tensor shortcut_of(const ParameterTable& parameters, const std::string& module,
                   const SublayerFormula& formula);

}  // namespace plumb

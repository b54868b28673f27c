// Where two models, or a model and a recorded reference, first differ, and how.
//
// Both read one input, and every observed place of the pass (embedding, and by sub-layer the stream, the
// norm's output, queries, keys, values, heads, gate, up, the branch, the sum, the result) is compared in
// order. The difference of a place is the largest over tokens of |a_t - b_t| / |b_t|, where a token of less
// than a thousandth of the largest counts as that. At the first place beyond the tolerance the fault is
// named, where it is one of these: missing norm, missing residual, transposed matrix, permutation of heads,
// position offset, rotary pairing, attention mask (causal or window), scale, shift. Each is a prediction of
// one side's values from the other's weights and inputs, and is named only if it explains the difference down
// to the tolerance or a fiftieth of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb {

struct CompareInput {
  std::vector<int32_t> ids;          // of the encoder where there is one, else of the decoder
  std::vector<int32_t> decoder_ids;  // of an encoder-decoder's decoder
};

// What the model's generator would read for the text; `target` behind the start token of an encoder-decoder's
// decoder.
CompareInput compare_input(const Model& model, const Tokenizer& tokenizer, const std::string& text,
                           const std::string& target);

class RunObserver;  // internal: Probe::observer() is one

struct CompareOptions {
  std::optional<double> tolerance;  // unset: 1e-4, of weights 1e-6
  std::string a = "A", b = "B";     // what the two are called
  RunObserver* observer = nullptr;  // sees A's pass and then B's (a reference has none); null: nobody
};

class Comparison {
 public:
  // Throws Error(input) for models of different depth, width or kind, and for ids that one has no rows for.
  static Comparison of_models(const Model& a, const Model& b, const CompareInput& input,
                              const CompareOptions& options = {});
  // A safetensors file of named activations, as tools/dump_activations.py writes it: input_ids (and
  // decoder_input_ids) and tensors (1, T, C) by place, "decoder.0.attention.query". Throws Error(file) for a
  // tensor that the model has no place for, or of another shape; Error(input) for `input` that is not the
  // file's.
  static Comparison with_reference(const Model& a, const std::string& reference, const CompareInput& input,
                                   const CompareOptions& options = {});
  // Weights against weights, tensor by tensor: |a - b| / |b|.
  static Comparison of_weights(const Model& a, const Model& b, const CompareOptions& options = {});

  ~Comparison();
  Comparison(Comparison&&) noexcept;
  Comparison& operator=(Comparison&&) noexcept;

  bool equal() const;  // within the tolerance
  std::string text() const;
  // One HTML file that needs no network. Throws Error(file).
  void write_page(const std::string& path) const;
  const struct ComparisonData& data() const;  // internal

 private:
  Comparison();
  std::unique_ptr<struct ComparisonData> data_;
};

}  // namespace plumb

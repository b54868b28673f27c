// A linear map with its parameters: weight (out, in) or (in, out), optional bias.
#pragma once

#include <vector>

#include "nn/builder.h"
#include "ops/linear.h"

namespace plumb {

// Of a matrix that reads the residual stream, and of one that writes to it: along the width of the stream.
inline UnitLength from_stream(const SublayerFormula& f) {
  return f.unit ? UnitLength::of_outputs : UnitLength::none;
}
inline UnitLength to_stream(const SublayerFormula& f) {
  return f.unit ? UnitLength::of_inputs : UnitLength::none;
}

class Linear {
 public:
  // Parts of the outputs that are separate matrices with an init gain each: one, or Q, K and V in one.
  struct Part {
    int64_t outputs = 0;
    double gain = 1;
  };
  struct Spec {
    int64_t inputs = 0;
    std::vector<Part> parts;
    bool bias = false;
    Reparam reparam = Reparam::none;
    UnitLength unit = UnitLength::none;
  };
  Linear(const Builder& b, const Spec& spec);

  // The map itself, which a reparametrised one is made into here; without the adapter that it may have.
  ops::LinearWeights weights(Context& context) const;
  bool adapted() const { return weight_->adapter.has_value(); }
  Tensor forward(Context& context, const Tensor& x) const;

 private:
  void add_reparam(const Builder& b, const Spec& spec);

  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace plumb

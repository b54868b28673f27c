// What is measured of a whole model on one fixed batch: how far its function has moved, how it answers to
// small changes of its weights, and what each layer is worth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "plumb/dataset.h"

namespace plumb {

struct DropLoss {
  std::string layer;  // decoder.3
  double loss = 0;    // mean over the targets without that layer, less the mean with all
};

// F(θ): what the head reads, at the positions of the batch that have a target, (N, C). Without dropout.
class ModelMeasures {
 public:
  // The model has to outlive this.
  ModelMeasures(const Transformer& model, Batch batch);

  struct Function {
    Tensor output;    // (N, C)
    double loss = 0;  // mean negative log likelihood
  };
  Function run(const DroppedLayer* dropped = nullptr) const;

  // One pass for each layer, or for 12 evenly spread ones of a stack; of more than 24 layers 288 / layers
  // ones.
  std::vector<DropLoss> drop_losses(double loss) const;

  // E |F(θ + e r s) - F(θ)|^2 / e^2, mean over the elements of F: e = 1e-3, s = ±1 drawn for each element and
  // r the RMS of its matrix, of every matrix in a layer (Liu et al. 2020, arXiv 2004.08249, with signs in
  // place of normal numbers: the same first two moments). The weights come back bit for bit. Nothing where
  // weights lie in a mapped file or are not f32.
  std::optional<double> perturbation(const Function& at) const;

 private:
  const Transformer& model_;
  Batch batch_;
};

double rms_of_difference(const Tensor& a, const Tensor& b);

}  // namespace plumb

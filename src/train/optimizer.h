// Updates of parameters from their gradients. Which rule a parameter is under follows from its role and name,
// its state is made once:
//   adamw  every parameter: m, v
//   sgd    every parameter: u
//   muon   matrices of the layers of encoder and decoder: u; embeddings, head, norms, biases and gates: m, v
//   of AdamW
// Weight decay is decoupled but for sgd, and reaches what Parameter::decays() says. A parameter whose
// gradient was not written stays as it is. The same gradients and state give the same bits, whatever the
// number of threads, but for the products in muon. AdamW's options are multiplied by the parameter's scales;
// what is kept at length 1 (Parameter::unit) is brought back to it, and the singular vectors of a
// reparametrised matrix follow it (Parameter::follow).
#pragma once

#include <vector>

#include "model/run_observer.h"
#include "plumb/trainer.h"

namespace plumb {

// L2 norm over the gradients of all parameters, each once; in f64, not finite if one of them is not.
double gradient_norm(const ParameterTable& parameters);

// Factor on all gradients that brings their norm down to `most`: most / (norm + 1e-6) where that is below 1,
// as PyTorch's clip_grad_norm_ (Pascanu 2013, 1211.5063). most == 0: 1.
double clip_factor(double norm, double most);

class Optimizer {
 public:
  enum class Rule { adamw, sgd, muon };

  // State for what is trainable now. The table has to outlive it.
  Optimizer(const ParameterTable& parameters, const TrainOptions& options);

  // One update at `factor` of the learning rates, from gradients times gradient_scale; the gradients are then
  // marked unwritten. Returns each parameter's update, in the table's order.
  const std::vector<ParameterUpdate>& step(double factor, double gradient_scale);

  int64_t steps() const { return steps_; }  // made so far: the t of AdamW's bias correction
  void set_steps(int64_t steps) { steps_ = steps; }

  struct State {
    std::string name;  // "m:decoder.0.attention.query.weight"
    Tensor value;
  };
  const std::vector<State>& state() const { return state_; }

 private:
  struct Slot {
    Parameter* parameter = nullptr;
    Rule rule = Rule::adamw;
    Tensor first, second;  // m and v, or u and undefined
  };
  double update(const Slot& slot, double factor, double gradient_scale) const;
  double rule_step(const Slot& slot, double factor, double gradient_scale) const;
  double adamw(const Slot& slot, double factor, double gradient_scale) const;
  double sgd(const Slot& slot, double factor, double gradient_scale) const;
  double muon(const Slot& slot, double factor, double gradient_scale) const;

  TrainOptions options_;
  std::vector<Slot> slots_;
  std::vector<State> state_;
  std::vector<ParameterUpdate> updates_;
  int64_t steps_ = 0;
};

}  // namespace plumb

// The parameter table: every tensor that a model owns, once, with how it starts and how it is treated. It is
// derived from the config by building the modules, which add their parameters here; optimizers, checkpoints,
// family files, `plumb info` and `plumb check` read it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/adapter.h"
#include "ops/spectral.h"
#include "plumb/config.h"

namespace plumb {

enum class Role {
  matrix,     // of a linear map, (out, in) or (in, out)
  embedding,  // a table looked up by id or position
  bias,
  gain,       // of a norm, a head, a reparametrised matrix
  gate,       // of a sub-layer: g, alpha, what its maps between streams start from
  statistic,  // a buffer: running statistics, singular vectors, an untrained bias; never has a gradient
};

std::string_view role_name(Role role);

// Vectors that are kept at length 1, at the start and after each update: of a matrix or table the weights of
// each output, or of each input.
enum class UnitLength { none, of_outputs, of_inputs };

// The next `count` outputs of a map are drawn from N(0, std).
struct InitPart {
  int64_t count = 0;
  double std = 0;
};

struct Parameter;

// What is trained beside a linear map's matrix (ops/adapter.h), as parameters of the same table.
struct Adapter {
  Parameter *a = nullptr, *b = nullptr;                     // (R, in), (out, R)
  Parameter *magnitude = nullptr, *inverse_norm = nullptr;  // (out), of DoRA alone
  double scale = 1, dropout = 0;
  uint64_t site = 0;
};

struct Parameter {
  std::string name;  // "decoder.0.attention.query.weight"
  Shape shape;
  Role role = Role::matrix;
  bool in_out = false;         // a matrix stored (in, out)
  double constant = 0;         // the start of what is not drawn
  std::vector<float> start;    // the same where it differs from number to number; else empty
  std::vector<InitPart> init;  // empty: constant; else parts along the output dim, whose counts sum to it
  bool trainable = true;       // false: no gradient slot
  UnitLength unit = UnitLength::none;
  // Of a matrix under sigma-reparam, gamma and the singular vectors of its maps, whose outputs `init` counts.
  Parameter *gamma = nullptr, *vectors = nullptr;
  bool of_linear = false;  // of the module Linear, and can have an adapter
  std::optional<Adapter> adapter;
  const Parameter* adapts = nullptr;  // the matrix whose adapter this is a part of
  std::string_view starts_as;  // in words, where that follows from another parameter or is no one number
  ParameterScales scales{};    // on AdamW's options
  Tensor value;                // f32 when trained; as stored in a file when only run

  // Decoupled weight decay reaches matrices and embeddings, by role and rank and not by name: never biases,
  // gains, gates or buffers, nor what is kept at length 1.
  bool decays() const { return shape.rank() >= 2 && role != Role::statistic && unit == UnitLength::none; }
  // The vectors of `unit` are given length 1; one of zeros stays. Returns the sum of squares of `update`,
  // which the value moved by before, plus what it moves by here.
  double make_unit(const float* update = nullptr) const;
  ops::SigmaReparam reparam() const;
  ops::AdapterWeights adapter_weights() const;
  // What follows from the new value: singular vectors where there is gamma, and the norms of a matrix whose
  // adapter this is.
  void follow() const;
  std::string init_words() const;  // "N(0, 0.02)", "1"
};

class ParameterTable {
 public:
  ParameterTable() = default;
  ParameterTable(const ParameterTable&) = delete;
  ParameterTable& operator=(const ParameterTable&) = delete;

  Parameter* add(Parameter parameter);           // the name must be new; the pointer stays valid
  Parameter* find(std::string_view name) const;  // null if there is none
  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }

  // Draws every value from (seed, the parameter's name): adding a parameter does not change the others.
  void initialize(uint64_t seed);
  // Holds matrices and embeddings, which products and look-ups read as they are stored, in f32, bf16 or f16
  // from now on, rounded: for running only. Throws Error(numeric) naming a parameter whose values f16 can't
  // hold.
  void hold_as(DType dtype);
  void set_gradients();   // gives the trainable ones a gradient slot, and takes it from the others
  int64_t count() const;  // numbers that train
  bool adapted() const;   // whether there is an adapter, which alone trains then

 private:
  std::vector<std::unique_ptr<Parameter>> parameters_;
};

}  // namespace plumb

// Which tensors a family's weight file has, and how each is made of a model's parameters.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/families.h"

namespace plumb {

// One tensor of a file: a parameter as it is, several stacked, a slice of one, or rows in another order.
struct FileTensor {
  std::string name;
  Shape shape;
  std::vector<Parameter*> parts;  // one; or those that a first dimension counts
  bool stacked = false;
  int64_t slice = 0, slices = 1;  // of the one part: which of how many equal ones, in order
  bool transposed = false;        // matrices are stored (in, out) where the parameter's are (out, in)
  std::vector<int64_t> rows;      // row r of a part is row rows[r] of the file; empty: r

  bool plain() const { return !stacked && slices == 1 && !transposed && rows.empty(); }
  // What the file's tensor holds of part i: all of it, or its slice; a view where that is possible.
  Tensor part(const Tensor& stored, size_t i) const;
  // The inverse: the file's tensor, of the values (or gradients) that `of` gives, which are of one dtype.
  Tensor in_file(const std::function<Tensor(const Parameter&)>& of) const;
};

// Files have the base model's prefix or lack it; norms of old files are called gamma and beta, which are
// other names at the end of a known norm's name only.
class TensorNames {
 public:
  TensorNames(const ModelConfig& config, const ParameterTable& table);

  const std::deque<FileTensor>& all() const { return tensors_; }
  const FileTensor* tensor(std::string_view name) const;  // null: none
  // The parameter that a file may hold once more under this name, because it is tied; null: none.
  Parameter* copy_of(std::string_view name) const;
  // What this tensor holds where the file lacks the one of Family::untied; null: nothing.
  const FileTensor* replaced(std::string_view name) const;
  bool ignored(std::string_view name) const;  // a buffer or an unused head that old files hold
  // Of the layer behind the last one (Family::predicts_ahead).
  bool ahead(std::string_view name) const;

 private:
  std::string bare(std::string_view name) const;
  void add(Parameter& p);
  void add_old_norms(const ParameterTable& table);
  void add_untied(const ParameterTable& table);

  ModelConfig config_;
  const Family& family_;
  std::string_view prefix_;
  std::deque<FileTensor> tensors_;
  std::map<std::string, FileTensor*> by_name_, replaced_;  // by bare name
  std::map<std::string, Parameter*> copies_;
};

}  // namespace plumb

// The dims of a tensor, outermost first, row-major. Letters are those of docs/shapes.md.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace plumb {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int i) const { return dims_[i < 0 ? dims_.size() + i : i]; }  // negative: from the end
  int64_t numel() const;                                                           // 1 for rank 0
  int64_t rows() const;                    // product of all but the last dim; 1 for rank 0
  Shape with_width(int64_t width) const {  // the last dim made `width`
    std::vector<int64_t> dims = dims_;
    dims.back() = width;
    return Shape(std::move(dims));
  }
  int64_t width() const { return dims_.empty() ? 1 : dims_.back(); }
  const std::vector<int64_t>& dims() const { return dims_; }
  std::string str() const;  // "(2, 3, 4)"
  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

}  // namespace plumb

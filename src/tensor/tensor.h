// A dense row-major array: dtype, shape, shared storage. No arithmetic.
//
// A Tensor is a handle: copies share the storage. A tensor that takes part in differentiation carries a
// gradient slot, shared by its copies and reshapes; the slot's memory appears when a backward pass first
// writes it. Threads: distinct tensors may be used from distinct threads; one tensor is not locked.
#pragma once

#include <cstring>
#include <memory>

#include "base/check.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plumb {

class Tensor;

struct Gradient {
  std::unique_ptr<Tensor> value;  // f32, as many elements as its tensor; null until first written
  bool written = false;           // false: the next backward overwrites, true: it adds
};

class Tensor {
 public:
  Tensor() = default;  // undefined

  static Tensor empty(Shape shape, DType dtype = DType::f32);  // contents arbitrary
  static Tensor zeros(Shape shape, DType dtype = DType::f32);
  // Memory that someone else made (a mapped file); `keeper` lives as long as any handle.
  static Tensor view(Shape shape, DType dtype, void* memory, std::shared_ptr<void> keeper);
  template <class T>
  static Tensor of(Shape shape, const std::vector<T>& values);

  bool defined() const { return data_ != nullptr; }  // has values
  const Shape& shape() const { return shape_; }
  int64_t size(int i) const { return shape_[i]; }
  int64_t numel() const { return shape_.numel(); }
  int64_t rows() const { return shape_.rows(); }
  int64_t width() const { return shape_.width(); }
  DType dtype() const { return dtype_; }
  size_t bytes() const { return static_cast<size_t>(numel()) * dtype_size(dtype_); }

  template <class T>
  T* data() const {
    PLUMB_CHECK(dtype_ == DTypeOf<T>::value, "tensor is {}", dtype_name(dtype_));
    return static_cast<T*>(data_);
  }
  float* f32() const { return data<float>(); }
  void* raw() const { return data_; }

  Tensor reshape(Shape shape) const;                     // same elements, same gradient slot
  Tensor rows_view(int64_t first, int64_t count) const;  // of the outermost dim; no gradient slot
  Tensor clone() const;                                  // own storage, no gradient slot

  // Gradient slot. grad() is defined once a backward pass has written it.
  bool requires_grad() const { return gradient_ != nullptr; }
  void set_requires_grad();
  Tensor without_grad() const;
  Tensor without_data() const;  // shape and gradient slot alone: keeps a place for a gradient, not the values
  const std::shared_ptr<Gradient>& gradient() const { return gradient_; }
  Tensor grad() const;      // undefined if never written
  void clear_grad() const;  // keeps the memory, marks it unwritten

 private:
  Shape shape_;
  DType dtype_ = DType::f32;
  void* data_ = nullptr;
  std::shared_ptr<void> storage_;
  std::shared_ptr<Gradient> gradient_;
};

template <class T>
Tensor Tensor::of(Shape shape, const std::vector<T>& values) {
  Tensor t = empty(std::move(shape), DTypeOf<T>::value);
  PLUMB_CHECK(t.numel() == static_cast<int64_t>(values.size()), "{} values for {}", values.size(),
              t.shape().str());
  if (!values.empty()) std::memcpy(t.raw(), values.data(), t.bytes());
  return t;
}

}  // namespace plumb

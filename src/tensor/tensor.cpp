#include "tensor/tensor.h"

#include <fmt/ranges.h>

#include "tensor/memory.h"

namespace plumb {

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int64_t d : dims_) n *= d;
  return n;
}

int64_t Shape::rows() const {
  int64_t n = 1;
  for (size_t i = 0; i + 1 < dims_.size(); ++i) n *= dims_[i];
  return n;
}

std::string Shape::str() const {
  return fmt::format("({})", fmt::join(dims_, ", "));
}

Tensor Tensor::empty(Shape shape, DType dtype) {
  Tensor t;
  for (int64_t d : shape.dims()) PLUMB_CHECK(d >= 0, "negative dim in {}", shape.str());
  t.shape_ = std::move(shape);
  t.dtype_ = dtype;
  t.storage_ = allocate_memory(t.bytes());
  t.data_ = t.storage_.get();
  return t;
}

Tensor Tensor::zeros(Shape shape, DType dtype) {
  Tensor t = empty(std::move(shape), dtype);
  std::memset(t.data_, 0, t.bytes());
  return t;
}

Tensor Tensor::view(Shape shape, DType dtype, void* memory, std::shared_ptr<void> keeper) {
  PLUMB_CHECK(memory != nullptr);
  Tensor t;
  t.shape_ = std::move(shape);
  t.dtype_ = dtype;
  t.data_ = memory;
  t.storage_ = std::move(keeper);
  return t;
}

Tensor Tensor::reshape(Shape shape) const {
  PLUMB_CHECK(shape.numel() == numel(), "{} as {}", shape_.str(), shape.str());
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

Tensor Tensor::rows_view(int64_t first, int64_t count) const {
  PLUMB_CHECK(shape_.rank() >= 1 && first >= 0 && count >= 0 && first + count <= shape_[0],
              "rows {}+{} of {}", first, count, shape_.str());
  auto dims = shape_.dims();
  const int64_t row = dims[0] == 0 ? 0 : numel() / dims[0];
  dims[0] = count;
  return view(Shape(dims), dtype_, static_cast<char*>(data_) + first * row * dtype_size(dtype_), storage_);
}

Tensor Tensor::clone() const {
  Tensor t = empty(shape_, dtype_);
  std::memcpy(t.data_, data_, bytes());
  return t;
}

void Tensor::set_requires_grad() {
  if (!gradient_) gradient_ = std::make_shared<Gradient>();
}

Tensor Tensor::without_grad() const {
  Tensor t = *this;
  t.gradient_.reset();
  return t;
}

Tensor Tensor::without_data() const {
  Tensor t = *this;
  t.data_ = nullptr;
  t.storage_.reset();
  return t;
}

Tensor Tensor::grad() const {
  if (!gradient_ || !gradient_->value || !gradient_->written) return {};
  return gradient_->value->reshape(shape_);
}

void Tensor::clear_grad() const {
  if (gradient_) gradient_->written = false;
}

}  // namespace plumb

#include "nn/parameter.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "kernels/unit.h"
#include "plumb/error.h"

namespace plumb {
namespace {

uint64_t name_hash(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

void draw(const Parameter& p, RandomKey key) {
  const int64_t outputs = p.in_out ? p.shape.width() : p.shape[0];
  const int64_t inputs = outputs == 0 ? 0 : p.shape.numel() / outputs;
  float* values = p.value.f32();
  int64_t first = 0;
  for (const InitPart& part : p.init) {
#pragma omp parallel for schedule(static)
    for (int64_t o = first; o < first + part.count; ++o) {
      for (int64_t i = 0; i < inputs; ++i) {
        const int64_t at = p.in_out ? i * outputs + o : o * inputs + i;
        values[at] = static_cast<float>(part.std * random_normal(key, static_cast<uint64_t>(o * inputs + i)));
      }
    }
    first += part.count;
  }
  PLUMB_CHECK(first == outputs, "init of {} covers {} of {} outputs", p.name, first, outputs);
}

template <class T>
void narrow(const Tensor& from, const Tensor& to, T (*rounded)(float)) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < from.numel(); ++i) to.data<T>()[i] = rounded(from.f32()[i]);
}

Tensor converted(const Tensor& t, DType dtype) {
  Tensor wide = t.dtype() == DType::f32 ? t : owned_f32(t);
  if (dtype == DType::f32) return wide;
  Tensor narrowed = Tensor::empty(t.shape(), dtype);
  if (dtype == DType::bf16) {
    narrow<BFloat16>(wide, narrowed, to_bf16);
  } else {
    PLUMB_CHECK(dtype == DType::f16, "weights in {}", dtype_name(dtype));
    narrow<Float16>(wide, narrowed, to_f16);
  }
  return narrowed;
}

bool overflows(const Tensor& f16) {
  const Float16* v = f16.data<Float16>();
  return std::any_of(v, v + f16.numel(), [](Float16 x) { return (x.bits & 0x7fffu) == 0x7c00u; });
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::matrix:
      return "matrix";
    case Role::embedding:
      return "embedding";
    case Role::bias:
      return "bias";
    case Role::gain:
      return "gain";
    case Role::gate:
      return "gate";
    case Role::statistic:
      return "statistic";
  }
  return "?";
}

ops::SigmaReparam Parameter::reparam() const {
  ops::SigmaReparam s{.gamma = gamma->value, .vectors = vectors->value, .outputs = {}};
  s.outputs.reserve(init.size());
  for (const InitPart& part : init) s.outputs.push_back(part.count);
  return s;
}

ops::AdapterWeights Parameter::adapter_weights() const {
  ops::AdapterWeights w{.a = adapter->a->value,
                        .b = adapter->b->value,
                        .scale = adapter->scale,
                        .dropout = adapter->dropout,
                        .site = adapter->site};
  if (!adapter->magnitude) return w;
  w.magnitude = adapter->magnitude->value;
  w.inverse_norm = adapter->inverse_norm->value;
  return w;
}

void Parameter::follow() const {
  if (gamma) ops::follow({.weight = value, .bias = {}, .in_out = in_out}, reparam());
  if (adapts && adapts->adapter->magnitude && role == Role::matrix)
    ops::follow({.weight = adapts->value, .bias = {}, .in_out = adapts->in_out}, adapts->adapter_weights());
}

double Parameter::make_unit(const float* update) const {
  if (unit == UnitLength::none) return 0;
  const bool by_row = in_out != (unit == UnitLength::of_outputs);  // the vector lies along a row
  return plumb::make_unit({.rows = value.rows(),
                           .width = value.width(),
                           .by_column = !by_row,
                           .x = value.f32(),
                           .update = update});
}

std::string Parameter::init_words() const {
  if (!starts_as.empty()) return std::string(starts_as);
  if (init.empty()) return fmt::format("{:.4g}", constant);
  std::string words;
  for (size_t i = 0; i < init.size(); ++i) {
    if (i > 0 && init[i].std == init[i - 1].std) continue;
    if (!words.empty()) words += " | ";
    words += fmt::format("N(0, {:.4g})", init[i].std);
  }
  if (unit != UnitLength::none) words += ", length 1";
  return words;
}

Parameter* ParameterTable::add(Parameter parameter) {
  PLUMB_CHECK(find(parameter.name) == nullptr, "parameter {} added twice", parameter.name);
  if (parameter.role == Role::statistic) parameter.trainable = false;
  parameters_.push_back(std::make_unique<Parameter>(std::move(parameter)));
  return parameters_.back().get();
}

Parameter* ParameterTable::find(std::string_view name) const {
  for (const auto& p : parameters_) {
    if (p->name == name) return p.get();
  }
  return nullptr;
}

void ParameterTable::initialize(uint64_t seed) {
  for (const auto& p : parameters_) {
    p->value = Tensor::empty(p->shape);
    if (!p->start.empty()) {
      PLUMB_CHECK(static_cast<int64_t>(p->start.size()) == p->value.numel(), "start of {}", p->name);
      std::copy(p->start.begin(), p->start.end(), p->value.f32());
    } else if (p->init.empty()) {
      std::fill_n(p->value.f32(), p->value.numel(), static_cast<float>(p->constant));
    } else {
      draw(*p, {seed, name_hash(p->name)});
      p->make_unit();
    }
  }
  for (const auto& p : parameters_) {
    if (!p->gamma) continue;
    draw(*p->vectors, {seed, name_hash(p->vectors->name)});
    ops::start({.weight = p->value, .bias = {}, .in_out = p->in_out}, p->reparam());
  }
  set_gradients();
}

void ParameterTable::hold_as(DType dtype) {
  for (const auto& p : parameters_) {
    if ((p->role != Role::matrix && p->role != Role::embedding) || p->value.dtype() == dtype) continue;
    const Tensor held = converted(p->value, dtype);
    if (dtype == DType::f16 && overflows(held)) {
      throw Error(ErrorKind::numeric,
                  fmt::format("{} has values beyond 65504, the largest that f16 holds: use bf16", p->name));
    }
    p->value = held;
  }
}

void ParameterTable::set_gradients() {
  for (const auto& p : parameters_) {
    if (!p->value.defined()) continue;
    if (p->trainable) {
      p->value.set_requires_grad();
    } else {
      p->value = p->value.without_grad();
    }
  }
}

bool ParameterTable::adapted() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const auto& p) { return p->adapter.has_value(); });
}

int64_t ParameterTable::count() const {
  int64_t n = 0;
  for (const auto& p : parameters_) n += p->trainable ? p->shape.numel() : 0;
  return n;
}

}  // namespace plumb

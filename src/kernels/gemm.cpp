#include "kernels/gemm.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "kernels/convert.h"
#include "kernels/gemv.h"
#include "kernels/pack.h"
#include "tensor/memory.h"

namespace plumb {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

void check_operand(const char* name, const MatrixOperand& x, int64_t rows, int64_t width) {
  if (x.transposed) std::swap(rows, width);
  PLUMB_CHECK(x.ld >= width, "{}: rows of {} are {} apart", name, width, x.ld);
  PLUMB_CHECK(x.dtype == DType::f32 || x.dtype == DType::bf16 || x.dtype == DType::f16, "{} is {}", name,
              dtype_name(x.dtype));
}

bool is_bf16_product(const Gemm& g) {
  return g.compute == DType::bf16 || g.a.dtype == DType::bf16 || g.b.dtype == DType::bf16;
}

// What the product is added to: the bias in every row, zeros, or C as it is.
void start_rows(const Gemm& g) {
  if (g.add && !g.bias) return;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < g.m; ++i) {
    float* row = g.c + i * g.ldc;
    if (!g.bias) {
      std::fill_n(row, g.n, 0.0f);
    } else if (!g.add) {
      std::copy_n(g.bias, g.n, row);
    } else {
      for (int64_t j = 0; j < g.n; ++j) row[j] += g.bias[j];
    }
  }
}

// An operand as f32 in memory: itself, or a copy in scratch that is widened, and rounded where the product is
// bf16.
struct F32Operand {
  F32Operand(const MatrixOperand& x, int64_t rows, int64_t width, bool round) {
    if (x.dtype == DType::f32 && !round) {
      data = static_cast<const float*>(x.data);
      ld = x.ld;
      return;
    }
    if (x.transposed) std::swap(rows, width);
    scratch = allocate_memory(rows * width * sizeof(float));
    data = static_cast<float*>(scratch.get());
    ld = width;
    widen({.src = x.data,
           .dtype = x.dtype,
           .rows = rows,
           .width = width,
           .ld = x.ld,
           .round_bf16 = round && x.dtype != DType::bf16,
           .dst = static_cast<float*>(scratch.get())});
  }
  const float* data;
  int64_t ld;
  std::shared_ptr<void> scratch;
};

// C (m, n) = A · B + beta · C.
struct Sgemm {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  bool a_transposed = false;
  const float* b = nullptr;
  int64_t ldb = 0;
  bool b_transposed = false;
  float* c = nullptr;
  int64_t ldc = 0;
  float beta = 0.0f;
};

// Row-major, on the threads that the library takes: all outside a parallel region, the calling one inside.
void library_sgemm(const Sgemm& g) {
  const auto status = dnnl_sgemm(g.a_transposed ? 'T' : 'N', g.b_transposed ? 'T' : 'N', g.m, g.n, g.k, 1.0f,
                                 g.a, g.lda, g.b, g.ldb, g.beta, g.c, g.ldc);
  PLUMB_CHECK(status == dnnl_success, "sgemm ({}, {}, {}) with rows {}, {}, {} apart: status {}", g.m, g.n,
              g.k, g.lda, g.ldb, g.ldc, static_cast<int>(status));
}

// Rows [begin, end) of the product.
Sgemm rows_of(const Sgemm& g, int64_t begin, int64_t end) {
  Sgemm part = g;
  part.m = end - begin;
  part.a += begin * (g.a_transposed ? 1 : g.lda);
  part.c += begin * g.ldc;
  return part;
}

// Columns [begin, end) of the product.
Sgemm columns_of(const Sgemm& g, int64_t begin, int64_t end) {
  Sgemm part = g;
  part.n = end - begin;
  part.b += begin * (g.b_transposed ? g.ldb : 1);
  part.c += begin;
  return part;
}

// Row-major, on all threads outside a parallel region and on the calling one inside. With few rows the
// library's own division among threads loses up to a sixth of its rate. Here each thread gets a share of the
// columns, so that B is packed once, or of the rows where those are so many that it does not matter.
void sgemm(const Sgemm& g) {
  constexpr int64_t kLeastRows = 512, kLeastColumns = 256, kUnit = 16;
  const int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  const bool by_rows = g.m >= kLeastRows * threads;
  if (threads == 1 || (!by_rows && g.n < kLeastColumns * threads)) return library_sgemm(g);
  const int64_t length = by_rows ? g.m : g.n;
  const int64_t share = ((length + threads - 1) / threads + kUnit - 1) / kUnit * kUnit;
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < threads; ++t) {
    const int64_t begin = std::min(t * share, length), end = std::min(begin + share, length);
    if (begin < end) library_sgemm(by_rows ? rows_of(g, begin, end) : columns_of(g, begin, end));
  }
}

// oneDNN's sgemm packs both operands itself and reaches its blocked-layout primitives' rate in every
// orientation. A product of two bf16 values is exact in f32, so a bf16 product is this one on rounded values.
void gemm_f32(const Gemm& g) {
  const bool round = is_bf16_product(g);
  const F32Operand a(g.a, g.m, g.k, round);
  const F32Operand b(g.b, g.k, g.n, round);
  if (g.bias) start_rows(g);
  sgemm({.m = g.m,
         .n = g.n,
         .k = g.k,
         .a = a.data,
         .lda = a.ld,
         .a_transposed = g.a.transposed,
         .b = b.data,
         .ldb = b.ld,
         .b_transposed = g.b.transposed,
         .c = g.c,
         .ldc = g.ldc,
         .beta = g.add || g.bias ? 1.0f : 0.0f});
}

Type type_of(DType t) {
  return t == DType::f32 ? Type::f32 : t == DType::bf16 ? Type::bf16 : Type::f16;
}

Desc operand_desc(const MatrixOperand& x, int64_t rows, int64_t width) {
  return Desc({rows, width}, type_of(x.dtype), x.transposed ? Dims{1, x.ld} : Dims{x.ld, 1});
}

dnnl::matmul::primitive_desc matmul_desc(const Desc& a, const Desc& b, const Desc& bias, const Desc& c,
                                         const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine(), a, b, bias, c, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, bias, c), attributes, engine());
#endif
}

dnnl::memory memory_at(const Desc& d, const void* data) {
  return {d, engine(), const_cast<void*>(data)};
}

struct LibraryScratch {
  explicit LibraryScratch(const Desc& d)
      : keeper(allocate_memory(d.get_size())), memory(memory_at(d, keeper.get())) {}
  std::shared_ptr<void> keeper;
  dnnl::memory memory;
};

enum class Side { left, right };

// What brings an operand (rows, width) into the layout that the bf16 primitive wants: pack_bf16, which runs
// at 1.5 to 3 times the rate of oneDNN's reorder, or that reorder where pack_bf16 does not know the layout.
class Bf16Operand {
 public:
  Bf16Operand(Side side, const MatrixOperand& x, int64_t rows, int64_t width, const Desc& wanted)
      : given_(operand_desc(x, rows, width)), wanted_(wanted) {
    const auto is = [&](Tag tag) { return wanted == Desc({rows, width}, Type::bf16, tag); };
    const bool right = side == Side::right;
    packs_ = !right && is(Tag::ab);
    pack_ = {.n = right ? width : rows, .k = right ? rows : width, .k_contiguous = right == x.transposed};
    for (const auto& [panel, tag] : {std::pair{16, Tag::BA16a16b2a},
                                     {32, Tag::BA16a32b2a},
                                     {48, Tag::BA16a48b2a},
                                     {64, Tag::BA16a64b2a}}) {
      if (!right || !is(tag)) continue;
      packs_ = true;
      pack_.panel = panel;
    }
    if (packs_ || given_ == wanted_) return;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc pd(engine(), given_, engine(), wanted_, attributes);
    scratchpad_ = pd.scratchpad_desc();
    reorder_ = dnnl::reorder(pd);
  }

  // x as wanted; `keeper` owns the memory unless x is so already.
  dnnl::memory ready(const MatrixOperand& x, const dnnl::stream& stream,
                     std::shared_ptr<void>& keeper) const {
    if (given_ == wanted_) return memory_at(given_, x.data);
    keeper = allocate_memory(wanted_.get_size());
    dnnl::memory made = memory_at(wanted_, keeper.get());
    if (packs_) {
      PackBf16 pack = pack_;
      pack.src = x.data;
      pack.dtype = x.dtype;
      pack.ld = x.ld;
      pack.dst = static_cast<BFloat16*>(keeper.get());
      pack_bf16(pack);
      return made;
    }
    const LibraryScratch scratchpad(scratchpad_);
    reorder_.execute(stream, {{DNNL_ARG_FROM, memory_at(given_, x.data)},
                              {DNNL_ARG_TO, made},
                              {DNNL_ARG_SCRATCHPAD, scratchpad.memory}});
    return made;
  }

 private:
  Desc given_, wanted_, scratchpad_;
  bool packs_ = false;
  PackBf16 pack_;
  dnnl::reorder reorder_;
};

// The bf16 primitive with both operands in the layout it asks for.
class Bf16Matmul {
 public:
  explicit Bf16Matmul(const Gemm& g) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (g.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    c_ = Desc({g.m, g.n}, Type::f32, Dims{g.ldc, 1});
    bias_ = g.bias ? Desc({1, g.n}, Type::f32, Tag::ab) : Desc();
    const auto pd = matmul_desc(Desc({g.m, g.k}, Type::bf16, Tag::any),
                                Desc({g.k, g.n}, Type::bf16, Tag::any), bias_, c_, attributes);
    scratchpad_ = pd.scratchpad_desc();
    matmul_ = dnnl::matmul(pd);
    a_.emplace(Side::left, g.a, g.m, g.k, pd.src_desc());
    b_.emplace(Side::right, g.b, g.k, g.n, pd.weights_desc());
  }

  void execute(const Gemm& g) const {
    dnnl::stream stream(engine());
    const LibraryScratch scratchpad(scratchpad_);
    std::shared_ptr<void> a, b;
    std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, a_->ready(g.a, stream, a)},
                                                       {DNNL_ARG_WEIGHTS, b_->ready(g.b, stream, b)},
                                                       {DNNL_ARG_DST, memory_at(c_, g.c)},
                                                       {DNNL_ARG_SCRATCHPAD, scratchpad.memory}};
    if (g.bias) arguments.emplace(DNNL_ARG_BIAS, memory_at(bias_, g.bias));
    matmul_.execute(stream, arguments);
    stream.wait();
  }

 private:
  Desc bias_, c_, scratchpad_;
  dnnl::matmul matmul_;
  std::optional<Bf16Operand> a_, b_;
};

// Making a primitive costs about as much as a small product: the last few hundred are kept.
std::shared_ptr<const Bf16Matmul> cached_matmul(const Gemm& g) {
  constexpr size_t kMost = 256;
  const auto key = std::tuple(g.m, g.n, g.k, g.a.dtype, g.a.ld, g.a.transposed, g.b.dtype, g.b.ld,
                              g.b.transposed, g.ldc, g.bias != nullptr, g.add, omp_get_max_threads());
  static std::mutex mutex;
  static auto& cache = *new std::map<std::remove_const_t<decltype(key)>, std::shared_ptr<const Bf16Matmul>>;
  std::lock_guard lock(mutex);
  auto it = cache.find(key);
  if (it == cache.end()) {
    if (cache.size() >= kMost) cache.clear();
    it = cache.emplace(key, std::make_shared<const Bf16Matmul>(g)).first;
  }
  return it->second;
}

// AMX, and AMD's bf16 instructions, double the f32 rate and more; Intel's without AMX reach half of it.
bool bf16_primitive_pays() {
#if defined(__x86_64__)
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [isa](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  return has(dnnl::cpu_isa::avx512_core_amx) ||
         (has(dnnl::cpu_isa::avx512_core_bf16) && __builtin_cpu_is("amd"));
#else
  return false;
#endif
}

// GF/s, held for a while: a processor is faster for the few milliseconds of one product.
double held_rate(int64_t m, int64_t n, int64_t k, const std::function<void()>& product) {
  using Clock = std::chrono::steady_clock;
  product();
  const auto start = Clock::now();
  double seconds = 0;
  int runs = 0;
  for (; seconds < 0.15 || runs < 2; ++runs) {
    product();
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return 2e-9 * static_cast<double>(m) * n * k * runs / seconds;
}

double rate_of_sgemm(int64_t m, int64_t n, int64_t k) {
  const std::vector<float> a(m * k, 0.5f), b(k * n, 0.25f);
  std::vector<float> c(m * n);
  return held_rate(m, n, k, [&] {
    sgemm({.m = m,
           .n = n,
           .k = k,
           .a = a.data(),
           .lda = k,
           .b = b.data(),
           .ldb = k,
           .b_transposed = true,
           .c = c.data(),
           .ldc = n});
  });
}

double rate_of_matmul(int64_t m, int64_t n, int64_t k, Type type) {
  const auto pd = matmul_desc(Desc({m, k}, type, Tag::any), Desc({k, n}, type, Tag::any), Desc(),
                              Desc({m, n}, Type::f32, Tag::any), {});
  const dnnl::matmul matmul(pd);
  const auto operand = [](const Desc& d) {
    dnnl::memory x(d, engine());
    std::memset(x.get_data_handle(), 0x3c, d.get_size());  // a normal number in f32 and bf16
    return x;
  };
  const std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, operand(pd.src_desc())},
                                                           {DNNL_ARG_WEIGHTS, operand(pd.weights_desc())},
                                                           {DNNL_ARG_DST, operand(pd.dst_desc())}};
  dnnl::stream stream(engine());
  return held_rate(m, n, k, [&] {
    matmul.execute(stream, arguments);
    stream.wait();
  });
}

}  // namespace

namespace detail {

bool bf16_primitive_exists() {
#if defined(__x86_64__)
  const auto core = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & core) == core;
#else
  return false;
#endif
}

void gemm_bf16_primitive(const Gemm& g) {
  cached_matmul(g)->execute(g);
}

}  // namespace detail

void gemm(const Gemm& g) {
  PLUMB_CHECK(g.m >= 0 && g.n >= 0 && g.k >= 0, "({}, {}, {})", g.m, g.n, g.k);
  PLUMB_CHECK(g.compute == DType::f32 || g.compute == DType::bf16, "compute is {}", dtype_name(g.compute));
  PLUMB_CHECK(g.ldc >= g.n, "C: rows of {} are {} apart", g.n, g.ldc);
  check_operand("A", g.a, g.m, g.k);
  check_operand("B", g.b, g.k, g.n);
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) return start_rows(g);
  if (gemv_suits(g)) return gemv(g);
  static const bool pays = bf16_primitive_pays();
  const bool widened = g.a.dtype == DType::f16 || g.b.dtype == DType::f16;
  if (pays && is_bf16_product(g) && !widened) return detail::gemm_bf16_primitive(g);
  gemm_f32(g);
}

double gemm_peak(DType compute) {
  const bool bf16 = compute == DType::bf16 && detail::bf16_primitive_exists();
  double best = 0;
  for (const auto [m, n, k] : {std::array<int64_t, 3>{2048, 2304, 768}, {2048, 768, 3072}}) {
    if (bf16) {
      best = std::max(best, rate_of_matmul(m, n, k, Type::bf16));
    } else {
      best = std::max({best, rate_of_matmul(m, n, k, Type::f32), rate_of_sgemm(m, n, k)});
    }
  }
  return best;
}

int gemm_threads() {
  return omp_get_max_threads();
}

}  // namespace plumb

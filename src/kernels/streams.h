// Hyper-connections (Zhu 2024, 2409.19606) and mHC (Xie 2025, 2512.24880): n residual streams of width C side
// by side, x (N, n, C), and of each row a map that says what a branch reads of them and how its output and
// they themselves make the next ones:
//   h = sum_j pre[j] x[j]        x'[i] = sum_j res[i, j] x[j] + g post[i] branch,   branch = F(h)
// pre and post are (N, n), res is (N, n, n). 1 <= n <= kMostStreams of sinkhorn.h. All f32, contiguous, at
// any address. Each add_*: false overwrites, true adds; a null output is not computed. Outputs do not overlap
// inputs. Threads: OpenMP inside; no result depends on their number, bit for bit.
#pragma once

#include <cstdint>

namespace plumb {

enum class MapKind {
  free,               // each of them a = scale tanh(z) + base
  doubly_stochastic,  // with a = scale z + base: pre = sigmoid(a), post = 2 sigmoid(a), res =
                      // Sinkhorn(exp(a))
};

// The maps of each row. z is what a linear map made of the row: of each stream apart, (N, n, 2 + n) with its
// elements of pre, of post and of each row of res, where free; (N, 2n + n²), pre, post, res, where doubly
// stochastic. base (2n + n²) in that order; scale (3), of pre, post and res.
struct MapsForward {
  MapKind kind = MapKind::free;
  int64_t rows = 0, n = 0;
  const float* z = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
  float* pre = nullptr;
  float* post = nullptr;
  float* res = nullptr;
};
void maps_forward(const MapsForward& a);

struct MapsBackward {
  MapKind kind = MapKind::free;
  int64_t rows = 0, n = 0;
  const float* z = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
  const float* dpre = nullptr;  // null: nothing arrived; the same of the others
  const float* dpost = nullptr;
  const float* dres = nullptr;
  float* dz = nullptr;
  float* dbase = nullptr;
  float* dscale = nullptr;
  bool add_z = false, add_base = false, add_scale = false;
};
void maps_backward(const MapsBackward& a);

struct ReadForward {
  int64_t rows = 0, n = 0, width = 0;
  const float* x = nullptr;
  const float* pre = nullptr;
  float* h = nullptr;  // (N, C)
};
void read_forward(const ReadForward& a);

struct ReadBackward {
  int64_t rows = 0, n = 0, width = 0;
  const float* x = nullptr;  // for dpre
  const float* pre = nullptr;
  const float* dh = nullptr;
  float* dx = nullptr;
  float* dpre = nullptr;
  bool add_x = false, add_pre = false;
};
void read_backward(const ReadBackward& a);

struct WriteForward {
  int64_t rows = 0, n = 0, width = 0;
  const float* x = nullptr;
  const float* branch = nullptr;  // (N, C)
  const float* post = nullptr;
  const float* res = nullptr;
  float gate = 1;
  float* y = nullptr;  // (N, n, C)
};
void write_forward(const WriteForward& a);

struct WriteBackward {
  int64_t rows = 0, n = 0, width = 0;
  const float* x = nullptr;
  const float* branch = nullptr;
  const float* post = nullptr;
  const float* res = nullptr;
  float gate = 1;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dbranch = nullptr;
  float* dpost = nullptr;
  float* dres = nullptr;
  bool add_x = false, add_branch = false, add_post = false, add_res = false;
};
void write_backward(const WriteBackward& a);

// Where a stack begins and ends: streams[i] = factor one for each i, and one = factor sum_i streams[i]; each
// is the other's backward. One is (N, C), the streams (N, n, C).
struct Replicate {
  int64_t rows = 0, n = 0, width = 0;
  const float* from = nullptr;
  float factor = 1;
  float* to = nullptr;
  bool add = false;
};
void replicate(const Replicate& a);    // one to streams
void sum_streams(const Replicate& a);  // streams to one

}  // namespace plumb

// Training the battery's small models on characters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/file.h"
#include "base/parallel.h"
#include "base/random.h"
#include "lab/battery.h"
#include "model/profile.h"
#include "plumb/error.h"
#include "plumb/signal.h"
#include "train/optimizer.h"

namespace plumb::battery {
namespace {

// 96 ids: the 95 printable ones, and one for every blank that ends a line. -1: none.
int32_t id_of(char c) {
  if (c >= 32 && c < 127) return c - 32;
  return c == '\n' ? 95 : -1;
}

// Sees queries and keys of every attention, and keeps the extremes.
struct AttentionWatch : Observer {
  explicit AttentionWatch(int64_t heads_of_a_layer) : heads(heads_of_a_layer) {}
  bool closely() const override { return true; }
  void forward(const Site& site, const Tensor& value) override {
    const std::string_view quantity = site.quantity;
    if (quantity == "q") q = value;
    if (quantity == "k") look(value);
  }
  void backward(const Site&, const Tensor&, const Tensor&) override {}

  // q, k (B, T, H D), causal.
  void look(const Tensor& k) {
    const int64_t rows = q.size(0), length = q.size(1), width = q.size(2), dim = width / heads;
    double sum = 0;
    int64_t count = 0;
    std::vector<double> logits(static_cast<size_t>(length));
    for (int64_t b = 0; b < rows; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t t = 1; t < length; ++t) {
          const float* query = q.f32() + (b * length + t) * width + h * dim;
          for (int64_t s = 0; s <= t; ++s) {
            const float* key = k.f32() + (b * length + s) * width + h * dim;
            logits[static_cast<size_t>(s)] =
                std::inner_product(query, query + dim, key, 0.0) / std::sqrt(static_cast<double>(dim));
          }
          sum += entropy(logits.data(), t + 1) / std::log(static_cast<double>(t + 1));
          ++count;
        }
      }
    }
    state.entropy = std::min(state.entropy, sum / static_cast<double>(count));
  }

  double entropy(const double* logits, int64_t n) {
    const auto [least, most] = std::minmax_element(logits, logits + n);
    state.largest_logit = std::max({state.largest_logit, -*least, *most});
    double z = 0, weighted = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double e = std::exp(logits[i] - *most);
      z += e;
      weighted += e * (logits[i] - *most);
    }
    return std::log(z) - weighted / z;
  }

  int64_t heads;
  Tensor q;
  AttentionState state{.entropy = 1};
};

double mean_log_z(const Transformer& model, const Rows& rows) {
  Context context;
  const Tensor logits = model.logits(context, output_of(model, rows));
  double sum = 0;
  for (int64_t r = 0; r < logits.rows(); ++r) {
    const float* row = logits.f32() + r * logits.width();
    const double most = *std::max_element(row, row + logits.width());
    double z = 0;
    for (int64_t v = 0; v < logits.width(); ++v) z += std::exp(row[v] - most);
    sum += most + std::log(z);
  }
  return sum / static_cast<double>(logits.rows());
}

double step(Transformer& model, Optimizer& optimizer, const Rows& rows, const Schedule& s, int64_t number) {
  Tape tape;
  Context context{.tape = &tape, .training = true};
  const double scale = 1.0 / static_cast<double>(rows.targets.numel());
  const Tensor h = model.decode(context, {.ids = rows.ids});
  const LossSums sums = model.loss(context, h, rows.targets, {.z_loss = s.z_loss, .scale = scale});
  tape.backward();
  const double clip = s.wortsman ? clip_factor(gradient_norm(model.parameters()), 1) : 1;
  optimizer.step(rate_factor(s, number), clip);
  return sums.nll * scale;
}

Trained train(const Characters& text, const Job& job) {
  const auto model = started(job.config, job.start);
  const Schedule& s = job.schedule;
  if (wants_profile(job.config)) {
    profile_shortcuts(
        *model, [&](Context& context) { model->decode(context, {.ids = text.rows(s.seed, 1, s.rows).ids}); });
  }
  Optimizer optimizer(model->parameters(), {.lr = s.lr,
                                            .beta1 = 0.9,
                                            .beta2 = s.wortsman ? 0.95 : 0.98,
                                            .weight_decay = s.wortsman ? 1e-4 / s.lr : 0});
  Trained result;
  for (int64_t i = 1; i <= s.steps; ++i) {
    if (stop_requested()) throw Error(ErrorKind::interrupted, "stopped");
    result.losses.push_back(
        step(*model, optimizer, text.rows(s.seed, static_cast<uint64_t>(i), s.rows), s, i));
    if (!std::isfinite(result.losses.back())) break;
  }
  const size_t last = std::min<size_t>(20, result.losses.size());
  result.loss = std::accumulate(result.losses.end() - static_cast<int64_t>(last), result.losses.end(), 0.0) /
                static_cast<double>(last);
  if (job.inspect) job.inspect(*model);
  if (!job.watched) return result;
  const Rows seen = text.rows(s.seed + 1000, 0, 4);
  AttentionWatch watch(job.config.layer.heads);
  Context context{.observer = &watch};
  model->decode(context, {.ids = seen.ids});
  result.attention = watch.state;
  result.log_z = mean_log_z(*model, seen);
  return result;
}

}  // namespace

double bounded_loss(const Trained& t) {
  const double start = t.losses.front();
  return std::isfinite(t.loss) ? std::min(t.loss, start) : start;
}

double rate_factor(const Schedule& s, int64_t number) {
  if (number < s.warmup) return static_cast<double>(number) / static_cast<double>(s.warmup);
  if (!s.wortsman) return 1;
  const double done = static_cast<double>(number - s.warmup) / static_cast<double>(s.steps - s.warmup);
  const double least = 1e-5 / s.lr;
  return least + (1 - least) * (1 + std::cos(std::acos(-1.0) * done)) / 2;
}

namespace {

// A number below `count` with probabilities in proportion to 1 / (number + flat): Zipf's law as Mandelbrot
// has it.
class Zipf {
 public:
  Zipf(int64_t count, double flat) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) below_.push_back(sum += 1 / (static_cast<double>(i) + flat));
    for (double& b : below_) b /= sum;
  }
  int64_t at(double uniform) const {
    return std::min<int64_t>(std::upper_bound(below_.begin(), below_.end(), uniform) - below_.begin(),
                             static_cast<int64_t>(below_.size()) - 1);
  }

 private:
  std::vector<double> below_;
};

// A text that is the same on every machine: words of 2 to 7 symbols, each followed by id 0, in Zipf's order
// of frequency. As hard as the text of the calibrated figures: without context 3.39 nats, and a pre-norm
// model of 6 layers ends near 1.8 after 300 steps.
std::vector<int32_t> made_text() {
  constexpr int64_t kWords = 250, kSymbols = 95;
  constexpr size_t kSize = 1'000'000;
  const Zipf symbols(kSymbols, 1.5), words(kWords, 3);
  std::vector<std::vector<int32_t>> list;
  for (uint64_t w = 0; w < kWords; ++w) {
    const RandomKey key{17, random_stream(1, w)};
    const uint64_t length = 2 + random_below(key, 0, 6);
    list.emplace_back();
    for (uint64_t i = 1; i <= length; ++i)
      list.back().push_back(static_cast<int32_t>(1 + symbols.at(random_uniform(key, i))));
    list.back().push_back(0);
  }
  std::vector<int32_t> ids;
  for (uint64_t i = 0; ids.size() < kSize; ++i) {
    const auto& word = list[static_cast<size_t>(words.at(random_uniform({17, 2}, i)))];
    ids.insert(ids.end(), word.begin(), word.end());
  }
  return ids;
}

std::vector<int32_t> text_of(const std::string& path) {
  constexpr size_t kMost = 8'000'000;
  std::vector<int32_t> ids;
  for (const std::string& file : is_folder(path) ? list_files(path) : std::vector<std::string>{path}) {
    const MappedFile map(file);
    if (map.bytes().find('\0') != std::string_view::npos) continue;
    for (const char c : map.bytes()) {
      if (const int32_t id = id_of(c); id >= 0) ids.push_back(id);
    }
    if (ids.size() > kMost) break;
  }
  if (ids.size() < 100 * kLength) {
    throw Error(ErrorKind::input,
                fmt::format("{} has {} printable characters: the battery trains on {} or more", path,
                            ids.size(), 100 * kLength));
  }
  return ids;
}

}  // namespace

Characters::Characters(const std::string& text_path)
    : ids_(text_path.empty() ? made_text() : text_of(text_path)) {
  std::vector<int64_t> counts(kVocabulary);
  for (const int32_t id : ids_) ++counts[static_cast<size_t>(id)];
  for (const int64_t n : counts) {
    const double share = static_cast<double>(n) / static_cast<double>(ids_.size());
    if (n > 0) entropy_ -= share * std::log(share);
  }
}

Rows Characters::rows(uint64_t seed, uint64_t step, int64_t count, int64_t length) const {
  Rows r{Tensor::empty({count, length}, DType::i32), Tensor::empty({count * length}, DType::i32)};
  for (int64_t b = 0; b < count; ++b) {
    const uint64_t at = random_below({seed, random_stream(step)}, static_cast<uint64_t>(b),
                                     ids_.size() - static_cast<uint64_t>(length) - 1);
    for (int64_t t = 0; t < length; ++t) {
      r.ids.data<int32_t>()[b * length + t] = ids_[at + static_cast<uint64_t>(t)];
      r.targets.data<int32_t>()[b * length + t] = ids_[at + static_cast<uint64_t>(t) + 1];
    }
  }
  return r;
}

std::vector<Trained> train_all(const Characters& text, const std::vector<Job>& jobs) {
  // The longest first, so that threads end at nearly one time.
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto cost = [&](size_t i) {
    return jobs[i].config.decoder_layers * jobs[i].schedule.steps * jobs[i].schedule.rows;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cost(a) > cost(b); });
  std::vector<Trained> results(jobs.size());
  parallel_for(order.size(), [&](size_t i, size_t) { results[order[i]] = train(text, jobs[order[i]]); });
  return results;
}

}  // namespace plumb::battery

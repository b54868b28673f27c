#include "train/metrics.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/file.h"
#include "base/json.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// The step of a whole line, or -1.
int64_t step_of(std::string_view line) {
  const Json j = Json::parse(line, nullptr, false);
  if (!j.is_object() || !j.contains("step") || !j.at("step").is_number_integer()) return -1;
  return j.at("step");
}

}  // namespace

void MetricsFile::truncate(int64_t step) {
  file_.reset();
  if (!path_exists(path_)) return;
  const std::string all = read_file(path_);
  std::string kept;
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\n', at);
    if (end == std::string::npos) break;
    const std::string_view line(all.data() + at, end - at);
    const int64_t found = step_of(line);
    if (found >= 0 && found <= step) kept.append(line).push_back('\n');
    at = end + 1;
  }
  if (kept.size() != all.size()) write_file_atomically(path_, kept);
}

void MetricsFile::append(std::string line) {
  line.push_back('\n');
  if (!file_) file_.reset(std::fopen(path_.c_str(), "ae"));
  if (!file_ || std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
      std::fflush(file_.get()) != 0) {
    throw Error(ErrorKind::file, "cannot write " + path_ + ": " + std::strerror(errno));
  }
}

void MetricsFile::add(const StepMetrics& m) {
  OrderedJson j;
  j["step"] = m.step;
  j["loss"] = m.loss;
  j["nll"] = m.nll;
  if (m.balance != 0) j["balance"] = m.balance;
  j["lr"] = m.learning_rate;
  j["grad_norm"] = m.gradient_norm;
  j["tokens"] = m.tokens;
  j["seconds"] = m.seconds;
  if (m.skipped) j["skipped"] = true;
  if (m.spike) j["spike"] = true;
  append(dump_json(j, -1));
}

void MetricsFile::add(int64_t step, const Evaluation& e) {
  OrderedJson j;
  j["step"] = step;
  j["validation_loss"] = e.loss;
  j["perplexity"] = e.perplexity;
  if (e.bits_per_byte) j["bits_per_byte"] = *e.bits_per_byte;
  j["accuracy"] = e.accuracy;
  if (e.exact) j["exact"] = *e.exact;
  j["seconds"] = e.seconds;
  append(dump_json(j, -1));
}

}  // namespace plumb

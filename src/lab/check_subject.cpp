// Reads as much of a folder as can be read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "lab/check.h"
#include "model/config_json.h"
#include "model/families.h"
#include "model/tensor_names.h"
#include "model/weight_files.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr int64_t kSampleTokens = 128;
constexpr const char* kSampleText =
    "When the storm had passed, the keeper of the lighthouse climbed the stairs again. There were two "
    "hundred and twelve of them, and he had counted them every day for thirty years. \"The lamp,\" he said "
    "to himself, \"the lamp has never gone out, and it will not go out tonight.\" He lit it, sat down beside "
    "it, and wrote the date, the hour and the direction of the wind into the book that lay beside the lamp.";

// An object of the folder; an empty one where there is no such file.
JsonFields read_fields(const std::string& folder, const char* name) {
  const std::string path = join_path(folder, name);
  if (!path_exists(path)) return {Json::object(), path};
  return {parse_json_file(path), path};
}

// The config without validate(), so that what cannot be is still there to look at.
void read_config_of(CheckSubject& s, const std::string& path) try {
  const std::string type = s.json.text("model_type", "");
  const Family& f = family(type);
  ModelConfig config = f.read ? f.read(s.json) : config_from_json(read_file(path));
  take_config(s, config);
} catch (const Error&) {  // said by the load
}

Role guessed_role(const std::string& name, const Shape& shape) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto has = [&](const char* part) { return lower.find(part) != std::string::npos; };
  if (lower.ends_with("bias") || lower.ends_with("beta")) return Role::bias;
  if (shape.rank() <= 1) return has("norm") || has("ln_") || has("gamma") ? Role::gain : Role::statistic;
  for (const char* part :
       {"embed", "wte", "wpe", "shared.weight", "lm_head", "predictions.decoder", "relative_attention_bias"})
    if (has(part)) return Role::embedding;
  return Role::matrix;
}

void measure(CheckTensor& t) {
  const Tensor wide = t.f32();
  const float* x = wide.f32();
  const int64_t n = wide.numel();
  t.moments = moments(n, x);
  t.low = std::numeric_limits<double>::infinity();
  t.high = -t.low;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isfinite(x[i])) {
      t.low = std::min<double>(t.low, x[i]);
      t.high = std::max<double>(t.high, x[i]);
    }
    if (std::abs(x[i]) == 65504.0f || (t.value.dtype() == DType::f16 && std::isinf(x[i]))) ++t.saturated;
  }
  t.hash = hash_bytes({static_cast<const char*>(t.value.raw()), t.value.bytes()});
}

void read_tensors(CheckSubject& s) {
  std::optional<TensorNames> names;
  if (s.table) names.emplace(*s.config, s.table->parameters());
  for (const TensorFile& file : open_weights(s.folder)) {
    for (const TensorFile::Entry& entry : file.entries()) {
      const bool floats =
          entry.dtype == DType::f32 || entry.dtype == DType::f16 || entry.dtype == DType::bf16;
      if (!floats || entry.shape.numel() == 0) continue;
      if (names && names->ignored(entry.name)) continue;
      const FileTensor* known = names ? names->tensor(entry.name) : nullptr;
      const bool copy = names && names->copy_of(entry.name) != nullptr;
      const bool fits = known && known->slices == 1 && entry.shape == known->shape;
      for (size_t i = 0; i < (fits ? known->parts.size() : 1); ++i) {
        CheckTensor t{.name = entry.name, .copy = copy, .role = guessed_role(entry.name, entry.shape)};
        t.value = fits ? known->part(file.tensor(entry), i) : file.tensor(entry);
        t.stored_shape = entry.shape;
        if (known) t.parameter = known->parts[i];
        if (t.parameter) t.role = t.parameter->role;
        measure(t);
        s.tensors.push_back(std::move(t));
      }
    }
  }
}

void read_tokenizer(CheckSubject& s) try {
  if (Tokenizer::is_in(s.folder)) s.tokenizer = Tokenizer::load(s.folder);
} catch (const Error& error) {
  s.lost.emplace_back(error.what());
}

struct Sample {
  std::vector<int32_t> ids;
  bool is_text = false;  // else ids scattered over the vocabulary
};

// A text that was given has to be one that the tokenizer can spell; in place of ours ids will do.
Sample sample_of(const CheckSubject& s, const std::string& text) {
  const ModelConfig& c = s.model->config();
  Sample sample;
  if (s.tokenizer) try {
      sample = {s.tokenizer->encode(text.empty() ? kSampleText : text), true};
    } catch (const Error&) {
      if (!text.empty()) throw;
    }
  std::vector<int32_t>& ids = sample.ids;
  std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= c.vocab_size; });
  for (int64_t i = 0; !sample.is_text && i < kSampleTokens; ++i)
    ids.push_back(static_cast<int32_t>((i * 7919 + 13) % c.vocab_size));
  const int64_t most = std::min(kSampleTokens, c.max_length);
  if (std::ssize(ids) > most) ids.resize(static_cast<size_t>(most));
  return sample;
}

void run_sample(CheckSubject& s, const CheckOptions& options) {
  const Sample sample = sample_of(s, options.text);
  if (sample.ids.size() < 2) return;
  const ModelConfig& c = s.model->config();
  const bool both = c.has_encoder() && c.has_decoder();
  probe_pass(s.model->transformer(), {sample.ids, both ? sample.ids : std::vector<int32_t>()},
             options.observer);
  s.pass = check_pass(s.model->transformer(), sample.ids, sample.is_text);
}

}  // namespace

double CheckTensor::std() const {
  return std::sqrt(std::max(0.0, moments.rms * moments.rms - moments.mean * moments.mean));
}

Tensor CheckTensor::f32() const {
  return value.dtype() == DType::f32 ? value : owned_f32(value);
}

std::string CheckSubject::model_type() const {
  return json.raw("model_type").is_string() ? json.text("model_type", "") : config ? config->model_type : "";
}

bool CheckSubject::untrained() const {
  int64_t seen = 0;
  for (const CheckTensor& t : tensors) {
    if (!t.parameter || t.role == Role::matrix || t.role == Role::embedding) continue;
    if (t.low != t.parameter->constant || t.high != t.parameter->constant) return false;
    ++seen;
  }
  return seen > 0;
}

const CheckTensor* CheckSubject::find(const std::string& parameter) const {
  for (const CheckTensor& t : tensors) {
    if (t.parameter && t.parameter->name == parameter) return &t;
  }
  return nullptr;
}

std::string take_config(CheckSubject& s, const ModelConfig& config) {
  const auto within = [](int64_t value, int64_t most) { return value >= 0 && value <= most; };
  const LayerConfig& l = config.layer;
  const bool countable = within(config.encoder_layers, 100000) && within(config.decoder_layers, 100000) &&
                         within(config.width, 1 << 20) && within(config.vocab_size, 1 << 28) &&
                         within(config.max_length, 1 << 24) && within(l.heads, 1 << 16) &&
                         within(l.kv_heads, 1 << 16) && within(l.head_dim, 1 << 16) &&
                         within(l.experts, 4096);
  if (countable) s.config = config;
  try {
    validate(config);
    s.valid = true;
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

CheckSubject read_tokenizer_subject(const std::string& path) {
  const std::string folder = is_folder(path) ? path : parent_folder(path);
  CheckSubject s{.folder = folder,
                 .json = read_fields(folder, "config.json"),
                 .generation = read_fields(folder, "generation_config.json"),
                 .tokenizer_config = read_fields(folder, "tokenizer_config.json")};
  s.tokenizer = Tokenizer::load(path);
  if (path_exists(join_path(folder, "config.json"))) read_config_of(s, join_path(folder, "config.json"));
  return s;
}

CheckSubject read_subject(const std::string& folder, const CheckOptions& options) {
  const std::string path = join_path(folder, "config.json");
  CheckSubject s{.folder = folder,
                 .json = JsonFields(parse_json_file(path), path),
                 .generation = read_fields(folder, "generation_config.json"),
                 .tokenizer_config = read_fields(folder, "tokenizer_config.json"),
                 .training = options.training};
  const LogLevel level = log_level();
  set_log_level(LogLevel::error);  // what loading warns of is about running
  read_config_of(s, path);
  try {
    s.model = Model::load(folder);
  } catch (const Error& error) {
    s.load_error = error.what();
    s.unsupported = error.kind() == ErrorKind::unsupported;
  }
  set_log_level(level);
  if (s.valid) s.table = std::make_unique<Transformer>(*s.config);
  try {
    read_tensors(s);
  } catch (const Error& error) {
    s.unread.insert(error.what());
  }
  read_tokenizer(s);
  if (s.model) run_sample(s, options);
  return s;
}

}  // namespace plumb

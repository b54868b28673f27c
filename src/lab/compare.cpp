#include "plumb/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "lab/compare_data.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr double kActivations = 1e-4, kWeights = 1e-6;

void require_same(const char* what, int64_t a, int64_t b, const CompareOptions& o) {
  if (a == b) return;
  throw Error(ErrorKind::input,
              fmt::format("the models are not of one shape: {} has {} {}, {} has {}", o.a, a, what, o.b, b));
}

void require_one_shape(const ModelConfig& a, const ModelConfig& b, const CompareOptions& o) {
  require_same("encoder layers", a.encoder_layers, b.encoder_layers, o);
  require_same("decoder layers", a.decoder_layers, b.decoder_layers, o);
  require_same("columns of the stream (width)", a.width, b.width, o);
  require_same("tokens in its vocabulary", a.vocab_size, b.vocab_size, o);
}

std::vector<std::string> config_differences(const ModelConfig& a, const ModelConfig& b) {
  const Json ja = parse_json(to_json(a), "a"), jb = parse_json(to_json(b), "b");
  std::vector<std::string> lines;
  for (const auto& [key, value] : ja.items()) {
    const Json other = jb.value(key, Json());
    if (value != other)
      lines.push_back(fmt::format("{}: {} / {}", key, dump_json(value, -1), dump_json(other, -1)));
  }
  for (const auto& [key, value] : jb.items()) {
    if (!ja.contains(key)) lines.push_back(fmt::format("{}: unset / {}", key, dump_json(value, -1)));
  }
  return lines;
}

// Of a stack ("decoder") its own parameters, not those of its layers.
bool belongs_to(const std::string& parameter, const std::string& module) {
  if (!parameter.starts_with(module + ".")) return false;
  const bool is_stack = module.find('.') == std::string::npos;
  return !is_stack || std::isdigit(static_cast<unsigned char>(parameter[module.size() + 1])) == 0;
}

// One fault, seen from either side that has a model.
std::optional<Fault> fault_at(const ComparisonData& d, const Kept& a, const Kept& b, const Predictor& from_a,
                              const Predictor* from_b) {
  auto fault = recognise(from_a, a, b.value, d.tolerance);
  if (!from_b || fault) return fault;
  fault = recognise(*from_b, b, a.value, d.tolerance);
  // What the values do not tell, the weights of the place may.
  for (const auto& p : from_a.model.parameters().all()) {
    const Parameter* q = from_b->model.parameters().find(p->name);
    if (fault || !q || p->shape != q->shape || !belongs_to(p->name, a.module)) continue;
    const Tensor other = f32_of(q->value);
    if (relative_difference(f32_of(p->value), other) <= d.tolerance) continue;
    fault = recognise_weight(from_a, *p, other, d.tolerance);
  }
  return fault;
}

ComparisonData compared(const Predictor& a, const Observed& b, const Predictor* from_b,
                        const CompareOptions& o) {
  ComparisonData d{.a = o.a, .b = o.b, .tolerance = o.tolerance.value_or(kActivations)};
  for (const Kept& place : a.observed.all()) {
    const Kept* other = b.find(place.module, place.quantity);
    if (!other) {
      d.only_a.push_back(place.name());
      continue;
    }
    PlaceDifference difference{.module = place.module, .quantity = place.quantity};
    if (place.value.shape() == other->value.shape()) {
      difference.by_token = difference_by_token(place.value, other->value);
      difference.difference = *std::max_element(difference.by_token.begin(), difference.by_token.end());
    } else {
      difference.difference =
          std::numeric_limits<double>::infinity();  // heads or hidden columns of another number
    }
    if (!d.first && difference.difference > d.tolerance) {
      d.first = d.places.size();
      if (!difference.by_token.empty()) d.fault = fault_at(d, place, *other, a, from_b);
    }
    d.places.push_back(std::move(difference));
  }
  for (const Kept& place : b.all()) {
    if (!a.observed.find(place.module, place.quantity)) d.only_b.push_back(place.name());
  }
  return d;
}

void note_lengths(ComparisonData& d, const CompareInput& input) {
  d.tokens = static_cast<int64_t>(input.ids.size());
  d.decoder_tokens = static_cast<int64_t>(input.decoder_ids.size());
}

void require_ids(const ModelConfig& c, const CompareInput& input) {
  const bool both = c.has_encoder() && c.has_decoder();
  if (input.ids.empty()) throw Error(ErrorKind::input, "there are no token ids to run");
  if (input.decoder_ids.empty() == both) {
    throw Error(ErrorKind::input,
                both ? "an encoder-decoder also needs ids for its decoder"
                     : "ids for a decoder are for encoder-decoders; this model reads one sequence");
  }
}

// Of a vector its role tells what another one does to the values.
std::optional<Fault> fault_of_role(const ComparisonData& d, const Parameter& p) {
  const std::string whose = fmt::format("{}'s {} is another one than {}'s: ", d.b, p.name, d.a);
  if (p.role == Role::gain)
    return Fault{FaultKind::scale, whose + "what it multiplies is the same times a factor for each column"};
  if (p.role == Role::bias || p.name.ends_with("_bias"))  // that of logits may be a buffer
    return Fault{FaultKind::shift, whose + "what it is added to is the same plus one vector for every token"};
  return std::nullopt;
}

void compare_parameter(ComparisonData& d, const Predictor& a, const Predictor& b, const Parameter& p,
                       const Parameter& q) {
  const Tensor x = f32_of(p.value), y = f32_of(q.value);
  d.places.push_back({.module = p.name, .difference = relative_difference(x, y)});
  if (d.first || d.places.back().difference <= d.tolerance) return;
  d.first = d.places.size() - 1;
  d.fault = recognise_weight(a, p, y, d.tolerance);
  if (!d.fault) d.fault = recognise_weight(b, q, x, d.tolerance);
  if (!d.fault) d.fault = fault_of_role(d, p);
}

// A tensor that one model has: of a norm it is that norm which the other lacks.
void note_missing(ComparisonData& d, const Parameter& p, const std::string& has, const std::string& lacks) {
  d.places.push_back({.module = p.name, .difference = std::numeric_limits<double>::infinity()});
  (has == d.a ? d.only_a : d.only_b).push_back(p.name);
  if (d.first) return;
  d.first = d.places.size() - 1;
  const std::string module = p.name.substr(0, p.name.rfind('.'));
  const std::string leaf = module.substr(module.rfind('.') + 1);
  if (leaf.find("norm") != std::string::npos)
    d.fault = Fault{FaultKind::missing_norm, fmt::format("{} lacks {}'s {}", lacks, has, module)};
}

}  // namespace

std::vector<double> difference_by_token(const Tensor& a, const Tensor& b) {
  const int64_t rows = b.rows(), width = b.width();
  std::vector<double> size(rows), result(rows);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      size[r] += double{b.f32()[i]} * b.f32()[i];
      result[r] += std::pow(double{a.f32()[i]} - b.f32()[i], 2);
    }
  }
  const double least = 1e-6 * *std::max_element(size.begin(), size.end());
  for (int64_t r = 0; r < rows; ++r) {
    result[r] = result[r] == 0 ? 0 : std::sqrt(result[r] / std::max(size[r], least));
    if (std::isnan(result[r])) result[r] = std::numeric_limits<double>::infinity();
  }
  return result;
}

CompareInput compare_input(const Model& model, const Tokenizer& tokenizer, const std::string& text,
                           const std::string& target) {
  PassInput input = read_input(model, tokenizer, text, target);
  return {std::move(input.ids), std::move(input.decoder_ids)};
}

Comparison Comparison::of_models(const Model& a, const Model& b, const CompareInput& input,
                                 const CompareOptions& o) {
  require_one_shape(a.config(), b.config(), o);
  require_ids(a.config(), input);
  const PassInput pass{input.ids, input.decoder_ids};
  const Observed seen_a = observe_pass(a.transformer(), pass), seen_b = observe_pass(b.transformer(), pass);
  for (const Model* model : {&a, &b}) probe_pass(model->transformer(), pass, o.observer);
  const Predictor from_a{a.transformer(), seen_a, o.a, o.b}, from_b{b.transformer(), seen_b, o.b, o.a};
  Comparison c;
  *c.data_ = compared(from_a, seen_b, &from_b, o);
  c.data_->config = config_differences(a.config(), b.config());
  note_lengths(*c.data_, input);
  return c;
}

Comparison Comparison::with_reference(const Model& a, const std::string& path, const CompareInput& input,
                                      const CompareOptions& o) {
  const Reference reference = read_reference(a, path);
  const bool given = !input.ids.empty() || !input.decoder_ids.empty();
  if (given && (input.ids != reference.input.ids || input.decoder_ids != reference.input.decoder_ids)) {
    throw Error(ErrorKind::input,
                fmt::format("{} was recorded from other token ids than those given; without any, its "
                            "own are read",
                            path));
  }
  require_ids(a.config(), reference.input);
  const PassInput pass{reference.input.ids, reference.input.decoder_ids};
  const Observed seen = observe_pass(a.transformer(), pass);
  probe_pass(a.transformer(), pass, o.observer);
  Comparison c;
  *c.data_ = compared({a.transformer(), seen, o.a, o.b}, reference.observed, nullptr, o);
  note_lengths(*c.data_, reference.input);
  if (c.data_->places.empty()) {
    throw Error(ErrorKind::file, fmt::format("{} holds no activation of a place that this model has", path));
  }
  return c;
}

Comparison Comparison::of_weights(const Model& a, const Model& b, const CompareOptions& o) {
  require_one_shape(a.config(), b.config(), o);
  Comparison c;
  ComparisonData& d = *c.data_;
  d = {.weights = true, .a = o.a, .b = o.b, .tolerance = o.tolerance.value_or(kWeights)};
  d.config = config_differences(a.config(), b.config());
  const Observed none;
  const Predictor from_a{a.transformer(), none, o.a, o.b}, from_b{b.transformer(), none, o.b, o.a};
  const ParameterTable &table_a = a.transformer().parameters(), &table_b = b.transformer().parameters();
  for (const auto& p : table_a.all()) {
    const Parameter* q = table_b.find(p->name);
    if (!q) {
      note_missing(d, *p, o.a, o.b);
    } else if (p->shape != q->shape) {
      throw Error(ErrorKind::input,
                  fmt::format("{} is {} in {} and {} in {}: such models cannot be compared by weights",
                              p->name, p->shape.str(), o.a, q->shape.str(), o.b));
    } else {
      compare_parameter(d, from_a, from_b, *p, *q);
    }
  }
  for (const auto& q : table_b.all()) {
    if (!table_a.find(q->name)) note_missing(d, *q, o.b, o.a);
  }
  return c;
}

Comparison::Comparison() : data_(std::make_unique<ComparisonData>()) {}
Comparison::~Comparison() = default;
Comparison::Comparison(Comparison&&) noexcept = default;
Comparison& Comparison::operator=(Comparison&&) noexcept = default;

bool Comparison::equal() const {
  return !data_->first;
}

std::string Comparison::text() const {
  return comparison_text(*data_);
}

void Comparison::write_page(const std::string& path) const {
  write_file_atomically(path, comparison_page(*data_, data_->a + " and " + data_->b));
}

const ComparisonData& Comparison::data() const {
  return *data_;
}

}  // namespace plumb

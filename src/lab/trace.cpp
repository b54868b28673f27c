#include "plumb/trace.h"

#include <cmath>

#include "base/file.h"
#include "lab/model_words.h"
#include "lab/trace_data.h"
#include "nn/depth.h"
#include "probe/measures.h"

namespace plumb {
namespace {

std::vector<std::string> spelled(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) tokens.push_back(tokenizer.decode(std::span(&id, 1), true));
  return tokens;
}

double rms_times(const Tensor& x, const Tensor& gate) {
  double sum = 0;
  const int64_t width = x.width();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double v = double{x.f32()[i]} * gate.f32()[gate.numel() == 1 ? 0 : i % width];
    sum += v * v;
  }
  return std::sqrt(sum / static_cast<double>(x.numel()));
}

double mean_cosine(const Tensor& a, const Tensor& b) {
  const CosineSum sum = row_cosines(a, b);
  return sum.sum / static_cast<double>(sum.rows);
}

// The norms of a sub-layer: name, and the sites before and after.
struct NormSites {
  const char *name, *before, *after;
};
constexpr NormSites kSublayerNorms[] = {{"norm_in", "stream", "input"},    {"query_norm", "query", "q"},
                                        {"key_norm", "key", "k"},          {"norm_inner", "heads", "inner"},
                                        {"norm_inner", "hidden", "inner"}, {"norm_branch", "raw", "branch"},
                                        {"norm_out", "sum", "output"}};

bool has_norm(const std::string& name, const SublayerFormula& f, const LayerConfig& c) {
  if (name == "norm_in") return f.norm_in;
  if (name == "norm_inner") return f.norm_inner;
  if (name == "norm_branch") return f.norm_branch;
  if (name == "norm_out") return f.norm_out;
  return c.qk_norm != QkNorm::none;
}

}  // namespace

Spread spread_of(const Tensor& x) {
  double sum = 0, squares = 0, variances = 0;
  const int64_t rows = x.rows(), width = x.width();
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x.f32() + r * width;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i) mean += row[i];
    sum += mean;
    mean /= static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) {
      squares += double{row[i]} * row[i];
      variance += (row[i] - mean) * (row[i] - mean);
    }
    variances += variance / static_cast<double>(width);
  }
  const auto n = static_cast<double>(x.numel());
  return {sum / n, std::sqrt(variances / static_cast<double>(rows)), std::sqrt(squares / n)};
}

std::vector<NormNumbers> norm_numbers(const ModelConfig& config, const Observed& observed) {
  std::vector<NormNumbers> norms;
  const auto add = [&](const std::string& name, const LayerConfig& c, const Kept* before, const Kept* after) {
    if (!before || !after) return;
    norms.push_back({name, norm_words(c.norm), spread_of(before->value), spread_of(after->value)});
  };
  std::string stack;
  const auto end_of = [&](Side side) {
    const LayerConfig last = resolved_layer(config, side, layers_of(config, side) - 1);
    const std::string name = stack_name(side);
    if (has_final_norm(config, side)) {
      add(name + ".final_norm", last, observed.find(name, "output"), observed.find(name, "final"));
    }
  };
  for (const SublayerName& s : sublayers_of(config)) {
    const LayerConfig c = resolved_layer(config, s.side, s.layer);
    if (stack != stack_name(s.side)) {
      if (!stack.empty()) end_of(Side::encoder);
      stack = stack_name(s.side);
      const Kept* embedded = observed.find(stack, "embedding");
      if (config.embedding_norm || sublayer_formula(config, s.side, s.layer).unit)
        add(stack + ".embedding_norm", c, embedded, observed.find(s.module, "stream"));
    }
    const SublayerFormula f = sublayer_formula(config, s.side, s.layer, part_named(s.part));
    for (const NormSites& n : kSublayerNorms) {
      if (!has_norm(n.name, f, c)) continue;
      const bool of_read = f.mixing != Mixing::none && std::string_view(n.before) == "stream";
      add(s.module + "." + n.name, c, observed.find(s.module, of_read ? "read" : n.before),
          observed.find(s.module, n.after));
    }
  }
  end_of(config.has_decoder() ? Side::decoder : Side::encoder);
  add("head.norm", config.layer, observed.find("head", "hidden"), observed.find("head", "inner"));
  return norms;
}

std::vector<SublayerNumbers> sublayer_numbers(const Transformer& model, const Observed& observed) {
  std::vector<SublayerNumbers> numbers;
  for (const SublayerName& s : sublayers_of(model.config())) {
    const SublayerFormula f = sublayer_formula(model.config(), s.side, s.layer, part_named(s.part));
    const Tensor x = observed.value(s.module, "stream"), branch = observed.value(s.module, "branch"),
                 y = observed.value(s.module, "output");
    SublayerNumbers n{s.module, spread_of(x), spread_of(branch), spread_of(y), {}, mean_cosine(x, y)};
    const double kept = rms_times(x, shortcut_of(model.parameters(), s.module, f));
    if (kept > 0) n.added = rms_times(branch, gate_of(model.parameters(), s.module, f)) / kept;
    numbers.push_back(n);
  }
  return numbers;
}

Trace::Trace(Model& model, const Tokenizer& tokenizer, const std::string& text, const TraceOptions& options)
    : data_(std::make_unique<TraceData>()) {
  const PassInput input = read_input(model, tokenizer, text, options.target);
  const Observed observed = observe_pass(model.transformer(), input);
  probe_pass(model.transformer(), input, options.observer);
  *data_ = {.config = model.config(),
            .tokens = spelled(tokenizer, input.ids),
            .decoder_tokens = spelled(tokenizer, input.decoder_ids),
            .shapes = shape_steps(model.config(), input, observed),
            .order = order_in_words(model.config()),
            .norms = norm_numbers(model.config(), observed),
            .sublayers = sublayer_numbers(model.transformer(), observed),
            .attention = attention_numbers(model.config(), observed)};
  if (options.gradient) data_->gradient = loss_gradient(model, tokenizer, input);
}

Trace::~Trace() = default;
Trace::Trace(Trace&&) noexcept = default;
Trace& Trace::operator=(Trace&&) noexcept = default;

std::string Trace::text() const {
  return trace_text(*data_);
}

void Trace::write_page(const std::string& path, const std::string& name) const {
  write_file_atomically(path, trace_page(*data_, name));
}

const TraceData& Trace::data() const {
  return *data_;
}

}  // namespace plumb
